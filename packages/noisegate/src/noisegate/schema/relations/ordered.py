"""One column is never below another: `discharge >= admission`.

Queries are about the lower column and the difference of the two. The difference is a
column of its own, named "discharge - admission": whole numbers of days between dates, a
length of time between points in time, a number between numbers.

If the columns are far apart, as in `admission >= birth`, queries are about the upper
column itself. Their difference is an age, whose noise is several years. Added to a
birth, it would move many admissions out of the bounds of that column. Most values
satisfy the relation without it. A value that does not is raised to the smallest value
that does.

A record that breaks the relation counts with the smallest difference. A record has no
difference if its lower value is missing or stands for no number, as 999 does. It counts
as a record whose upper value is missing, too.

An atom outside the bounds of the upper column, such as 9999-12-31 for "still here", is
not a sum. In the column of differences it has a *stand-in*, a whole number below 0: for
two atoms, -2 for the smaller and -1 for the larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from noisegate.errors import SchemaError
from noisegate.schema.columns import Column
from noisegate.schema.layout import bounds_of, is_outer_atom, outer_atoms_of
from noisegate.schema.relations.differences import Difference, difference_of
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
        lower_name: The other column.
        strict: Whether the two are never equal.
        largest: Largest difference, by public knowledge, in the unit of the difference:
            days, seconds or the numbers themselves. None for the largest difference
            within the bounds of the columns.

    Examples:
        >>> from noisegate.schema import Date
        >>> from noisegate.schema.relations.ordered import Ordered
        >>> stay = Ordered(upper_name="discharge", lower_name="admission", largest=60)
        >>> bounds = {"lower": "2024-01-01", "upper": "2024-12-31"}
        >>> names = ("admission", "discharge")
        >>> columns = {name: Date(name=name, **bounds) for name in names}
        >>> (days,) = stay.coordinates(columns)
        >>> str(stay), days.name, days.upper
        ('discharge >= admission', 'discharge - admission', 60)
    """

    upper_name: str
    lower_name: str
    strict: bool = False
    largest: float | None = None

    @property
    def sign(self) -> Literal[">", ">="]:
        """The sign between the two columns."""
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

    def dependent(self, columns: Columns) -> tuple[str, ...]:
        """Returns the upper column if queries are about the difference, else none."""
        return (self.upper_name,) if self.measures_difference(columns) else ()

    def measures_difference(self, columns: Columns) -> bool:
        """Returns whether queries are about the difference instead of the upper column.

        They are if the schema states the largest difference, or if the two columns are
        close to each other.
        """
        is_bounded = self.largest is not None
        return is_bounded or are_near(
            columns[self.upper_name], columns[self.lower_name]
        )

    def __str__(self) -> str:
        return f"{quoted(self.upper_name)} {self.sign} {quoted(self.lower_name)}"

    def form(self) -> dict[str, Any]:
        """Returns the form of the relation in a schema file."""
        if self.largest is None:
            return {"rule": str(self)}
        return {"rule": str(self), "largest": self.largest}

    # --- Checks. ---

    def check(self, columns: Columns) -> None:
        """Checks that both columns are of one sort, with bounds that allow it."""
        upper_column = related_number(columns, self.upper_name, self)
        lower_column = related_number(columns, self.lower_name, self)
        if upper_column.scale != lower_column.scale:
            raise SchemaError(
                f"relation {self!s}: {upper_column.scale} cannot be compared with "
                f"{lower_column.scale}; use columns of one sort"
            )
        self._check_upper_bounds(upper_column, lower_column)
        if not self.measures_difference(columns):
            return
        check_missing_follows(self, self.upper_name, columns, (self.lower_name,))
        if outer_atoms_of(lower_column) and not upper_column.missing:
            raise SchemaError(
                f"relation {self!s}: {self.lower_name!r} has atoms outside its bounds, "
                f"to which nothing can be added; set missing = true for "
                f"{self.upper_name!r}"
            )
        self._check_largest(columns)

    def _check_upper_bounds(self, upper_column: Any, lower_column: Any) -> None:
        """Checks that there is room for the upper column above any lower value."""
        highest = upper_column.upper
        highest_lower = lower_column.upper
        has_room = highest > highest_lower if self.strict else highest >= highest_lower
        if not has_room:
            comparison = "above" if self.strict else "at least"
            raise SchemaError(
                f"relation {self!s}: the upper bound of {self.upper_name!r} is "
                f"{highest}; it must be {comparison} that of {self.lower_name!r}, "
                f"{highest_lower}: widen it"
            )

    def _check_largest(self, columns: Columns) -> None:
        """Checks that the largest difference, if any, is above the smallest."""
        if self.largest is None:
            return
        is_number = isinstance(self.largest, int | float)
        is_truth_value = isinstance(self.largest, bool)
        smallest = self._difference(columns).smallest
        if not is_number or is_truth_value or not self.largest > smallest:
            raise SchemaError(
                f"relation {self!s}: largest = {self.largest!r} must be a number above "
                f"{smallest:g}, in the unit of the difference"
            )

    # --- What is measured. ---

    def _difference(self, columns: Columns) -> Difference:
        """Returns how the two columns differ."""
        return difference_of(
            columns[self.upper_name],
            columns[self.lower_name],
            is_strict=self.strict,
            largest=self.largest,
        )

    def _stand_ins(self, columns: Columns) -> list[tuple[float, int]]:
        """Returns each atom outside the upper column's bounds, with its stand-in."""
        atoms = outer_atoms_of(columns[self.upper_name])  # type: ignore[arg-type]
        return [(atom, index - len(atoms)) for index, atom in enumerate(atoms)]

    def coordinates(self, columns: Columns) -> tuple[Column, ...]:
        """Returns the column of differences, if queries are about it."""
        if not self.measures_difference(columns):
            return ()
        stand_ins = tuple(stand_in for _, stand_in in self._stand_ins(columns))
        return (self._difference(columns).column(self.difference_name, stand_ins),)

    def _has_no_base(self, values: Values, columns: Columns) -> Mask:
        """Returns which lower values are missing, or atoms outside their bounds."""
        lower_values = values[self.lower_name]
        lower_column: Any = columns[self.lower_name]
        is_atom = is_outer_atom(lower_column, lower_values.numbers)
        return np.asarray(lower_values.is_missing | is_atom)

    def measure(self, values: Values, columns: Columns) -> Values:
        """Computes the differences. See the module for records without a difference."""
        if not self.measures_difference(columns):
            return {self.upper_name: self._raised(values, columns)}
        upper_values = values[self.upper_name]
        differences = self._difference(columns).between(
            upper_values.numbers, values[self.lower_name].numbers
        )
        (difference_column,) = self.coordinates(columns)
        smallest, largest = bounds_of(difference_column)  # type: ignore[arg-type]
        numbers = np.clip(differences, smallest, largest)
        for atom, stand_in in self._stand_ins(columns):
            numbers = np.where(upper_values.numbers == atom, stand_in, numbers)
        is_missing = upper_values.is_missing | self._has_no_base(values, columns)
        return {
            self.difference_name: ColumnValues(numbers=numbers, is_missing=is_missing)
        }

    def restore(self, values: Values, columns: Columns) -> Values:
        """Adds the differences to the lower column, and restores atoms."""
        if not self.measures_difference(columns):
            return {self.upper_name: self._raised(values, columns)}
        differences = values[self.difference_name]
        numbers = self._difference(columns).added(
            values[self.lower_name].numbers, differences.numbers
        )
        for atom, stand_in in self._stand_ins(columns):
            numbers = np.where(differences.numbers == stand_in, atom, numbers)
        is_missing = differences.is_missing | self._has_no_base(values, columns)
        return {self.upper_name: ColumnValues(numbers=numbers, is_missing=is_missing)}

    def _raised(self, values: Values, columns: Columns) -> ColumnValues:
        """Returns the upper column, with what is below the lower one raised to it.

        Atoms outside the bounds stay as they are, and so does what has no lower value.
        """
        upper_values = values[self.upper_name]
        lower_numbers = values[self.lower_name].numbers
        difference = self._difference(columns)
        differences = difference.between(upper_values.numbers, lower_numbers)
        smallest = difference.smallest
        is_below = (differences <= 0) if self.strict else (differences < 0)
        upper_column: Any = columns[self.upper_name]
        is_atom = is_outer_atom(upper_column, upper_values.numbers)
        is_raised = is_below & ~is_atom & ~self._has_no_base(values, columns)
        lifted = difference.added(lower_numbers, np.maximum(differences, smallest))
        return ColumnValues(
            numbers=np.where(is_raised, lifted, upper_values.numbers),
            is_missing=upper_values.is_missing,
        )

    def is_out_of_range(self, values: Values, columns: Columns) -> Mask | None:
        """Returns None: the sum is always moved into the bounds."""
        return None


def are_near(upper: Any, lower: Any) -> bool:
    """Returns whether values of two columns may mostly lie close, by their bounds.

    They may if half of the range of the lower column or more lies above the lower bound
    of the upper one.

    Examples:
        >>> from noisegate.schema import Date
        >>> birth = Date(name="birth", lower="1920-01-01", upper="2024-12-31")
        >>> visit = Date(name="visit", lower="2020-01-01", upper="2024-12-31")
        >>> are_near(visit, birth), are_near(visit, visit)
        (False, True)
    """
    lowest, highest = bounds_of(lower)
    lowest_upper, _ = bounds_of(upper)
    return bool(highest - lowest_upper >= (highest - lowest) / 2)
