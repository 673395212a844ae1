"""Differences of two columns as a column of its own, and sums that undo them.

Two columns of steps have exact differences: they are counted in *units*, whole numbers
of which both columns' values are made. Units are days of dates, microseconds of points
in time, seconds of durations, and the last decimal of numbers. How many of them make 1
of the differences is `units_to_one`: 10⁶ microseconds a second, 100 hundredths.

If one of the columns holds real numbers, differences are real numbers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.schema.columns import Column
from noisegate.schema.kinds.continuous import Continuous
from noisegate.schema.kinds.decimal import Decimal
from noisegate.schema.kinds.duration import Duration
from noisegate.schema.kinds.integer import Integer
from noisegate.schema.layout import bounds_of

Numbers = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Difference(ABC):
    """What is added to one column to get another.

    Attributes:
        upper: The column that is never below the other.
        lower: The other one.
        is_strict: Whether the two are never equal.
        largest: Largest difference, in the unit of differences; None for what the
            bounds of the columns allow.
    """

    upper: Any
    lower: Any
    is_strict: bool
    largest: float | None

    @property
    @abstractmethod
    def smallest(self) -> float:
        """Smallest difference, in the unit of differences."""

    @abstractmethod
    def column(self, name: str, atoms: tuple[int, ...]) -> Column:
        """Returns the column of differences.

        Args:
            name: Its name.
            atoms: Whole numbers below the smallest difference that stand for something
                else.
        """

    @abstractmethod
    def between(self, upper_numbers: Numbers, lower_numbers: Numbers) -> Numbers:
        """Returns the differences of numbers of both columns, not moved to bounds."""

    @abstractmethod
    def added(self, lower_numbers: Numbers, differences: Numbers) -> Numbers:
        """Adds differences to numbers of the lower column.

        Returns:
            Numbers of the upper column, within its bounds and never below the lower
            column's.
        """


def difference_of(
    upper: Any, lower: Any, *, is_strict: bool, largest: float | None
) -> Difference:
    """Returns how two columns differ; exactly, if both have steps."""
    are_stepped = upper.stepped and lower.stepped
    difference_class = ExactDifference if are_stepped else RealDifference
    return difference_class(upper, lower, is_strict, largest)


@dataclass(frozen=True)
class RealDifference(Difference):
    """The difference of two columns of which one holds real numbers."""

    @property
    def smallest(self) -> float:
        """Zero: a strict difference may be as small as float64 has numbers."""
        return 0.0

    def column(self, name: str, atoms: tuple[int, ...]) -> Column:
        """Returns a column of real numbers."""
        largest = self.largest
        if largest is None:
            _, highest = bounds_of(self.upper)
            lowest, _ = bounds_of(self.lower)
            largest = highest - lowest
        return Continuous(
            name=name,
            lower=0.0,
            upper=float(largest),
            missing=self.upper.missing,
            atoms=atoms,
        )

    def between(self, upper_numbers: Numbers, lower_numbers: Numbers) -> Numbers:
        """Subtracts numbers."""
        return np.asarray(upper_numbers - lower_numbers.astype(np.float64))

    def added(self, lower_numbers: Numbers, differences: Numbers) -> Numbers:
        """Adds numbers; a strict sum is at least the next float64.

        A sum is moved to the nearest value of an upper column of steps, and from there
        one step up if that is below the lower column's.
        """
        base = lower_numbers.astype(np.float64)
        least = np.nextafter(base, np.inf) if self.is_strict else base
        total = np.maximum(base + differences, least)
        if self.upper.stepped:
            nearest = _nearest_values(self.upper, total)
            one_step = self.upper.spacing / self.upper.units_per_number
            stepped_up = _nearest_values(self.upper, nearest + one_step)
            return np.where(nearest < least, stepped_up, nearest)
        lower_bound, upper_bound = bounds_of(self.upper)
        return np.clip(total, lower_bound, upper_bound)


def _nearest_values(column: Any, numbers: Numbers) -> Numbers:
    """Returns the nearest values of a column of steps, within its bounds."""
    first, last = column.unit_bounds
    steps = np.rint((numbers * column.units_per_number - first) / column.spacing)
    units = np.clip(first + steps * column.spacing, first, last)
    if column.fractional:
        return np.asarray(units / float(column.units_per_number))
    return np.asarray(units.astype(np.int64))


@dataclass(frozen=True)
class ExactDifference(Difference):
    """The difference of two columns of steps, counted in units."""

    @cached_property
    def units_to_one(self) -> int:
        """How many units make 1 of the differences."""
        return int(max(self.upper.units_per_gap, self.lower.units_per_gap))

    def _in_units(self, column: Any, numbers: Any) -> Integers:
        """Converts numbers of one of the two columns to units."""
        own_units = np.asarray(numbers)
        if column.fractional:
            own_units = np.rint(own_units * float(column.units_per_number))
        units_to_own_unit = self.units_to_one // column.units_per_gap
        return np.asarray(own_units.astype(np.int64) * units_to_own_unit)

    @cached_property
    def _bounds_in_units(self) -> tuple[int, int, int]:
        """Lower bounds of the upper and of the lower column, and the upper's upper."""
        lower_bound, upper_bound = bounds_of(self.upper)
        return (
            int(self._in_units(self.upper, lower_bound)),
            int(self._in_units(self.lower, bounds_of(self.lower)[0])),
            int(self._in_units(self.upper, upper_bound)),
        )

    @cached_property
    def step(self) -> int:
        """Distance of two neighbouring differences, in units.

        Values of a column are a bound and a multiple of its spacing. So differences are
        the distance of the bounds and multiples of what divides both spacings. With
        spacings of 10 and 4, and bounds 6 apart, they are even: gcd(10, 4, 6) = 2.
        """
        spacings = [
            int(column.spacing) * (self.units_to_one // column.units_per_gap)
            for column in (self.upper, self.lower)
        ]
        upper_start, lower_start, _ = self._bounds_in_units
        step: int = math.gcd(*spacings, upper_start - lower_start)
        return self._in_whole_seconds(step) if self.upper.gaps_are_seconds else step

    def _in_whole_seconds(self, step: int) -> int:
        """Returns a step as whole seconds, at least one: durations have no parts."""
        seconds = max(step // self.units_to_one, 1)
        return seconds * self.units_to_one

    @property
    def smallest(self) -> float:
        """Zero, or one step if the two are never equal."""
        return self._smallest_units / self.units_to_one

    @property
    def _smallest_units(self) -> int:
        """The smallest difference in units."""
        return self.step if self.is_strict else 0

    @property
    def _largest_units(self) -> int:
        """The largest difference in units, whole steps above the smallest."""
        if self.largest is None:
            _, lower_start, upper_end = self._bounds_in_units
            wanted_units = upper_end - lower_start
        else:
            wanted_units = math.ceil(self.largest * self.units_to_one)
        step_count = math.ceil((wanted_units - self._smallest_units) / self.step)
        return self._smallest_units + max(step_count, 1) * self.step

    def column(self, name: str, atoms: tuple[int, ...]) -> Column:
        """Returns a column of durations, whole numbers or decimals."""
        missing = self.upper.missing
        if self.upper.gaps_are_seconds:
            return Duration(
                name=name,
                lower=timedelta(seconds=self._smallest_units // self.units_to_one),
                upper=timedelta(seconds=self._largest_units // self.units_to_one),
                step=self.step // self.units_to_one,
                missing=missing,
                atoms=tuple(timedelta(seconds=atom) for atom in atoms),
            )
        if self.units_to_one == 1:
            return Integer(
                name=name,
                lower=self._smallest_units,
                upper=self._largest_units,
                step=None if self.step == 1 else self.step,
                missing=missing,
                atoms=atoms,
            )
        return Decimal(
            name=name,
            lower=self._smallest_units / self.units_to_one,
            upper=self._largest_units / self.units_to_one,
            step=self.step / self.units_to_one,
            missing=missing,
            atoms=atoms,
        )

    def between(self, upper_numbers: Numbers, lower_numbers: Numbers) -> Numbers:
        """Subtracts units; parts of a second are dropped."""
        upper_units = self._in_units(self.upper, upper_numbers)
        units = upper_units - self._in_units(self.lower, lower_numbers)
        if self.units_to_one == 1:
            return units
        if self.upper.gaps_are_seconds:
            return units // self.units_to_one
        return np.asarray(units / float(self.units_to_one))

    def added(self, lower_numbers: Numbers, differences: Numbers) -> Numbers:
        """Adds units, and moves each sum up to a value of the upper column."""
        units = np.rint(np.asarray(differences) * float(self.units_to_one))
        base = self._in_units(self.lower, lower_numbers)
        return self._at_or_above(base + np.maximum(units.astype(np.int64), 0))

    def _at_or_above(self, units: Integers) -> Numbers:
        """Returns the smallest values of the upper column that are at least so much."""
        units_to_own_unit = self.units_to_one // self.upper.units_per_gap
        own_units = _divided_upwards(units, units_to_own_unit)
        first, last = self.upper.unit_bounds
        step_count = _divided_upwards(own_units - first, self.upper.spacing)
        values = np.clip(first + step_count * self.upper.spacing, first, last)
        if self.upper.fractional:
            return np.asarray(values / float(self.upper.units_per_number))
        return np.asarray(values)


def _divided_upwards(integers: Integers, divisor: int) -> Integers:
    """Divides integers, rounded up."""
    return -(-integers // divisor)
