"""What kinds of column with levels share: a code for each level.

`CodedColumn` is for levels of any type, `LevelColumn` for those that are text or
integers and that the schema lists.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from noisegate.schema.checks import (
    TEXT_PADDING,
    checked_column_name,
    checked_flag,
    checked_levels,
    set_fields,
)
from noisegate.schema.kinds.kind import Checks, ColumnKind, QuickParser

# PyArrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from noisegate.schema.parsing import Parsed


class CodedColumn(ColumnKind):
    """A column with levels, which are encoded as codes.

    The code of a level is its index. The code of a missing value is the number of
    levels.

    Attributes:
        levels: All levels that the column may have.
        ordered: Whether the levels have an order.
        is_truth_value: Whether the levels are false and true.

    Examples:
        >>> from noisegate.schema import Boolean, CodedColumn
        >>> isinstance(Boolean(name="ill"), CodedColumn)
        True
    """

    levels: Any

    numeric: ClassVar[Literal[False]] = False
    ordered: ClassVar[bool] = False
    is_truth_value: ClassVar[bool] = False

    def __post_init__(self) -> None:
        set_fields(self, name=checked_column_name(self.name))
        self.run_checks()
        set_fields(self, missing=checked_flag(self.name, "missing", self.missing))

    @property
    def size(self) -> int:
        """Number of codes: one for each level, and one for missing values if any."""
        return len(self.levels) + self.missing

    @property
    def range_text(self) -> str:
        """The number of levels as text, for cards."""
        return f"{len(self.levels)} levels"

    @abstractmethod
    def code_of(self, value: Any) -> int | None:
        """Returns the code of a value in a condition, or None if there is none."""

    @property
    @abstractmethod
    def stated_texts(self) -> tuple[Any, ...]:
        """Texts of cells that the schema states; none may stand for a missing value."""

    @property
    @abstractmethod
    def decoded_levels(self) -> tuple[Any, ...]:
        """The decoded value of each level: text, an integer or a truth value."""


def check_levels(column: LevelColumn) -> None:
    """Checks the levels, and stores them."""
    set_fields(column, levels=checked_levels(column.name, column.levels))


def parse_text_levels(
    column: LevelColumn, texts: pa.Array, missing_markers: pa.Array
) -> npt.NDArray[Any] | None:
    """Parses a column in which every text is a level; else returns None.

    No level is a missing marker.
    """
    if not column.has_text_levels:
        return None
    from noisegate.schema.parsing import parse_plain_levels

    return parse_plain_levels(texts, column.levels)


class LevelColumn(CodedColumn):
    """A column of levels that the schema lists, all text or all integers.

    Attributes:
        levels: All levels that the column may have.
        other: The level that replaces every value that is not in `levels`; None refuses
            such values. Only some kinds have this field.

    Examples:
        >>> from noisegate.schema import Ordinal
        >>> pain = Ordinal(name="pain", levels=("none", "some", "much"))
        >>> pain.code_of("some"), pain.code_of("little")
        (1, None)
    """

    levels: tuple[str | int, ...]
    other: str | int | None = None

    checks: ClassVar[Checks] = (check_levels,)
    quick_parser: ClassVar[QuickParser | None] = staticmethod(parse_text_levels)

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
        """Returns the code of a level. An integer may be given as text, as in data."""
        if isinstance(value, bool | np.bool_):
            return None
        text = str(value).strip(TEXT_PADDING)
        texts = [str(level) for level in self.levels]
        return texts.index(text) if text in texts else None

    def parse_cells(self, cells: pa.Array) -> Parsed:
        """Parses levels as their codes. Other values are bad, or become `other`."""
        from noisegate.schema.parsing import parse_codes

        return parse_codes(self.levels, cells, other=self.other)

    @property
    def expected_value(self) -> str:
        """Description of a valid cell, for messages."""
        return f"one of the {len(self.levels)} levels in the schema"

    @property
    def table_schema_type(self) -> str:
        """Type of the column in a Table Schema of Frictionless."""
        return "string" if self.has_text_levels else "integer"

    @property
    def croissant_type(self) -> str:
        """Type of the column in a Croissant description."""
        return "sc:Text" if self.has_text_levels else "sc:Integer"
