"""The kinds of column that a schema may have, checked at birth; their plain forms; and the numbers that encode them."""

from __future__ import annotations

import contextlib
import difflib
import math
import numbers
import operator
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.errors import SchemaError

TEXT_PADDING = " \t\r\n\v\f"
"""The characters stripped from both ends of every text value when it is read."""

MAX_STEPS = 2**53
"""Widest distance of two bounds, in whole numbers, days or microseconds, that a float64 in [0, 1] can tell apart."""

_SAFE_STEPS = 2**50  # below it, rounding position * steps always gives back the step that was encoded
_INT64 = 2**63
_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.date().toordinal()


def text(value: Any, what: str) -> str:
    """Return text that a file can hold and that reading a file can meet: valid Unicode without blanks around it."""
    if not isinstance(value, str):
        raise SchemaError(f"{what}: expected text, found {value!r}; put it in quotes")
    if value != value.strip(TEXT_PADDING):
        raise SchemaError(f"{what}: {value!r} starts or ends with a blank; remove it, as data is read without")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise SchemaError(f"{what}: {value!r} is not valid Unicode text; replace the lone surrogate in it") from None
    return str(value)


def column_name(name: Any) -> str:
    """Return the name of a column, which is not empty."""
    if name == "":
        raise SchemaError("a column of the schema has an empty name; give it the name that it has in the data")
    return text(name, "name of a column")


def flag(name: str, key: str, value: Any) -> bool:
    """Return a truth value."""
    if not isinstance(value, bool):
        raise SchemaError(f"column {name!r}: {key} must be true or false, found {value!r}")
    return value


def real(name: str, key: str, value: Any) -> float:
    """Return a finite number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise SchemaError(f"column {name!r}: {key} must be a number, found {value!r}")
    try:
        bound = float(value)
    except OverflowError:
        bound = math.inf
    if not math.isfinite(bound):
        raise SchemaError(f"column {name!r}: {key} must be a finite number, found {value!r}; give a public bound")
    return bound + 0.0  # -0.0 becomes 0.0, so that equal schemas have equal digests


def whole(name: str, key: str, value: Any) -> int:
    """Return a whole number that fits int64."""
    try:
        bound = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        bound = None
    if bound is None:
        raise SchemaError(
            f"column {name!r}: {key} must be a whole number, found {value!r}; write it without a decimal point, "
            'or use kind = "continuous"'
        )
    if not -_INT64 < bound < _INT64 - 1:
        raise SchemaError(f"column {name!r}: {key} = {bound} does not fit 64 bits; choose a smaller number")
    return bound


def day(name: str, key: str, value: Any) -> date:
    """Return a calendar day, given as such or as ISO text."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return date.fromisoformat(value)
    elif isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise SchemaError(f"column {name!r}: {key} must be a date such as 2020-12-31, found {value!r}")


def moment(name: str, key: str, value: Any) -> datetime:
    """Return a point in time, given as such or as ISO text; one with a time zone is turned to UTC."""
    if isinstance(value, str) and len(value) > len("2020-12-31"):
        with contextlib.suppress(ValueError):
            value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        raise SchemaError(f"column {name!r}: {key} must be a moment such as 2020-12-31T23:59:59, found {value!r}")
    try:
        return value if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise SchemaError(f"column {name!r}: {key} = {value} lies outside the years 1 to 9999 in UTC") from None


def levels(name: str, values: Any) -> tuple[str | int, ...]:
    """Return levels that are all text or all whole numbers, at least one, and distinct."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise SchemaError(f"column {name!r}: levels must be a list, found {values!r}")
    found = tuple(_level(name, value) for value in values)
    if not found:
        raise SchemaError(f"column {name!r}: the list of levels is empty; list every value that the column may hold")
    if len({isinstance(level, str) for level in found}) > 1:
        raise SchemaError(f"column {name!r}: levels mix text and whole numbers; make all of them one or the other")
    if len(set(found)) < len(found):
        repeated = next(level for level in found if found.count(level) > 1)
        raise SchemaError(f"column {name!r}: level {repeated!r} is listed more than once; keep one")
    return found


def _level(name: str, value: Any) -> str | int:
    if isinstance(value, str):
        return text(value, f"column {name!r}, levels")
    if isinstance(value, bool):
        raise SchemaError(f'column {name!r}: level {value!r} is a truth value; use kind = "boolean", or quote it')
    return whole(name, "a level (text or whole number)", value)


def _set(column: object, **values: Any) -> None:
    """Store checked values in a frozen dataclass; only for use while it is being born."""
    for key, value in values.items():
        object.__setattr__(column, key, value)


@dataclass(frozen=True, kw_only=True)
class _Bounded:
    """Values between two public bounds; those outside are moved to the nearer bound."""

    name: str
    lower: Any
    upper: Any
    missing: bool = False

    kind: ClassVar[str]
    numeric: ClassVar[Literal[True]] = True
    read: ClassVar[staticmethod[[str, str, Any], Any]]
    """Returns a value of this kind, by the name of the column and what the value is called in a `SchemaError`."""

    def __post_init__(self) -> None:
        name, read = column_name(self.name), self.read
        _set(self, name=name, lower=read(name, "lower", self.lower), upper=read(name, "upper", self.upper))
        self._check()
        _set(self, missing=flag(name, "missing", self.missing))

    def _check(self) -> None:
        lower, upper = self.lower, self.upper
        if lower > upper:
            raise SchemaError(f"column {self.name!r}: lower = {lower} is above upper = {upper}; swap them")
        if lower == upper:
            raise SchemaError(
                f"column {self.name!r}: lower and upper are both {lower}, and a constant column carries nothing; "
                "widen the bounds, or drop the column from the schema and add it to `ignore`"
            )


@dataclass(frozen=True, kw_only=True)
class Continuous(_Bounded):
    """Real numbers between two bounds; those outside are moved to the nearer bound.

    Attributes:
        name: name of the column in the data.
        lower: smallest value, public knowledge.
        upper: largest value, public knowledge.
        missing: whether a value may be absent.

    Examples:
        >>> from noisegate.schema import Continuous
        >>> Continuous(name="dose", lower=0, upper=2.5, missing=True)
        Continuous(name='dose', lower=0.0, upper=2.5, missing=True)
    """

    lower: float
    upper: float

    kind: ClassVar[Literal["continuous"]] = "continuous"
    read = staticmethod(real)

    def _check(self) -> None:
        super()._check()
        real(self.name, "upper - lower", self.upper - self.lower)


@dataclass(frozen=True, kw_only=True)
class _Stepped(_Bounded):
    """Values that are whole steps between two bounds, at most 2**53 apart."""

    _unit: ClassVar[str] = "days"

    @property
    def steps(self) -> tuple[int, int]:
        """The bounds as whole numbers, days or microseconds since 1970-01-01T00:00:00 (UTC if aware)."""
        return self.step(self.lower), self.step(self.upper)

    @staticmethod
    def step(value: Any) -> int:
        """Return a value as a whole number of steps."""
        raise NotImplementedError

    def _check(self) -> None:
        super()._check()
        first, last = self.steps
        if last - first > MAX_STEPS:
            raise SchemaError(
                f"column {self.name!r}: the bounds are {last - first} {self._unit} apart, more than the 2**53 = "
                f"{MAX_STEPS} that can be told apart; narrow them, or use a coarser kind "
                '("continuous", "date")'
            )


@dataclass(frozen=True, kw_only=True)
class Integer(_Stepped):
    """Whole numbers between two bounds, at most 2**53 apart; those outside are moved to the nearer bound.

    Examples:
        >>> from noisegate.schema import Integer
        >>> Integer(name="age", lower=0, upper=99).steps
        (0, 99)
    """

    lower: int
    upper: int

    kind: ClassVar[Literal["integer"]] = "integer"
    read = staticmethod(whole)
    _unit: ClassVar[str] = "whole numbers"

    @staticmethod
    def step(value: int) -> int:
        """Return the number itself."""
        return value


@dataclass(frozen=True, kw_only=True)
class Date(_Stepped):
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
    read = staticmethod(day)

    @staticmethod
    def step(value: date) -> int:
        """Return a day in days since 1970-01-01."""
        return value.toordinal() - _EPOCH_DAY


@dataclass(frozen=True, kw_only=True)
class Datetime(_Stepped):
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
    read = staticmethod(moment)
    _unit: ClassVar[str] = "microseconds (2**53 are 285 years)"

    def _check(self) -> None:
        if (self.lower.tzinfo is None) != (self.upper.tzinfo is None):
            raise SchemaError(
                f"column {self.name!r}: one of lower and upper has a time zone; give it to both or to neither"
            )
        super()._check()

    @property
    def aware(self) -> bool:
        """Whether the moments carry a time zone (kept as UTC)."""
        return self.lower.tzinfo is not None

    @staticmethod
    def step(value: datetime) -> int:
        """Return a moment in microseconds since 1970-01-01T00:00:00, whatever its time zone."""
        return (value.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)


class _Coded:
    """Values that are one of some levels, or missing."""

    name: str
    levels: Any
    missing: bool
    numeric: ClassVar[Literal[False]] = False

    def __post_init__(self) -> None:
        _set(self, name=column_name(self.name))
        self._check()
        _set(self, missing=flag(self.name, "missing", self.missing))

    def _check(self) -> None:
        _set(self, levels=levels(self.name, self.levels))

    @property
    def size(self) -> int:
        """Number of codes: one per level, and a last one for missing where that is allowed."""
        return len(self.levels) + self.missing


@dataclass(frozen=True, kw_only=True)
class Ordinal(_Coded):
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


@dataclass(frozen=True, kw_only=True)
class Categorical(_Coded):
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

    def _check(self) -> None:
        super()._check()
        if self.other is not None and (type(self.other) is not type(self.levels[0]) or self.other not in self.levels):
            raise SchemaError(
                f"column {self.name!r}: other = {self.other!r} is not one of the levels; add it to levels"
            )


@dataclass(frozen=True, kw_only=True)
class Boolean(_Coded):
    """True or false; text files may say true/false, yes/no or 1/0.

    Examples:
        >>> from noisegate.schema import Boolean
        >>> Boolean(name="ill").levels, Boolean(name="ill", missing=True).size
        ((False, True), 3)
    """

    name: str
    missing: bool = False

    kind: ClassVar[Literal["boolean"]] = "boolean"
    levels: ClassVar[tuple[bool, bool]] = (False, True)  # type: ignore[misc]

    def _check(self) -> None:
        pass


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


def column_form(column: Column) -> dict[str, Any]:
    """Return the kind and the fields of ``column``, without its name; fields at their default are left out."""
    form: dict[str, Any] = {"kind": column.kind}
    for field in fields(column):
        value = getattr(column, field.name)
        if field.name != "name" and (field.default is MISSING or value != field.default):
            form[field.name] = list(value) if isinstance(value, tuple) else value
    return form


def column_from_form(name: str, form: Any) -> Column:
    """Return the column that ``form`` describes."""
    if not isinstance(form, Mapping):
        raise SchemaError(f"column {name!r}: expected a table with a kind, found {form!r}; write kind = ... under it")
    kind = form.get("kind")
    if kind is None:
        raise SchemaError(f"column {name!r}: kind is missing; choose one of {', '.join(COLUMN_KINDS)}")
    if not isinstance(kind, str) or kind not in COLUMN_KINDS:
        raise SchemaError(f"column {name!r}: unknown kind {kind!r}; choose one of {_choices(kind, COLUMN_KINDS)}")
    known = {field.name: field for field in fields(COLUMN_KINDS[kind]) if field.name != "name"}
    check_keys(form, ["kind", *known], f"column {name!r} ({kind})")
    absent = [key for key, field in known.items() if field.default is MISSING and key not in form]
    if absent:
        raise SchemaError(f"column {name!r} ({kind}): {' and '.join(absent)} missing; add what is publicly known")
    return COLUMN_KINDS[kind](name=name, **{key: value for key, value in form.items() if key != "kind"})


def check_keys(form: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
    """Require that every key of ``form`` is allowed; a `SchemaError` names the first that is not."""
    names = list(allowed)
    for key in form:
        if key not in names:
            raise SchemaError(f"{where}: unknown key {key!r}; the allowed keys are {_choices(key, names)}")


def _choices(found: Any, names: Iterable[str]) -> str:
    listed = list(names)
    near = difflib.get_close_matches(str(found), listed, n=1)
    return ", ".join(listed) + (f" (did you mean {near[0]}?)" if near else "")


def numbers_at(column: NumericColumn, positions: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """Return the numbers that positions stand for, none of them NaN; those outside [0, 1] are clamped.

    Returns:
        float64 for a continuous column; else int64 steps: whole numbers, days or microseconds since 1970.
    """
    clamped = np.clip(positions, 0.0, 1.0)
    if isinstance(column, Continuous):
        return np.clip(column.lower + clamped * (column.upper - column.lower), column.lower, column.upper)
    first, last = column.steps
    width = last - first
    nearest = np.rint(clamped * width).astype(np.int64)
    if width > _SAFE_STEPS:  # the product may be off by a few steps: take the step that encodes to this very position
        for candidate in [np.clip(nearest + shift, 0, width) for shift in (-2, -1, 1, 2)]:
            nearest = np.where(candidate / np.float64(width) == clamped, candidate, nearest)
    return np.clip(nearest, 0, width) + first


def positions_of(column: NumericColumn, numbers: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the positions that encode numbers: float64, or int64 steps; those outside the bounds are clamped.

    Steps are subtracted exactly, as integers.
    """
    if isinstance(column, Continuous):
        offset = np.clip(numbers, column.lower, column.upper) - column.lower
        return np.asarray((offset + 0.0) / (column.upper - column.lower), dtype=np.float64)
    first, last = column.steps
    return np.asarray((np.clip(numbers, first, last) - first) / np.float64(last - first), dtype=np.float64)
