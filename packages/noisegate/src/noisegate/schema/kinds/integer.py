"""Columns of integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from noisegate.schema.checks import checked_integer
from noisegate.schema.kinds.bounded import number_from_text
from noisegate.schema.kinds.stepped import SteppedColumn

# PyArrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from noisegate.schema.parsing import Parsed


@dataclass(frozen=True, kw_only=True)
class Integer(SteppedColumn):
    """A column of integers between two bounds, at most 2⁵³ steps apart.

    Other numbers are moved to the nearest value; half a step goes up.

    Attributes:
        name: Name of the column in the data.
        lower: Smallest value, by public knowledge.
        upper: Largest value, a whole number of steps above `lower`.
        missing: Whether a value may be absent.
        atoms: Single values that many records have; see `Continuous`.
        format: How text writes the numbers; see `Continuous`.
        type: Arrow type of the column; see `Continuous`.
        step: Distance of two neighbouring values; None for 1.

    Examples:
        >>> from noisegate.schema import Integer
        >>> Integer(name="age", lower=0, upper=99).unit_bounds
        (0, 99)
        >>> Integer(name="dose", lower=5, upper=500, step=5, atoms=[0]).last_rank
        100
    """

    lower: int
    upper: int
    atoms: tuple[int, ...] = ()
    step: int | None = None

    kind: ClassVar[Literal["integer"]] = "integer"
    checked_value = staticmethod(checked_integer)
    scale: ClassVar[str] = "numbers"
    grades_towards_zero: ClassVar[bool] = True
    units_text: ClassVar[str] = "whole numbers"
    expected_value: ClassVar[str] = "a whole number"
    table_schema_type: ClassVar[str] = "integer"
    croissant_type: ClassVar[str] = "sc:Integer"

    def to_units(self, value: int) -> int:
        """Returns the integer itself."""
        return value

    def from_units(self, units: int) -> int:
        """Returns the integer itself."""
        return units

    def read_value(self, value: Any) -> int:
        """Returns an integer, or text of one."""
        number = number_from_text(self.name, value, fractional=False)
        return self.checked_value(self.name, "a value", number)

    def parse_unformatted(self, cells: pa.Array) -> Parsed:
        """Parses integers, as int64."""
        from noisegate.schema.parsing import parse_integers

        return parse_integers(cells)

    def parse_quickly(
        self, texts: pa.Array, missing_markers: pa.Array
    ) -> npt.NDArray[Any] | None:
        """Parses integers, if each text is digits as it stands."""
        from noisegate.schema.parsing import parse_plain_integers

        return parse_plain_integers(texts, missing_markers)
