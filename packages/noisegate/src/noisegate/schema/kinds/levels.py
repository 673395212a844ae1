"""What kinds of column share whose levels are text or integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from noisegate.schema.checks import TEXT_PADDING, checked_levels, set_fields
from noisegate.schema.kinds.coded import CodedColumn

# PyArrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from noisegate.schema.parsing import Parsed


class LevelColumn(CodedColumn):
    """A column of levels that the schema lists, all text or all integers.

    Examples:
        >>> from noisegate.schema import Ordinal
        >>> pain = Ordinal(name="pain", levels=("none", "some", "much"))
        >>> pain.code_of("some"), pain.code_of("little")
        (1, None)
    """

    levels: tuple[str | int, ...]

    def _check(self) -> None:
        """Checks the levels, and stores them."""
        set_fields(self, levels=checked_levels(self.name, self.levels))

    @property
    def has_text_levels(self) -> bool:
        """Whether the levels are text; else they are integers."""
        return isinstance(self.levels[0], str)

    @property
    def stated_texts(self) -> tuple[Any, ...]:
        """The levels."""
        return self.levels

    @property
    def decoded_levels(self) -> tuple[Any, ...]:
        """The levels."""
        return self.levels

    def code_of(self, value: Any) -> int | None:
        """Returns the code of a level; as in data, an integer may be text."""
        if isinstance(value, bool | np.bool_):
            return None
        text = str(value).strip(TEXT_PADDING)
        texts = [str(level) for level in self.levels]
        return texts.index(text) if text in texts else None

    def parse_cells(self, cells: pa.Array) -> Parsed:
        """Parses levels, as their codes; what is no level is bad."""
        from noisegate.schema.parsing import parse_codes

        return parse_codes(self.levels, cells)

    def parse_quickly(
        self, texts: pa.Array, missing_markers: pa.Array
    ) -> npt.NDArray[Any] | None:
        """Parses levels, if each text is one as it stands; a level is no marker."""
        if not self.has_text_levels:
            return None
        from noisegate.schema.parsing import parse_plain_levels

        return parse_plain_levels(texts, self.levels)

    @property
    def expected_value(self) -> str:
        """What a cell must hold, for messages."""
        return f"one of the {len(self.levels)} levels in the schema"

    @property
    def table_schema_type(self) -> str:
        """Type of the column in a Table Schema of Frictionless."""
        return "string" if self.has_text_levels else "integer"

    @property
    def croissant_type(self) -> str:
        """Type of the column in a Croissant description."""
        return "sc:Text" if self.has_text_levels else "sc:Integer"
