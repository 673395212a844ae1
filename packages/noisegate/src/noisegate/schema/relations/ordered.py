"""One column is never below another: `discharge >= admission`.

Measured are the lower column and the difference of the two. The difference is a column
of its own, named "discharge - admission": whole numbers of days between dates, a length
of time between points in time, a number between numbers.

A record that breaks the relation counts with the smallest difference. One whose lower
value is missing, or stands for none as 999 does, has no difference, and counts as one
whose upper value is missing as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from noisegate.errors import SchemaError
from noisegate.schema.columns import Column
from noisegate.schema.kinds.continuous import Continuous
from noisegate.schema.kinds.datetime import Datetime
from noisegate.schema.kinds.decimal import Decimal
from noisegate.schema.kinds.duration import Duration
from noisegate.schema.kinds.integer import Integer
from noisegate.schema.layout import (
    bounds_of,
    is_outer_atom,
    outer_atoms_of,
)
from noisegate.schema.relations.expression import quoted
from noisegate.schema.relations.relation import (
    Columns,
    ColumnValues,
    Mask,
    Relation,
    Values,
    check_missing_follows,
    related_number,
)


@dataclass(frozen=True, kw_only=True)
class Ordered(Relation):
    """A relation `upper_name >= lower_name`, or `>` if it is strict.

    Attributes:
        upper_name: The column that is never below the other.
        lower_name: The other one.
        strict: Whether they are never equal.
        largest: Largest difference, by public knowledge, in the unit of the difference:
            days, seconds or the numbers themselves; None for what the bounds of the
            columns allow.

    Examples:
        >>> from noisegate.schema import Date
        >>> from noisegate.schema.relations.ordered import Ordered
        >>> stay = Ordered(upper_name="discharge", lower_name="admission", largest=60)
        >>> bounds = {"lower": "2024-01-01", "upper": "2024-12-31"}
        >>> names = ("admission", "discharge")
        >>> columns = {name: Date(name=name, **bounds) for name in names}
        >>> [str(stay), *stay.coordinates(columns)]  # doctest: +ELLIPSIS
        ['discharge >= admission', Integer(name='discharge - admission', lower=0, ...)]
    """

    upper_name: str
    lower_name: str
    strict: bool = False
    largest: float | None = None

    @property
    def sign(self) -> Literal[">", ">="]:
        """The sign between the two."""
        return ">" if self.strict else ">="

    @property
    def difference_name(self) -> str:
        """Name of the column of differences."""
        return f"{self.upper_name} - {self.lower_name}"

    @property
    def names(self) -> tuple[str, ...]:
        """Both columns."""
        return self.upper_name, self.lower_name

    @property
    def computed(self) -> tuple[str, ...]:
        """The upper column."""
        return (self.upper_name,)

    @property
    def dependent(self) -> tuple[str, ...]:
        """The upper column."""
        return (self.upper_name,)

    def __str__(self) -> str:
        return f"{quoted(self.upper_name)} {self.sign} {quoted(self.lower_name)}"

    def form(self) -> dict[str, Any]:
        """Returns its form in a schema file."""
        if self.largest is None:
            return {"rule": str(self)}
        return {"rule": str(self), "largest": self.largest}

    def check(self, columns: Columns) -> None:
        """Checks that both columns are of one sort, and that their bounds allow it."""
        upper = related_number(columns, self.upper_name, self)
        lower = related_number(columns, self.lower_name, self)
        if upper.scale != lower.scale:
            raise SchemaError(
                f"relation {self!s}: {upper.scale} cannot be compared with "
                f"{lower.scale}; use columns of one sort"
            )
        has_room = upper.upper > lower.upper or (
            upper.upper == lower.upper and not self.strict
        )
        if not has_room:
            comparison = "above" if self.strict else "at least"
            raise SchemaError(
                f"relation {self!s}: the upper bound of {self.upper_name!r} is "
                f"{upper.upper}; it must be {comparison} that of "
                f"{self.lower_name!r}, {lower.upper}: widen it"
            )
        check_missing_follows(self, self.upper_name, columns, (self.lower_name,))
        if outer_atoms_of(lower) and not upper.missing:
            raise SchemaError(
                f"relation {self!s}: {self.lower_name!r} has atoms outside its bounds, "
                f"to which nothing can be added; set missing = true for "
                f"{self.upper_name!r}"
            )
        if self.largest is not None:
            self._check_largest(columns)
        self.coordinates(columns)  # its bounds may be those of no column

    def _check_largest(self, columns: Columns) -> None:
        """Checks that the largest difference is a number above the smallest."""
        is_number = isinstance(self.largest, int | float) and not isinstance(
            self.largest, bool
        )
        smallest = self._smallest(columns) / self._units_per_number(columns)
        if not is_number or not self.largest > smallest:  # type: ignore[operator]
            raise SchemaError(
                f"relation {self!s}: largest = {self.largest!r} must be a number above "
                f"{smallest:g}, in the unit of the difference"
            )

    # --- The column of differences. ---

    def coordinates(self, columns: Columns) -> tuple[Column, ...]:
        """Returns the column of differences."""
        upper: Any = columns[self.upper_name]
        name = self.difference_name
        missing = upper.missing
        # Below all differences, one for each atom of the upper column.
        atoms = tuple(range(-len(outer_atoms_of(upper)), 0))
        if not self._is_exact(columns):
            return (
                Continuous(
                    name=name,
                    lower=0.0,
                    upper=self._largest_real(columns),
                    missing=missing,
                    atoms=atoms,
                ),
            )
        step = self._step(columns)
        smallest = self._smallest(columns)
        step_count = math.ceil((self._largest_units(columns) - smallest) / step)
        largest_units = smallest + max(step_count, 1) * step
        scale = self._units_per_number(columns)
        if isinstance(upper, Datetime | Duration):
            return (
                Duration(
                    name=name,
                    lower=timedelta(seconds=smallest // scale),
                    upper=timedelta(seconds=largest_units // scale),
                    step=step // scale,
                    missing=missing,
                    atoms=tuple(timedelta(seconds=atom) for atom in atoms),
                ),
            )
        if scale == 1:
            return (
                Integer(
                    name=name,
                    lower=smallest,
                    upper=largest_units,
                    step=None if step == 1 else step,
                    missing=missing,
                    atoms=atoms,
                ),
            )
        return (
            Decimal(
                name=name,
                lower=smallest / scale,
                upper=largest_units / scale,
                step=step / scale,
                missing=missing,
                atoms=atoms,
            ),
        )

    def _is_exact(self, columns: Columns) -> bool:
        """Returns whether both columns have steps, so that differences are exact."""
        both = (columns[name] for name in self.names)
        return all(column.stepped for column in both)  # type: ignore[union-attr]

    def _units_per_number(self, columns: Columns) -> int:
        """Returns how many units, in which differences are computed, make 1 of them.

        Units are days, the last decimal, or microseconds, of which a second has 10⁶.
        """
        upper: Any = columns[self.upper_name]
        lower: Any = columns[self.lower_name]
        if not self._is_exact(columns):
            return 1
        return int(max(upper.units_per_gap, lower.units_per_gap))

    def _units(self, name: str, columns: Columns, numbers: Any) -> Any:
        """Converts numbers of a column to units; of real numbers, returns them."""
        column: Any = columns[name]
        if not self._is_exact(columns):
            return np.asarray(numbers, dtype=np.float64)
        units = np.asarray(numbers)
        if column.fractional:
            units = np.rint(units * float(column.units_per_number)).astype(np.int64)
        return units * (self._units_per_number(columns) // column.units_per_gap)

    def _step(self, columns: Columns) -> int:
        """Returns the distance of two neighbouring differences, in units."""
        distances = []
        for name in self.names:
            column: Any = columns[name]
            scale = self._units_per_number(columns) // column.units_per_gap
            distances.append(int(column.spacing) * scale)
        lowest = [
            int(self._units(name, columns, bounds_of(columns[name])[0]))  # type: ignore[arg-type]
            for name in self.names
        ]
        step: int = math.gcd(*distances, lowest[0] - lowest[1])
        if not isinstance(columns[self.upper_name], Datetime | Duration):
            return step
        # Lengths of time are whole seconds.
        units_per_second = self._units_per_number(columns)
        return max(step // units_per_second, 1) * units_per_second

    def _smallest(self, columns: Columns) -> int:
        """Returns the smallest difference, in units."""
        is_above_zero = self.strict and self._is_exact(columns)
        return self._step(columns) if is_above_zero else 0

    def _largest_real(self, columns: Columns) -> float:
        """Returns the largest difference of real numbers."""
        if self.largest is not None:
            return float(self.largest)
        lowest, _ = bounds_of(columns[self.lower_name])  # type: ignore[arg-type]
        _, highest = bounds_of(columns[self.upper_name])  # type: ignore[arg-type]
        return float(highest - lowest)

    def _largest_units(self, columns: Columns) -> int:
        """Returns the largest difference, in units."""
        if self.largest is not None:
            return math.ceil(self.largest * self._units_per_number(columns))
        lowest, _ = bounds_of(columns[self.lower_name])  # type: ignore[arg-type]
        _, highest = bounds_of(columns[self.upper_name])  # type: ignore[arg-type]
        return int(self._units(self.upper_name, columns, highest)) - int(
            self._units(self.lower_name, columns, lowest)
        )

    # --- Records. ---

    def measure(self, values: Values, columns: Columns) -> Values:
        """Computes the differences; see the module for records that have none."""
        upper: Any = columns[self.upper_name]
        lower: Any = columns[self.lower_name]
        upper_values = values[self.upper_name]
        lower_values = values[self.lower_name]
        (coordinate,) = self.coordinates(columns)
        differences = self._units(
            self.upper_name, columns, upper_values.numbers
        ) - self._units(self.lower_name, columns, lower_values.numbers)
        numbers = self._numbers(coordinate, columns, differences)
        lowest, highest = bounds_of(coordinate)  # type: ignore[arg-type]
        numbers = np.clip(numbers, lowest, highest)
        # An atom of the upper column, as 9999-12-31 for "still here", stays itself.
        atoms = outer_atoms_of(upper)
        for index, atom in enumerate(atoms):
            stand_in = index - len(atoms)
            numbers = np.where(upper_values.numbers == atom, stand_in, numbers)
        lower_is_none = lower_values.is_missing | is_outer_atom(
            lower, lower_values.numbers
        )
        return {
            self.difference_name: ColumnValues(
                numbers=numbers, is_missing=upper_values.is_missing | lower_is_none
            )
        }

    def _numbers(
        self, coordinate: Any, columns: Columns, differences: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        """Converts differences in units to numbers of the column of differences."""
        scale = self._units_per_number(columns)
        if scale == 1:
            return differences
        if coordinate.fractional:
            return np.asarray(differences / float(scale))
        return differences // scale

    def restore(self, values: Values, columns: Columns) -> Values:
        """Adds the differences to the lower column.

        The sum is moved up to the nearest value of the upper column, and into its
        bounds, which never takes it below the lower column.
        """
        upper: Any = columns[self.upper_name]
        lower_values = values[self.lower_name]
        difference = values[self.difference_name]
        base = self._units(self.lower_name, columns, lower_values.numbers)
        gaps = difference.numbers
        if self._is_exact(columns):
            scale = self._units_per_number(columns)
            gaps = np.rint(np.asarray(gaps) * float(scale)).astype(np.int64)
        total = base + np.maximum(gaps, 0)
        if self._is_exact(columns):
            numbers = _at_or_above(upper, total, self._units_per_number(columns))
        else:
            if self.strict:
                total = np.maximum(total, np.nextafter(base, np.inf))
            numbers = np.clip(total, upper.lower, upper.upper)
        atoms = outer_atoms_of(upper)
        for index, atom in enumerate(atoms):
            stand_in = index - len(atoms)
            numbers = np.where(difference.numbers == stand_in, atom, numbers)
        lower_is_none = lower_values.is_missing | is_outer_atom(
            columns[self.lower_name],  # type: ignore[arg-type]
            lower_values.numbers,
        )
        is_missing = difference.is_missing | lower_is_none
        return {self.upper_name: ColumnValues(numbers=numbers, is_missing=is_missing)}

    def is_out_of_range(self, values: Values, columns: Columns) -> Mask | None:
        """Returns None: the sum is always moved into the bounds."""
        return None


def _at_or_above(column: Any, units: npt.NDArray[Any], scale: int) -> npt.NDArray[Any]:
    """Returns the smallest values of a column that are at least so many units.

    They are numbers, as `noisegate.schema.layout` has them.

    Args:
        column: The column.
        units: Sums, in `scale` units to 1.
        scale: Units to 1, a multiple of those of the column.
    """
    first, last = column.unit_bounds
    own_units = -(-units // (scale // column.units_per_gap))
    step_count = -(-(own_units - first) // column.spacing)
    snapped = np.clip(first + step_count * column.spacing, first, last)
    if column.fractional:
        return np.asarray(snapped / float(column.units_per_number))
    return np.asarray(snapped)
