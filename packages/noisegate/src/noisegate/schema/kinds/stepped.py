"""Base of the kinds of column whose values are a whole number of steps apart.

Such values are integers inside the program, so that arithmetic on them is exact. Two
integers describe a value:

- in *units*, which depend on the kind: the number itself, units of the last decimal,
  days or microseconds since 1970-01-01 (`SteppedColumn.to_units`);
- as a *rank*, its index among all values of the column, ascending::

      Integer(lower=10, upper=30, step=10, atoms=[0, 99])

      value     0      10      20      30      99 rank      0       1       2       3
      4
                ╰ atom outside the bounds      ╰ last_rank
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from noisegate.errors import SchemaError
from noisegate.schema.checks import checked_integer, set_fields
from noisegate.schema.kinds.bounded import (
    BoundedColumn,
    check_bounds,
    split_outer_atoms,
)
from noisegate.schema.kinds.kind import Checks
from noisegate.schema.kinds.limits import limit_offsets

MAX_STEPS = 2**53
"""Largest distance of two bounds, in steps: float64 can distinguish so many in [0, 1].
"""


def check_step(column: SteppedColumn) -> None:
    """Checks that the step, if any, is a positive integer, and stores it."""
    if column.step is None:
        return
    set_fields(column, step=checked_integer(column.name, "step", column.step))
    if column.step < 1:
        raise SchemaError(
            f"column {column.name!r}: step = {column.step} must be 1 or more, or "
            "left out"
        )


def check_whole_steps(column: SteppedColumn) -> None:
    """Checks that bounds and atoms are whole steps apart, and not too many of them."""
    first, last = column.unit_bounds
    width = last - first
    if width // column.spacing > MAX_STEPS:
        raise SchemaError(
            f"column {column.name!r}: the bounds are {width} {column.units_text} "
            f"apart, more than the 2**53 = {MAX_STEPS} that can be distinguished; "
            'narrow them, or use a coarser kind ("continuous", "date")'
        )
    if width % column.spacing:
        raise SchemaError(
            f"column {column.name!r}: upper = {column.upper} is not a whole number of "
            f"steps of {column.step} above lower = {column.lower}; move a bound "
            "outwards, or correct the step"
        )
    for atom in column.atoms:
        units = column.to_units(atom)
        if first <= units <= last and (units - first) % column.spacing:
            raise SchemaError(
                f"column {column.name!r}: atom {atom} lies within the bounds and is "
                f"not a whole number of steps of {column.step} above lower = "
                f"{column.lower}; correct it, or the step"
            )


@dataclass(frozen=True, kw_only=True)
class SteppedColumn(BoundedColumn):
    """A column whose values lie a whole number of steps above the lower bound.

    Other values within the bounds are moved to the nearest one. The bounds are at most
    2⁵³ steps apart.

    Attributes:
        step: Distance between two neighbouring values, in the unit of the kind; None
            for the smallest distance of the kind.
        units_text: Name of the units, for messages: "days".
        numbers_per_gap: How many of the column's numbers make 1 in the unit of steps
            and of gaps of linked tables. It is above 1 for points in time only, whose
            steps are in seconds.
        gaps_are_seconds: Whether the distance between two values is a length of time in
            seconds, as for points in time.
        has_cell_for_each_value: Whether a model has a bin for each value, if there are
            few values.

    Examples:
        >>> from noisegate.schema import Date
        >>> born = Date(name="born", lower="1970-01-01", upper="1970-12-31")
        >>> born.to_units(born.upper), born.from_units(1)
        (364, datetime.date(1970, 1, 2))
    """

    step: Any = None

    stepped: ClassVar[Literal[True]] = True
    units_text: ClassVar[str]
    numbers_per_gap: ClassVar[int] = 1
    has_cell_for_each_value: ClassVar[bool] = True
    gaps_are_seconds: ClassVar[bool] = False
    checks: ClassVar[Checks] = (check_bounds, check_step, check_whole_steps)

    @property
    def unit_bounds(self) -> tuple[int, int]:
        """The lower and the upper bound, in units."""
        return self.to_units(self.lower), self.to_units(self.upper)

    @abstractmethod
    def to_units(self, value: Any) -> int:
        """Converts a value to units.

        Args:
            value: A value in the type of the kind, such as a date.

        Returns:
            The number of units: of 1, of the last decimal, or of days or microseconds
            since 1970-01-01 (in UTC if there is a time zone).
        """

    @abstractmethod
    def from_units(self, units: int) -> Any:
        """Converts units to a value in the type of the kind."""

    def to_number(self, value: Any) -> float:
        """Converts a value to a number: itself if it has a fraction, else its units."""
        return float(value) if self.fractional else self.to_units(value)

    def value_of(self, number: float) -> Any:
        """Converts a number to a value in the type of the kind."""
        return number if self.fractional else self.from_units(round(number))

    @property
    def spacing(self) -> int:
        """Distance between two neighbouring values, in units."""
        if self.step is None:
            return 1
        if self.fractional:
            return self.to_units(self.step)
        return int(self.step) * self.numbers_per_gap

    @property
    def units_per_number(self) -> int:
        """How many units make 1 of the column's numbers; above 1 for decimals only."""
        return self.to_units(1.0) if self.fractional else 1

    @property
    def units_per_gap(self) -> int:
        """How many units make 1 in the unit of gaps in a schema of linked tables."""
        return self.units_per_number * self.numbers_per_gap

    @cached_property
    def outer_atoms(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Atoms below the lower bound, and atoms above the upper bound, in units."""
        atoms = tuple(self.to_units(atom) for atom in self.all_atoms)
        lower, upper = self.unit_bounds
        return split_outer_atoms(atoms, lower, upper)

    @cached_property
    def limit_values(self) -> tuple[Any, ...]:
        """The value that represents each limit, beyond all other values."""
        stated_units = [
            self.to_units(value) for value in (self.lower, self.upper, *self.atoms)
        ]
        values = []
        for offset in limit_offsets(self.limits):
            outermost = min(stated_units) if offset < 0 else max(stated_units)
            values.append(self.from_units(outermost + offset))
        return tuple(values)

    @property
    def last_rank(self) -> int:
        """Rank of the largest value; the smallest value has rank 0.

        Atoms outside the bounds have a rank, too: `Integer(lower=0, upper=2,
        atoms=[9])` has the ranks 0 to 3.
        """
        first, last = self.unit_bounds
        below, above = self.outer_atoms
        return (last - first) // self.spacing + len(below) + len(above)
