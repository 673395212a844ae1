"""The kinds of column that a schema may have: public knowledge about one column each, checked at birth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, ClassVar, Literal, TypeAlias

from noisegate.errors import SchemaError
from noisegate.schema import checks

_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.date().toordinal()
_READ: dict[str, Callable[[str, str, Any], Any]] = {
    "continuous": checks.real,
    "integer": checks.whole,
    "date": checks.day,
    "datetime": checks.moment,
}


def _set(column: object, **values: Any) -> None:
    """Store checked values in a frozen dataclass; only for use while it is being born."""
    for key, value in values.items():
        object.__setattr__(column, key, value)


@dataclass(frozen=True, kw_only=True)
class _Bounded:
    """Values between two bounds; those outside are moved to the nearer bound.

    Attributes:
        name: name of the column in the data.
        lower: smallest value, public knowledge.
        upper: largest value, public knowledge.
        missing: whether a value may be absent.
    """

    name: str
    lower: Any
    upper: Any
    missing: bool = False

    kind: ClassVar[str]
    numeric: ClassVar[Literal[True]] = True

    def __post_init__(self) -> None:
        name, read = checks.column_name(self.name), _READ[self.kind]
        _set(self, name=name, lower=read(name, "lower", self.lower), upper=read(name, "upper", self.upper))
        self._check()
        _set(self, missing=checks.flag(name, "missing", self.missing))

    def _check(self) -> None:
        checks.ordered(self.name, self.lower, self.upper)


@dataclass(frozen=True, kw_only=True)
class Continuous(_Bounded):
    """Real numbers between two bounds; those outside are moved to the nearer bound.

    Examples:
        >>> from noisegate.schema import Continuous
        >>> Continuous(name="dose", lower=0, upper=2.5, missing=True)
        Continuous(name='dose', lower=0.0, upper=2.5, missing=True)
    """

    lower: float
    upper: float

    kind: ClassVar[Literal["continuous"]] = "continuous"

    def _check(self) -> None:
        super()._check()
        checks.real(self.name, "upper - lower", self.upper - self.lower)


@dataclass(frozen=True, kw_only=True)
class Integer(_Bounded):
    """Whole numbers between two bounds, at most 2**53 apart; those outside are moved to the nearer bound.

    Examples:
        >>> from noisegate.schema import Integer
        >>> Integer(name="age", lower=0, upper=99).steps
        (0, 99)
    """

    lower: int
    upper: int

    kind: ClassVar[Literal["integer"]] = "integer"

    def _check(self) -> None:
        super()._check()
        checks.narrow_enough(self.name, self.upper - self.lower, "whole numbers")

    @property
    def steps(self) -> tuple[int, int]:
        """The bounds as whole numbers."""
        return self.lower, self.upper


@dataclass(frozen=True, kw_only=True)
class Date(_Bounded):
    """Calendar days between a first and a last one; those outside are moved to the nearer bound.

    Examples:
        >>> from datetime import date
        >>> from noisegate.schema import Date
        >>> Date(name="born", lower=date(1970, 1, 1), upper=date(1970, 1, 31)).steps
        (0, 30)
    """

    lower: date
    upper: date

    kind: ClassVar[Literal["date"]] = "date"

    @property
    def steps(self) -> tuple[int, int]:
        """The bounds in days since 1970-01-01."""
        return self.step(self.lower), self.step(self.upper)

    @staticmethod
    def step(day: date) -> int:
        """Return a day in days since 1970-01-01."""
        return day.toordinal() - _EPOCH_DAY


@dataclass(frozen=True, kw_only=True)
class Datetime(_Bounded):
    """Points in time to the microsecond; those outside the bounds are moved to the nearer bound.

    Both bounds have a time zone, or neither, like the data; they are kept in UTC.

    Examples:
        >>> from datetime import datetime
        >>> from noisegate.schema import Datetime
        >>> Datetime(name="seen", lower=datetime(1970, 1, 1), upper=datetime(1970, 1, 1, 0, 1)).steps
        (0, 60000000)
    """

    lower: datetime
    upper: datetime

    kind: ClassVar[Literal["datetime"]] = "datetime"

    def _check(self) -> None:
        if (self.lower.tzinfo is None) != (self.upper.tzinfo is None):
            raise SchemaError(
                f"column {self.name!r}: one of lower and upper has a time zone; give it to both or to neither"
            )
        super()._check()
        first, last = self.steps
        checks.narrow_enough(self.name, last - first, "microseconds (2**53 are 285 years)")

    @property
    def aware(self) -> bool:
        """Whether the moments carry a time zone (kept as UTC)."""
        return self.lower.tzinfo is not None

    @property
    def steps(self) -> tuple[int, int]:
        """The bounds in microseconds since 1970-01-01T00:00:00 (UTC if aware)."""
        return self.step(self.lower), self.step(self.upper)

    @staticmethod
    def step(moment: datetime) -> int:
        """Return a moment in microseconds since 1970-01-01T00:00:00, whatever its time zone."""
        return (moment.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, kw_only=True)
class Ordinal:
    """Levels with an order, from least to most.

    Attributes:
        name: name of the column in the data.
        levels: every value that the column may hold, in order; all text or all whole numbers.
        missing: whether a value may be absent.

    Examples:
        >>> from noisegate.schema import Ordinal
        >>> Ordinal(name="pain", levels=("none", "some", "much"), missing=True).size
        4
    """

    name: str
    levels: tuple[str | int, ...]
    missing: bool = False

    kind: ClassVar[Literal["ordinal"]] = "ordinal"
    numeric: ClassVar[Literal[False]] = False

    def __post_init__(self) -> None:
        name = checks.column_name(self.name)
        levels = checks.levels(name, self.levels)
        _set(self, name=name, levels=levels, missing=checks.flag(name, "missing", self.missing))

    @property
    def size(self) -> int:
        """Number of codes: one per level, and a last one for missing where that is allowed."""
        return len(self.levels) + self.missing


@dataclass(frozen=True, kw_only=True)
class Categorical:
    """Levels without an order.

    Attributes:
        name: name of the column in the data.
        levels: every value that the column may hold; all text or all whole numbers.
        other: the level that stands for every value that is not listed, or None to refuse such values.
        missing: whether a value may be absent.

    Examples:
        >>> from noisegate.schema import Categorical
        >>> Categorical(name="job", levels=("nurse", "teacher", "other"), other="other").size
        3
    """

    name: str
    levels: tuple[str | int, ...]
    other: str | int | None = None
    missing: bool = False

    kind: ClassVar[Literal["categorical"]] = "categorical"
    numeric: ClassVar[Literal[False]] = False

    def __post_init__(self) -> None:
        name = checks.column_name(self.name)
        levels = checks.levels(name, self.levels)
        if self.other is not None and (type(self.other) is not type(levels[0]) or self.other not in levels):
            raise SchemaError(f"column {name!r}: other = {self.other!r} is not one of the levels; add it to levels")
        _set(self, name=name, levels=levels, missing=checks.flag(name, "missing", self.missing))

    @property
    def size(self) -> int:
        """Number of codes: one per level, and a last one for missing where that is allowed."""
        return len(self.levels) + self.missing


@dataclass(frozen=True, kw_only=True)
class Boolean:
    """True or false; text files may say true/false, yes/no or 1/0.

    Attributes:
        name: name of the column in the data.
        missing: whether a value may be absent.

    Examples:
        >>> from noisegate.schema import Boolean
        >>> Boolean(name="ill").levels, Boolean(name="ill", missing=True).size
        ((False, True), 3)
    """

    name: str
    missing: bool = False

    kind: ClassVar[Literal["boolean"]] = "boolean"
    numeric: ClassVar[Literal[False]] = False
    levels: ClassVar[tuple[bool, bool]] = (False, True)

    def __post_init__(self) -> None:
        name = checks.column_name(self.name)
        _set(self, name=name, missing=checks.flag(name, "missing", self.missing))

    @property
    def size(self) -> int:
        """Number of codes: false, true, and a last one for missing where that is allowed."""
        return 2 + self.missing


SteppedColumn: TypeAlias = Integer | Date | Datetime
"""Kinds whose values are whole steps between two bounds."""

NumericColumn: TypeAlias = Continuous | SteppedColumn
"""Kinds that are encoded as a position in [0, 1] between two bounds."""

CodedColumn: TypeAlias = Ordinal | Categorical | Boolean
"""Kinds that are encoded as a code in [0, size)."""

Column: TypeAlias = NumericColumn | CodedColumn
"""Any column of a schema."""

COLUMN_KINDS: dict[str, type[Column]] = {
    kind.kind: kind for kind in (Continuous, Integer, Date, Datetime, Ordinal, Categorical, Boolean)
}
"""Every kind by the name that it has in a schema file."""
