"""Columns of levels without an order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from noisegate.errors import SchemaError
from noisegate.schema.kinds.coded import LevelColumn

# PyArrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import pyarrow as pa

    from noisegate.schema.parsing import Parsed


@dataclass(frozen=True, kw_only=True)
class Categorical(LevelColumn):
    """A column of levels without an order.

    Attributes:
        name: Name of the column in the data.
        levels: Every value that the column may hold, all text or all integers.
        other: The level that stands for every value that is not listed; None to refuse
            such values.
        missing: Whether a value may be absent.
        type: Arrow type of the column in data, and in samples too; None for that of
            `decode`.

    Examples:
        >>> from noisegate.schema import Categorical
        >>> levels = ("nurse", "teacher", "other")
        >>> Categorical(name="job", levels=levels, other="other").size
        3
    """

    name: str
    levels: tuple[str | int, ...]
    other: str | int | None = None
    missing: bool = False
    type: str | None = None

    kind: ClassVar[Literal["categorical"]] = "categorical"
    cell_cure: ClassVar[str] = (
        "add the level to the schema, or name one of the levels as `other`; levels "
        "must be public knowledge"
    )

    def _check(self) -> None:
        """Checks that `other` is one of the levels, too."""
        super()._check()
        if self.other is None:
            return
        # The types are compared too, as True equals the level 1.
        has_type_of_levels = type(self.other) is type(self.levels[0])
        if not has_type_of_levels or self.other not in self.levels:
            raise SchemaError(
                f"column {self.name!r}: other = {self.other!r} is not one of the "
                "levels; add it to levels"
            )

    def parse_cells(self, cells: pa.Array) -> Parsed:
        """Parses levels, as their codes; another value is bad, or becomes `other`."""
        from noisegate.schema.parsing import parse_codes

        return parse_codes(self.levels, cells, other=self.other)
