"""The values that a schema may hold, each checked when it is read: text, numbers, days, moments, levels."""

import contextlib
import math
import numbers
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, ClassVar, Literal, TypeAlias

from noisegate.errors import SchemaError

TEXT_PADDING = " \t\r\n\v\f"  # the characters stripped from both ends of every text value when it is read

_INT64 = 2**63


def text(value: Any, what: str) -> str:
    """Returns text that a file can hold and that reading a file can meet: valid Unicode without blanks around it."""
    if not isinstance(value, str):
        raise SchemaError(f"{what}: expected text, found {value!r}; put it in quotes")
    if value != value.strip(TEXT_PADDING):
        raise SchemaError(
            f"{what}: {value!r} starts or ends with a blank; remove it, as data is read without"
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise SchemaError(
            f"{what}: {value!r} is not valid Unicode text; replace the lone surrogate in it"
        ) from None
    return str(value)


def column_name(name: Any) -> str:
    """Returns the name of a column, which is not empty."""
    if name == "":
        raise SchemaError(
            "a column of the schema has an empty name; give it the name that it has in the data"
        )
    return text(name, "name of a column")


def flag(name: str, key: str, value: Any) -> bool:
    """Returns a truth value."""
    if not isinstance(value, bool):
        raise SchemaError(
            f"column {name!r}: {key} must be true or false, found {value!r}"
        )
    return value


def real(name: str, key: str, value: Any) -> float:
    """Returns a finite number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise SchemaError(f"column {name!r}: {key} must be a number, found {value!r}")
    try:
        bound = float(value)
    except OverflowError:
        bound = math.inf
    if not math.isfinite(bound):
        raise SchemaError(
            f"column {name!r}: {key} must be a finite number, found {value!r}; give a public bound"
        )
    return bound + 0.0  # -0.0 becomes 0.0, so that equal schemas have equal digests


def whole(name: str, key: str, value: Any) -> int:
    """Returns a whole number that fits int64."""
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
        raise SchemaError(
            f"column {name!r}: {key} = {bound} does not fit 64 bits; choose a smaller number"
        )
    return bound


def day(name: str, key: str, value: Any) -> date:
    """Returns a calendar day, given as such or as ISO text."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return date.fromisoformat(value)
    elif isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise SchemaError(
        f"column {name!r}: {key} must be a date such as 2020-12-31, found {value!r}"
    )


def moment(name: str, key: str, value: Any) -> datetime:
    """Returns a point in time, given as such or as ISO text; one with a time zone is turned to UTC."""
    if isinstance(value, str) and len(value) > len("2020-12-31"):
        with contextlib.suppress(ValueError):
            value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        raise SchemaError(
            f"column {name!r}: {key} must be a moment such as 2020-12-31T23:59:59, found {value!r}"
        )
    try:
        return value if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise SchemaError(
            f"column {name!r}: {key} = {value} lies outside the years 1 to 9999 in UTC"
        ) from None


def levels(name: str, values: Any) -> tuple[str | int, ...]:
    """Returns levels that are all text or all whole numbers, at least one, and distinct."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise SchemaError(f"column {name!r}: levels must be a list, found {values!r}")
    found = tuple(_level(name, value) for value in values)
    if not found:
        raise SchemaError(
            f"column {name!r}: the list of levels is empty; list every value that the column may hold"
        )
    if len({isinstance(level, str) for level in found}) > 1:
        raise SchemaError(
            f"column {name!r}: levels mix text and whole numbers; make all of them one or the other"
        )
    if len(set(found)) < len(found):
        repeated = next(level for level in found if found.count(level) > 1)
        raise SchemaError(
            f"column {name!r}: level {repeated!r} is listed more than once; keep one"
        )
    return found


def _level(name: str, value: Any) -> str | int:
    if isinstance(value, str):
        return text(value, f"column {name!r}, levels")
    if isinstance(value, bool):
        raise SchemaError(
            f'column {name!r}: level {value!r} is a truth value; use kind = "boolean", or quote it'
        )
    return whole(name, "a level (text or whole number)", value)


def store(column: object, **values: Any) -> None:
    """Stores checked values in a frozen dataclass; only for use while it is being born."""
    for key, value in values.items():
        object.__setattr__(column, key, value)


class _Coded:
    """Values that are one of some levels, or missing."""

    name: str
    levels: Any
    missing: bool
    type: Any
    numeric: ClassVar[Literal[False]] = False

    def __post_init__(self) -> None:
        store(self, name=column_name(self.name))
        self._check()
        store(self, missing=flag(self.name, "missing", self.missing))

    def _check(self) -> None:
        store(self, levels=levels(self.name, self.levels))

    @property
    def size(self) -> int:
        """Number of codes: one per level, and a last one for missing where that is allowed."""
        return len(self.levels) + self.missing


@dataclass(frozen=True, kw_only=True)
class Ordinal(_Coded):
    """Levels with an order, from least to most.

    The ``levels`` are every value that the column may hold, in order; all text or all whole numbers. For the rest see
    `Continuous`.

    Examples:
        >>> from noisegate.schema import Ordinal
        >>> Ordinal(name="pain", levels=("none", "some", "much"), missing=True).size
        4
    """

    name: str
    levels: tuple[str | int, ...]
    missing: bool = False
    type: str | None = None

    kind: ClassVar[Literal["ordinal"]] = "ordinal"


@dataclass(frozen=True, kw_only=True)
class Categorical(_Coded):
    """Levels without an order.

    The ``levels`` are every value that the column may hold, all text or all whole numbers; the level ``other`` stands
    for every value that is not listed, None to refuse such values. For the rest see `Continuous`.

    Examples:
        >>> from noisegate.schema import Categorical
        >>> Categorical(name="job", levels=("nurse", "teacher", "other"), other="other").size
        3
    """

    name: str
    levels: tuple[str | int, ...]
    other: str | int | None = None
    missing: bool = False
    type: str | None = None

    kind: ClassVar[Literal["categorical"]] = "categorical"

    def _check(self) -> None:
        super()._check()
        if self.other is not None and (
            type(self.other) is not type(self.levels[0])
            or self.other not in self.levels
        ):
            cure = "add it to levels"
            raise SchemaError(
                f"column {self.name!r}: other = {self.other!r} is not one of the levels; {cure}"
            )


@dataclass(frozen=True, kw_only=True)
class Boolean(_Coded):
    """True or false; text files may say true/false, yes/no or 1/0.

    Text says ``true_values`` instead, in any case, of which the first is written, and ``false_values``; both are
    stated, or none. The ``spelling`` is how text has truth values, and synthetic text too, such as ``"True/False"``;
    for the rest see `Continuous`.

    Examples:
        >>> from noisegate.schema import Boolean
        >>> Boolean(name="ill").levels, Boolean(name="ill", missing=True).size
        ((False, True), 3)
        >>> Boolean(name="ill", true_values=["Y"], false_values=["N"]).words
        ('N', 'Y')
    """

    name: str
    missing: bool = False
    true_values: tuple[str, ...] = ()
    false_values: tuple[str, ...] = ()
    type: str | None = None
    spelling: str | None = None

    kind: ClassVar[Literal["boolean"]] = "boolean"
    levels: ClassVar[tuple[bool, bool]] = (False, True)  # type: ignore[misc]

    @property
    def words(self) -> tuple[str, ...]:
        """What text says for false and for true, if it is stated."""
        return (*self.false_values, *self.true_values)

    def _check(self) -> None:
        for key in ("true_values", "false_values"):
            stated = getattr(self, key)
            store(
                self,
                **{key: tuple(map(str, levels(self.name, stated))) if stated else ()},
            )
        lowered = [word.lower() for word in self.words]
        if bool(self.true_values) != bool(self.false_values) or len(set(lowered)) < len(
            lowered
        ):
            raise SchemaError(
                f"column {self.name!r}: true_values and false_values must both be stated, each word once in any case, "
                f"found {list(self.true_values)} and {list(self.false_values)}"
            )


CodedColumn: TypeAlias = Ordinal | Categorical | Boolean
"""Kinds that are encoded as a code in [0, size)."""
