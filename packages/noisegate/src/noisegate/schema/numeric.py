"""Kinds of column whose values are numbers, days or moments between two public bounds."""

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

MAX_STEPS = (
    2**53
)  # widest distance of two bounds, in steps, that a float64 in [0, 1] can tell apart
MAX_ATOMS = 32  # atoms of a column


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """Values between two public bounds; those outside are moved to the nearer bound, unless they are atoms."""

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
    """Returns a value of this kind, by the name of the column and what the value is called in a `SchemaError`."""

    def __post_init__(self) -> None:
        name, read = checked_column_name(self.name), self.checked_value
        set_fields(
            self,
            name=name,
            lower=read(name, "lower", self.lower),
            upper=read(name, "upper", self.upper),
        )
        set_fields(
            self,
            missing=checked_flag(name, "missing", self.missing),
            atoms=self._read_atoms(),
        )
        if self.format is not None:
            import_module("noisegate.schema.formats").check_format(
                self
            )  # most schemas have none
        self._check()

    def _read_atoms(self) -> tuple[Any, ...]:
        name, atoms = self.name, self.atoms
        if isinstance(atoms, str | bytes | Mapping) or not isinstance(atoms, Iterable):
            raise SchemaError(
                f"column {name!r}: atoms must be a list of values, found {atoms!r}"
            )
        found = tuple(self.checked_value(name, "an atom", atom) for atom in atoms)
        if len(set(found)) < len(found):
            repeated = next(atom for atom in found if found.count(atom) > 1)
            raise SchemaError(
                f"column {name!r}: atom {repeated} is listed more than once; keep one"
            )
        if len(found) > MAX_ATOMS:
            cure = (
                "keep those that most records have, or describe the column as ordinal"
            )
            raise SchemaError(
                f"column {name!r}: {len(found)} atoms, and at most {MAX_ATOMS} may be stated; {cure}"
            )
        return found

    def _check(self) -> None:
        lower, upper = self.lower, self.upper
        if lower > upper:
            raise SchemaError(
                f"column {self.name!r}: lower = {lower} is above upper = {upper}; swap them"
            )
        if lower == upper:
            says = f"column {self.name!r}: lower and upper are both {lower}, and a constant column carries nothing"
            raise SchemaError(
                f"{says}; widen the bounds, or drop the column from the schema and add it to `ignore`"
            )
        set_fields(self, atoms=tuple(sorted(self.atoms)))


@dataclass(frozen=True, kw_only=True)
class Stepped(Bounded):
    """Values a whole number of steps above the lower bound, at most 2**53; others are moved to the nearest."""

    step: Any = None

    _unit: ClassVar[str] = "days"

    @property
    def unit_bounds(self) -> tuple[int, int]:
        """The bounds as whole units: numbers, units of the last decimal, days or microseconds since 1970 (in UTC)."""
        return self.to_units(self.lower), self.to_units(self.upper)

    def to_units(self, value: Any) -> int:
        """Returns a value as a whole number of units."""
        raise NotImplementedError

    @property
    def spacing(self) -> int:
        """Distance of two neighbouring values, in units."""
        return 1 if self.step is None else int(self.step)

    @property
    def units_per_number(self) -> int:
        """How many units make a number of the column: 1 but for decimals."""
        return 1

    @cached_property
    def outer_atoms(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The atoms below the lower bound, and those above the upper one, in units."""
        return split_outer_atoms(
            tuple(self.to_units(atom) for atom in self.atoms), *self.unit_bounds
        )

    @property
    def last_rank(self) -> int:
        """The rank of the largest value, counted from 0 at the smallest, atoms outside the bounds included."""
        first, last = self.unit_bounds
        return (last - first) // self.spacing + sum(map(len, self.outer_atoms))

    def _check(self) -> None:
        super()._check()
        self._check_step()
        (first, last), spacing = self.unit_bounds, self.spacing
        if (last - first) // spacing > MAX_STEPS:
            raise SchemaError(
                f"column {self.name!r}: the bounds are {last - first} {self._unit} apart, more than the 2**53 = "
                f'{MAX_STEPS} that can be told apart; narrow them, or use a coarser kind ("continuous", "date")'
            )
        if (last - first) % spacing:
            raise SchemaError(
                f"column {self.name!r}: upper = {self.upper} is not a whole number of steps of {self.step} above "
                f"lower = {self.lower}; move a bound outwards, or correct the step"
            )
        for atom in self.atoms:
            if (
                first <= self.to_units(atom) <= last
                and (self.to_units(atom) - first) % spacing
            ):
                raise SchemaError(
                    f"column {self.name!r}: atom {atom} lies within the bounds and is not a whole number of steps of "
                    f"{self.step} above lower = {self.lower}; correct it, or the step"
                )

    def _check_step(self) -> None:
        if self.step is None:
            return
        set_fields(self, step=checked_integer(self.name, "step", self.step))
        if self.step < 1:
            raise SchemaError(
                f"column {self.name!r}: step = {self.step} must be 1 or more, or left out"
            )


def split_outer_atoms(
    atoms: tuple[Any, ...], lower: Any, upper: Any
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Returns the atoms below the lower bound, and those above the upper one."""
    return tuple(atom for atom in atoms if atom < lower), tuple(
        atom for atom in atoms if atom > upper
    )


def rounded_bounds(
    lowest: float, highest: float, *, parts: int = 2, smallest: float = 0.0
) -> tuple[float, float]:
    """Returns bounds around both values: multiples of the largest power of ten of which ``parts`` fit between them."""
    # That is at least ``smallest``. Bounds stay on the side of zero of the values; one alone has room on both sides.
    width = highest - lowest or max(abs(highest), 1.0)
    if highest == lowest:
        zero, half = highest == 0, width / 2
        lowest, highest = (
            lowest - (0 if zero else half),
            highest + (width if zero else half),
        )
    exponent = math.floor(math.log10(width / parts))
    if smallest:
        exponent = max(exponent, round(math.log10(smallest)))
    first, last = (
        math.floor(lowest / 10.0**exponent),
        math.ceil(highest / 10.0**exponent),
    )
    return float(f"{first}e{exponent}"), float(f"{last}e{exponent}")


_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.date().toordinal()
_MICROSECONDS = 10**6
# A number of more units than this is not told from its neighbour once multiplied; more digits make no exact scale.
_MOST_UNITS, _MOST_DIGITS = 2**50, 22


@dataclass(frozen=True, kw_only=True)
class Continuous(Bounded):
    """Real numbers between two bounds; those outside are moved to the nearer bound.

    Bounds are public knowledge, and so are ``atoms``, single values that many records have, such as 0, or 999 for
    unknown. If ``missing``, a value may be absent. The ``format`` is how numbers are written in text, such as
    $#,##0.00; of days and moments by fields, such as %d.%m.%Y. The ``type`` is the Arrow type of the column in data,
    and in samples too, such as ``"float"``; None for that of `decode`.

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
        super()._check()
        checked_real(self.name, "upper - lower", self.upper - self.lower)

    @cached_property
    def outer_atoms(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The atoms below the lower bound, and those above the upper one."""
        return split_outer_atoms(self.atoms, self.lower, self.upper)


@dataclass(frozen=True, kw_only=True)
class Integer(Stepped):
    """Whole numbers between two bounds, at most 2**53 apart; those outside are moved to the nearer bound.

    Two neighbouring values are a ``step`` apart, None for 1; for the rest see `Continuous`.

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
        """Returns the number itself."""
        return value


@dataclass(frozen=True, kw_only=True)
class Decimal(Stepped):
    """Numbers of some decimals, such as amounts in cents; others are moved to the nearest one within the bounds.

    Each is held as the float64 nearest to it, so that it is written with its decimals and no more.

    Two neighbouring values are a ``step`` apart, such as 0.01, and ``upper`` is a whole number of steps above
    ``lower``; for the rest see `Continuous`.

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
    def _digits(self) -> int:
        """How many digits stand behind the point of the numbers' shortest decimals, at most."""
        numbers = (
            _exact(value).normalize().as_tuple()
            for value in (self.lower, self.upper, self.step, *self.atoms)
        )
        return max(0, *(-int(number.exponent) for number in numbers))

    @property
    def units_per_number(self) -> int:
        """How many units make one: a power of ten."""
        return int(10**self._digits)

    @property
    def spacing(self) -> int:
        """Distance of two neighbouring values, in units."""
        return self.to_units(self.step)

    def to_units(self, value: float) -> int:
        """Returns the number times `scale`, as its shortest decimal says it, rounded to a whole one."""
        return round(_exact(value) * self.units_per_number)

    def _check_step(self) -> None:
        set_fields(self, step=checked_real(self.name, "step", self.step))
        if not self.step > 0:
            raise SchemaError(
                f"column {self.name!r}: step = {self.step:g} must be positive, the distance of two neighbouring "
                'values such as 0.01; where there is none, use kind = "continuous"'
            )
        largest = max(abs(value) for value in (self.lower, self.upper, *self.atoms))
        if (
            self._digits > _MOST_DIGITS
            or _exact(largest) * self.units_per_number > _MOST_UNITS
        ):
            raise SchemaError(
                f"column {self.name!r}: {largest:g} has too many digits at a step of {self.step:g} for its values to "
                'be told apart; choose a larger step, or use kind = "continuous"'
            )


@dataclass(frozen=True, kw_only=True)
class Date(Stepped):
    """Calendar days between a first and a last one; those outside are moved to the nearer bound.

    Two neighbouring values are a ``step`` of days apart, such as 7, None for 1; for ``spelling`` see `Datetime`, and
    for the rest `Continuous`.

    Examples:
        >>> from datetime import date
        >>> from noisegate.schema import Date
        >>> Date(name="born", lower=date(1970, 1, 1), upper=date(1970, 1, 31)).unit_bounds
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
        return value.toordinal() - _EPOCH_DAY


@dataclass(frozen=True, kw_only=True)
class Datetime(Stepped):
    """Points in time to the microsecond; those outside the bounds are moved to the nearer bound.

    Both bounds have a time zone, or neither, like the data; they are kept in UTC.

    Two neighbouring values are a ``step`` of seconds apart, such as 1 or 60, None for a microsecond. The ``spelling``
    is how text has them, and synthetic text too, such as ``"%Y-%m-%dT%H:%M:%S.%3fZ"``; for the rest see `Continuous`.

    Examples:
        >>> from datetime import datetime
        >>> from noisegate.schema import Datetime
        >>> Datetime(name="seen", lower=datetime(1970, 1, 1), upper=datetime(1970, 1, 1, 0, 1)).unit_bounds
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
        if (self.lower.tzinfo is None) != (self.upper.tzinfo is None):
            cure = "give it to both or to neither"
            raise SchemaError(
                f"column {self.name!r}: one of lower and upper has a time zone; {cure}"
            )
        if self.aware and self.format is not None:
            raise SchemaError(
                f"column {self.name!r}: moments with a time zone are read as ISO text; take format out"
            )
        for atom in self.atoms:
            if (atom.tzinfo is None) == self.aware:
                raise SchemaError(
                    f"column {self.name!r}: atom {atom} must have a time zone exactly if the bounds have one"
                )
        super()._check()

    @property
    def aware(self) -> bool:
        """Whether the moments carry a time zone (kept as UTC)."""
        return self.lower.tzinfo is not None

    @property
    def spacing(self) -> int:
        """Distance of two neighbouring values, in microseconds."""
        return 1 if self.step is None else self.step * _MICROSECONDS

    def to_units(self, value: datetime) -> int:
        """Returns a moment in microseconds since 1970-01-01T00:00:00, whatever its time zone."""
        return (value.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)


def _exact(value: float) -> decimal.Decimal:
    """Returns a number as its shortest decimal says it: 0.1 is a tenth."""
    return decimal.Decimal(repr(value))


SteppedColumn: TypeAlias = (
    Integer | Decimal | Date | Datetime
)  # kinds whose values are whole steps between two bounds

NumericColumn: TypeAlias = Continuous | SteppedColumn
"""Kinds that are encoded as a position in [0, 1]: 0 is the lower bound and 1 the upper one, but for atoms outside."""
