"""Columns of integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from noisegate.schema.checks import checked_integer
from noisegate.schema.kinds.bounded import NumberColumn
from noisegate.schema.kinds.stepped import SteppedColumn


@dataclass(frozen=True, kw_only=True)
class Integer(NumberColumn, SteppedColumn):
    """A column of integers between two bounds, at most 2⁵³ steps apart.

    Other numbers are moved to the nearest value; half a step is rounded up.

    Attributes:
        name: Name of the column in the data.
        lower: Smallest value, by public knowledge.
        upper: Largest value, a whole number of steps above `lower`.
        missing: Whether a value may be absent.
        atoms: Single values that many records have; see `Continuous`.
        format: Format of the numbers in text; see `Continuous`.
        type: Arrow type of the column; see `Continuous`.
        step: Distance between two neighbouring values; None for 1.
        limits: Texts that stand for a number beyond the bounds; see `Continuous`.

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
    limits: tuple[str, ...] = ()

    kind: ClassVar[Literal["integer"]] = "integer"
    checked_value = staticmethod(checked_integer)
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
