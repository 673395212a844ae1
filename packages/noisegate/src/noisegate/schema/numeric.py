"""Kinds of column whose values are numbers, days or points in time between two bounds.

Bounds are public knowledge: a value outside them is moved to the nearer bound when data
are read. The exception are *atoms*, single values that many records have: an atom
outside the bounds, such as 999 for unknown, is read and written as it is.

All kinds but `Continuous` are *stepped*: their values lie a whole number of steps apart
and are counted with integers, so that arithmetic on them is exact. Two integers
describe such a value:

- in *units*, which depend on the kind: the number itself, units of the last decimal,
  days or microseconds since 1970-01-01 (`Stepped.to_units`);
- as a *rank*, its index among all values of the column, ascending::

      Integer(lower=10, upper=30, step=10, atoms=[0, 99])

      value     0      10      20      30      99
      rank      0       1       2       3       4
                ╰ atom outside the bounds      ╰ last_rank

How numbers become positions in [0, 1] is in `noisegate.schema.layout`.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar, Literal, TypeAlias

from noisegate.errors import SchemaError
from noisegate.schema.values import (
    checked_column_name,
    checked_date,
    checked_datetime,
    checked_flag,
    checked_integer,
    checked_real,
    set_fields,
)

MAX_STEPS = 2**53
"""Largest distance of two bounds, in steps; float64 tells so many apart in [0, 1]."""
MAX_ATOMS = 32
"""Largest number of atoms of a column."""

_EPOCH = datetime(1970, 1, 1)
_EPOCH_ORDINAL = _EPOCH.date().toordinal()
_MICROSECONDS_PER_SECOND = 10**6
# Beyond this many units of the last decimal, a float64 may be taken for its neighbour
# once it is multiplied by the scale.
_MAX_DECIMAL_UNITS = 2**50
# 10²² is the largest power of ten that float64 holds exactly.
_MAX_DECIMAL_DIGITS = 22


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """A column of values between two public bounds: what all numeric kinds share.

    Attributes:
        name: Name of the column in the data.
        lower: Smallest value; smaller ones are moved to it, unless they are atoms.
        upper: Largest value, above `lower`.
        missing: Whether a value may be absent.
        atoms: Single values that many records have, within the bounds or outside;
            stored in ascending order.
        format: How text writes the values; see `noisegate.schema.formats`.
        type: Arrow type of the column in data, and in samples too; None for that of
            `decode`.
        kind: Name of the kind in a schema file.
        checked_value: Returns a value in the type of this kind, or raises a
            `SchemaError`. It takes the column's name, what the value is called, and the
            value.
    """

    name: str
    lower: Any
    upper: Any
    missing: bool = False
    atoms: Any = ()
    format: str | None = None
    type: str | None = None

    kind: ClassVar[str]
    numeric: ClassVar[Literal[True]] = True
    checked_value: ClassVar[staticmethod[[str, str, Any], Any]]

    def __post_init__(self) -> None:
        name = checked_column_name(self.name)
        set_fields(
            self,
            name=name,
            lower=self.checked_value(name, "lower", self.lower),
            upper=self.checked_value(name, "upper", self.upper),
        )
        set_fields(
            self,
            missing=checked_flag(name, "missing", self.missing),
            atoms=self._checked_atoms(),
        )
        if self.format is not None:
            # Imported only here, as most schemas have no formats.
            import_module("noisegate.schema.formats").check_format(self)
        self._check()

    def _checked_atoms(self) -> tuple[Any, ...]:
        """Checks that the atoms are values of this kind, distinct, and not too many."""
        name = self.name
        is_text_or_mapping = isinstance(self.atoms, str | bytes | Mapping)
        if is_text_or_mapping or not isinstance(self.atoms, Iterable):
            raise SchemaError(
                f"column {name!r}: atoms must be a list of values, found {self.atoms!r}"
            )
        atoms = tuple(self.checked_value(name, "an atom", atom) for atom in self.atoms)
        if len(set(atoms)) < len(atoms):
            repeated = next(atom for atom in atoms if atoms.count(atom) > 1)
            raise SchemaError(
                f"column {name!r}: atom {repeated} is listed more than once; keep one"
            )
        if len(atoms) > MAX_ATOMS:
            raise SchemaError(
                f"column {name!r}: {len(atoms)} atoms, and at most {MAX_ATOMS} may be "
                "stated; keep those that most records have, or describe the column as "
                "ordinal"
            )
        return atoms

    def _check(self) -> None:
        """Checks the fields against each other, and puts the atoms in order."""
        if self.lower > self.upper:
            raise SchemaError(
                f"column {self.name!r}: lower = {self.lower} is above upper = "
                f"{self.upper}; swap them"
            )
        if self.lower == self.upper:
            raise SchemaError(
                f"column {self.name!r}: lower and upper are both {self.lower}, and a "
                "constant column carries nothing; widen the bounds, or drop the column "
                "from the schema and add it to `ignore`"
            )
        set_fields(self, atoms=tuple(sorted(self.atoms)))


@dataclass(frozen=True, kw_only=True)
class Stepped(Bounded):
    """A column whose values lie a whole number of steps above the lower bound.

    Other values within the bounds are moved to the nearest one. The bounds are at most
    2⁵³ steps apart.

    Attributes:
        step: Distance of two neighbouring values, as the kind states it; None for the
            smallest distance that the kind has.
    """

    step: Any = None

    _unit: ClassVar[str] = "days"  # of `unit_bounds`, for messages

    @property
    def unit_bounds(self) -> tuple[int, int]:
        """The lower and the upper bound, in units."""
        return self.to_units(self.lower), self.to_units(self.upper)

    def to_units(self, value: Any) -> int:
        """Converts a value to units.

        Args:
            value: A value in the type of the kind, such as a date.

        Returns:
            The value as a count of units: of 1, of the last decimal, or of days or
            microseconds since 1970-01-01 (in UTC where there is a time zone).
        """
        raise NotImplementedError

    @property
    def spacing(self) -> int:
        """Distance of two neighbouring values, in units."""
        return 1 if self.step is None else int(self.step)

    @property
    def units_per_number(self) -> int:
        """How many units make 1 of the column's numbers: above 1 for decimals only."""
        return 1

    @cached_property
    def outer_atoms(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Atoms below the lower bound, and those above the upper one, in units."""
        atoms = tuple(self.to_units(atom) for atom in self.atoms)
        lower, upper = self.unit_bounds
        return split_outer_atoms(atoms, lower, upper)

    @property
    def last_rank(self) -> int:
        """Rank of the largest value; the smallest has rank 0.

        Atoms outside the bounds are counted, as in `Integer(lower=0, upper=2,
        atoms=[9])`, whose ranks are 0 to 3.
        """
        first, last = self.unit_bounds
        below, above = self.outer_atoms
        return (last - first) // self.spacing + len(below) + len(above)

    def _check(self) -> None:
        """Checks the step, and that bounds and atoms are whole steps apart."""
        super()._check()
        self._check_step()
        first, last = self.unit_bounds
        width = last - first
        if width // self.spacing > MAX_STEPS:
            raise SchemaError(
                f"column {self.name!r}: the bounds are {width} {self._unit} apart, "
                f"more than the 2**53 = {MAX_STEPS} that can be told apart; narrow "
                'them, or use a coarser kind ("continuous", "date")'
            )
        if width % self.spacing:
            raise SchemaError(
                f"column {self.name!r}: upper = {self.upper} is not a whole number of "
                f"steps of {self.step} above lower = {self.lower}; move a bound "
                "outwards, or correct the step"
            )
        for atom in self.atoms:
            units = self.to_units(atom)
            if first <= units <= last and (units - first) % self.spacing:
                raise SchemaError(
                    f"column {self.name!r}: atom {atom} lies within the bounds and is "
                    f"not a whole number of steps of {self.step} above lower = "
                    f"{self.lower}; correct it, or the step"
                )

    def _check_step(self) -> None:
        """Checks that the step, if any, is a positive integer, and stores it."""
        if self.step is None:
            return
        set_fields(self, step=checked_integer(self.name, "step", self.step))
        if self.step < 1:
            raise SchemaError(
                f"column {self.name!r}: step = {self.step} must be 1 or more, or "
                "left out"
            )


def split_outer_atoms(
    atoms: tuple[Any, ...], lower: Any, upper: Any
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Returns the atoms below the lower bound, and those above the upper one."""
    below = tuple(atom for atom in atoms if atom < lower)
    above = tuple(atom for atom in atoms if atom > upper)
    return below, above


def rounded_bounds(
    lowest: float, highest: float, *, parts: int = 2, smallest: float = 0.0
) -> tuple[float, float]:
    """Rounds two values outwards to bounds that a reader would choose.

    The bounds are multiples of a power of ten: the largest of which `parts` fit between
    the values, but none below `smallest`. They stay on the values' side of zero. A
    single value gets room on both sides, but at zero only above.

    Args:
        lowest: Smallest value.
        highest: Largest value, or the same.
        parts: How many of the powers of ten must fit, at least.
        smallest: A power of ten, such as 1.0 for integers; 0.0 for none.

    Returns:
        A bound at or below `lowest`, and one at or above `highest`.

    Examples:
        >>> from noisegate.schema.numeric import rounded_bounds
        >>> rounded_bounds(17.3, 88.1)
        (10.0, 90.0)
        >>> rounded_bounds(17.0, 88.0, parts=100, smallest=1.0)
        (17.0, 88.0)
    """
    if lowest != highest:
        first = lowest
        last = highest
        width = highest - lowest
    elif highest == 0:
        first = 0.0
        last = 1.0
        width = 1.0
    else:
        width = max(abs(highest), 1.0)
        first = lowest - width / 2
        last = highest + width / 2

    exponent = math.floor(math.log10(width / parts))
    if smallest:
        exponent = max(exponent, round(math.log10(smallest)))
    first_multiple = math.floor(first / 10.0**exponent)
    last_multiple = math.ceil(last / 10.0**exponent)
    # Through text, as multiplication would turn 3 · 0.1 into 0.30000000000000004.
    return float(f"{first_multiple}e{exponent}"), float(f"{last_multiple}e{exponent}")


@dataclass(frozen=True, kw_only=True)
class Continuous(Bounded):
    """A column of real numbers between two bounds.

    Attributes:
        name: Name of the column in the data.
        lower: Smallest value, by public knowledge; smaller ones are moved to it, unless
            they are atoms.
        upper: Largest value, above `lower`.
        missing: Whether a value may be absent.
        atoms: Single values that many records have, such as 0, or 999 for unknown.
        format: How text writes the numbers, such as `"$#,##0.00"`; None for plain ones.
        type: Arrow type of the column in data, and in samples too, such as `"float"`;
            None for that of `decode`.

    Examples:
        >>> from noisegate.schema import Continuous
        >>> Continuous(name="dose", lower=0, upper=2.5, atoms=[0, -1]).atoms
        (-1.0, 0.0)
    """

    lower: float
    upper: float
    atoms: tuple[float, ...] = ()

    kind: ClassVar[Literal["continuous"]] = "continuous"
    checked_value = staticmethod(checked_real)

    def _check(self) -> None:
        """Checks that the distance of the bounds is finite, too."""
        super()._check()
        # Two finite bounds may be an infinite distance apart.
        checked_real(self.name, "upper - lower", self.upper - self.lower)

    @cached_property
    def outer_atoms(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Atoms below the lower bound, and those above the upper one."""
        return split_outer_atoms(self.atoms, self.lower, self.upper)


@dataclass(frozen=True, kw_only=True)
class Integer(Stepped):
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
    _unit: ClassVar[str] = "whole numbers"

    def to_units(self, value: int) -> int:
        """Returns the integer itself."""
        return value


@dataclass(frozen=True, kw_only=True)
class Decimal(Stepped):
    """A column of numbers with a fixed number of decimals, such as amounts in cents.

    Other numbers are moved to the nearest value. Each value is the float64 nearest to
    its decimal, so that it is written with its decimals and no more.

    Attributes:
        name: Name of the column in the data.
        lower: Smallest value, by public knowledge.
        upper: Largest value, a whole number of steps above `lower`.
        missing: Whether a value may be absent.
        atoms: Single values that many records have; see `Continuous`.
        format: How text writes the numbers; see `Continuous`.
        type: Arrow type of the column; see `Continuous`.
        step: Distance of two neighbouring values, such as 0.01.

    Examples:
        >>> from noisegate.schema import Decimal
        >>> from noisegate.schema.layout import numbers_at, positions_of
        >>> price = Decimal(name="price", lower=0, upper=99.9, step=0.1)
        >>> numbers_at(price, positions_of(price, [0.3, 1.26])).tolist()
        [0.3, 1.3]
    """

    lower: float
    upper: float
    atoms: tuple[float, ...] = ()
    step: float = field()

    kind: ClassVar[Literal["decimal"]] = "decimal"
    checked_value = staticmethod(checked_real)
    _unit: ClassVar[str] = "units of the last decimal"

    @cached_property
    def _digit_count(self) -> int:
        """Largest number of digits after the point among bounds, step and atoms."""
        exponents = [
            int(_shortest_decimal(value).normalize().as_tuple().exponent)
            for value in (self.lower, self.upper, self.step, *self.atoms)
        ]
        return max(0, -min(exponents))

    @property
    def units_per_number(self) -> int:
        """How many units make 1: a power of ten, such as 100 for cents."""
        return int(10**self._digit_count)

    @property
    def spacing(self) -> int:
        """Distance of two neighbouring values, in units."""
        return self.to_units(self.step)

    def to_units(self, value: float) -> int:
        """Returns the number of units in the shortest decimal of a number, rounded."""
        return round(_shortest_decimal(value) * self.units_per_number)

    def _check_step(self) -> None:
        """Checks that the step is positive, and that float64 tells all values apart."""
        set_fields(self, step=checked_real(self.name, "step", self.step))
        if not self.step > 0:
            raise SchemaError(
                f"column {self.name!r}: step = {self.step:g} must be positive, the "
                "distance of two neighbouring values such as 0.01; where there is "
                'none, use kind = "continuous"'
            )
        largest = max(abs(value) for value in (self.lower, self.upper, *self.atoms))
        if (
            self._digit_count > _MAX_DECIMAL_DIGITS
            or _shortest_decimal(largest) * self.units_per_number > _MAX_DECIMAL_UNITS
        ):
            raise SchemaError(
                f"column {self.name!r}: {largest:g} has too many digits at a step of "
                f"{self.step:g} for its values to be told apart; choose a larger step, "
                'or use kind = "continuous"'
            )


@dataclass(frozen=True, kw_only=True)
class Date(Stepped):
    """A column of calendar days between a first and a last one.

    Attributes:
        name: Name of the column in the data.
        lower: First day, by public knowledge.
        upper: Last day, a whole number of steps after `lower`.
        missing: Whether a value may be absent.
        atoms: Single days that many records have; see `Continuous`.
        format: How text writes days, by fields such as `"%d.%m.%Y"`; None for ISO text.
        type: Arrow type of the column; see `Continuous`.
        step: Days between two neighbouring values, such as 7; None for 1.
        spelling: How text writes days, and synthetic text too; see `Datetime`.

    Examples:
        >>> from datetime import date
        >>> from noisegate.schema import Date
        >>> born = Date(name="born", lower=date(1970, 1, 1), upper=date(1970, 1, 31))
        >>> born.unit_bounds
        (0, 30)
    """

    lower: date
    upper: date
    atoms: tuple[date, ...] = ()
    step: int | None = None
    spelling: str | None = None

    kind: ClassVar[Literal["date"]] = "date"
    checked_value = staticmethod(checked_date)

    def to_units(self, value: date) -> int:
        """Returns a day in days since 1970-01-01."""
        return value.toordinal() - _EPOCH_ORDINAL


@dataclass(frozen=True, kw_only=True)
class Datetime(Stepped):
    """A column of points in time, to the microsecond.

    Attributes:
        name: Name of the column in the data.
        lower: First point in time, by public knowledge; stored in UTC if it has a time
            zone.
        upper: Last point in time, a whole number of steps after `lower`; with a time
            zone exactly if `lower` has one, as the data.
        missing: Whether a value may be absent.
        atoms: Single points in time that many records have; see `Continuous`.
        format: How text writes them, by fields such as `"%d.%m.%Y %H:%M"`; None for ISO
            text.
        type: Arrow type of the column; see `Continuous`.
        step: Seconds between two neighbouring values, such as 60; None for a
            microsecond.
        spelling: How text writes them, and synthetic text too, such as
            `"%Y-%m-%dT%H:%M:%S.%3fZ"`.

    Examples:
        >>> from datetime import datetime
        >>> from noisegate.schema import Datetime
        >>> first, last = datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 1)
        >>> Datetime(name="seen", lower=first, upper=last).unit_bounds
        (0, 60000000)
    """

    lower: datetime
    upper: datetime
    atoms: tuple[datetime, ...] = ()
    step: int | None = None
    spelling: str | None = None

    kind: ClassVar[Literal["datetime"]] = "datetime"
    checked_value = staticmethod(checked_datetime)
    _unit: ClassVar[str] = "microseconds (2**53 are 285 years)"

    def _check(self) -> None:
        """Checks that bounds and atoms have a time zone all, or none."""
        # Before the bounds are compared, which Python refuses where one has a zone.
        if (self.lower.tzinfo is None) != (self.upper.tzinfo is None):
            raise SchemaError(
                f"column {self.name!r}: one of lower and upper has a time zone; give "
                "it to both or to neither"
            )
        if self.aware and self.format is not None:
            raise SchemaError(
                f"column {self.name!r}: moments with a time zone are read as ISO text; "
                "take format out"
            )
        for atom in self.atoms:
            if (atom.tzinfo is not None) != self.aware:
                raise SchemaError(
                    f"column {self.name!r}: atom {atom} must have a time zone exactly "
                    "if the bounds have one"
                )
        super()._check()

    @property
    def aware(self) -> bool:
        """Whether the values have a time zone; they are then stored in UTC."""
        return self.lower.tzinfo is not None

    @property
    def spacing(self) -> int:
        """Distance of two neighbouring values, in microseconds."""
        return 1 if self.step is None else self.step * _MICROSECONDS_PER_SECOND

    def to_units(self, value: datetime) -> int:
        """Returns the microseconds since 1970-01-01T00:00:00, in its own time zone."""
        return (value.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)


def _shortest_decimal(value: float) -> decimal.Decimal:
    """Returns the shortest decimal that is read as this float64: 0.1 is a tenth."""
    return decimal.Decimal(repr(value))


SteppedColumn: TypeAlias = Integer | Decimal | Date | Datetime
"""Any numeric kind but real numbers: values a whole number of steps apart."""

NumericColumn: TypeAlias = Continuous | SteppedColumn
"""Any kind that is encoded as a position in [0, 1]; see `noisegate.schema.layout`."""
