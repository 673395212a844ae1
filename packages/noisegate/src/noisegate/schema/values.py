"""Columns whose values are levels, and the checks of single values in a schema.

The first half checks one value each, as somebody wrote it in a schema file or in
Python: a name, a bound, a step, a list of levels. Each function `checked_...` returns
the value in its canonical type, or raises a `SchemaError` that names the column and the
cure. `noisegate.schema.numeric` uses them too.

The second half holds the kinds of column with levels: `Ordinal`, `Categorical` and
`Boolean`. An encoded record holds a code for each of them: the index of the level, and
the number of levels where the value is missing.
"""

import contextlib
import math
import numbers
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, ClassVar, Literal, TypeAlias

from noisegate.errors import SchemaError

TEXT_PADDING = " \t\r\n\v\f"
"""Characters that are stripped from both ends of every text when data are read."""

_INT64 = 2**63


def checked_text(value: Any, what: str) -> str:
    """Checks that a text can be met in data and be stored in a file.

    Args:
        value: What stands in the schema.
        what: What the text is, for the message.

    Returns:
        The text as it is.

    Raises:
        SchemaError: if it is no text, has blanks around it, which are stripped from
            data before they are compared, or is no valid Unicode.
    """
    if not isinstance(value, str):
        raise SchemaError(f"{what}: expected text, found {value!r}; put it in quotes")
    if value != value.strip(TEXT_PADDING):
        raise SchemaError(
            f"{what}: {value!r} starts or ends with a blank; remove it, as data is "
            "read without"
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise SchemaError(
            f"{what}: {value!r} is not valid Unicode text; replace the lone surrogate "
            "in it"
        ) from None
    return str(value)  # a subclass of str, such as NumPy's, becomes plain


def checked_column_name(name: Any) -> str:
    """Checks the name of a column: text as in `checked_text`, and not empty."""
    if name == "":
        raise SchemaError(
            "a column of the schema has an empty name; give it the name that it has in "
            "the data"
        )
    return checked_text(name, "name of a column")


def checked_flag(name: str, key: str, value: Any) -> bool:
    """Checks that the value of `key` in column `name` is True or False."""
    if not isinstance(value, bool):
        raise SchemaError(
            f"column {name!r}: {key} must be true or false, found {value!r}"
        )
    return value


def checked_real(name: str, key: str, value: Any) -> float:
    """Checks that a value is a finite number.

    Args:
        name: Name of the column, for the message.
        key: What the value is, such as "lower", for the message.
        value: A number of any type.

    Returns:
        The number as float64; 0.0 for -0.0, so that equal schemas have equal digests.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise SchemaError(f"column {name!r}: {key} must be a number, found {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise SchemaError(
            f"column {name!r}: {key} must be a finite number, found {value!r}; give a "
            "public bound"
        )
    return number + 0.0  # turns -0.0 into 0.0


def checked_integer(name: str, key: str, value: Any) -> int:
    """Checks that a value is an integer above -2⁶³ and below 2⁶³ - 1.

    Args:
        name: Name of the column, for the message.
        key: What the value is, such as "lower", for the message.
        value: An integer of any type; a float is refused even where it is integral.
    """
    integer = None
    if not isinstance(value, bool):
        with contextlib.suppress(TypeError):
            integer = operator.index(value)
    if integer is None:
        raise SchemaError(
            f"column {name!r}: {key} must be a whole number, found {value!r}; write it "
            'without a decimal point, or use kind = "continuous"'
        )
    # Numbers beyond int64 in data are read as its ends, which therefore are no values.
    if not -_INT64 < integer < _INT64 - 1:
        raise SchemaError(
            f"column {name!r}: {key} = {integer} does not fit 64 bits; choose a "
            "smaller number"
        )
    return integer


def checked_date(name: str, key: str, value: Any) -> date:
    """Returns a calendar day that is stated as such, or as ISO text like 2020-12-31."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return date.fromisoformat(value)
    elif isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise SchemaError(
        f"column {name!r}: {key} must be a date such as 2020-12-31, found {value!r}"
    )


def checked_datetime(name: str, key: str, value: Any) -> datetime:
    """Returns a point in time that is stated as such, or as ISO text.

    Args:
        name: Name of the column, for the message.
        key: What the value is, such as "lower", for the message.
        value: A datetime, or text like 2020-12-31T23:59:59; a day alone is refused.

    Returns:
        The datetime, in UTC if it has a time zone, else without one.
    """
    timestamp = value
    if isinstance(value, str) and len(value) > len("2020-12-31"):
        with contextlib.suppress(ValueError):
            timestamp = datetime.fromisoformat(value)
    if not isinstance(timestamp, datetime):
        raise SchemaError(
            f"column {name!r}: {key} must be a moment such as 2020-12-31T23:59:59, "
            f"found {value!r}"
        )
    if timestamp.tzinfo is None:
        return timestamp
    try:
        return timestamp.astimezone(UTC)
    except OverflowError:
        raise SchemaError(
            f"column {name!r}: {key} = {timestamp} lies outside the years 1 to 9999 in "
            "UTC"
        ) from None


def checked_levels(name: str, values: Any) -> tuple[str | int, ...]:
    """Checks the levels of a column: all text or all integers, at least one, distinct.

    Args:
        name: Name of the column, for the message.
        values: The levels, in any iterable that is neither text nor a mapping.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise SchemaError(f"column {name!r}: levels must be a list, found {values!r}")
    levels = tuple(_checked_level(name, value) for value in values)
    if not levels:
        raise SchemaError(
            f"column {name!r}: the list of levels is empty; list every value that the "
            "column may hold"
        )
    types = {isinstance(level, str) for level in levels}
    if len(types) > 1:
        raise SchemaError(
            f"column {name!r}: levels mix text and whole numbers; make all of them one "
            "or the other"
        )
    if len(set(levels)) < len(levels):
        repeated = next(level for level in levels if levels.count(level) > 1)
        raise SchemaError(
            f"column {name!r}: level {repeated!r} is listed more than once; keep one"
        )
    return levels


def _checked_level(name: str, value: Any) -> str | int:
    """Checks one level of column `name`, which is text or an integer."""
    if isinstance(value, str):
        return checked_text(value, f"column {name!r}, levels")
    if isinstance(value, bool):
        raise SchemaError(
            f"column {name!r}: level {value!r} is a truth value; use "
            'kind = "boolean", or quote it'
        )
    return checked_integer(name, "a level (text or whole number)", value)


def set_fields(column: object, **values: Any) -> None:
    """Sets fields of a frozen dataclass to checked values, in its `__post_init__`."""
    for key, value in values.items():
        object.__setattr__(column, key, value)


class _Coded:
    """What columns with levels share: they are checked alike, and encoded as a code.

    The code of a level is its index; that of a missing value is the number of levels.
    """

    name: str
    levels: Any
    missing: bool
    type: Any
    numeric: ClassVar[Literal[False]] = False

    def __post_init__(self) -> None:
        set_fields(self, name=checked_column_name(self.name))
        self._check()
        set_fields(self, missing=checked_flag(self.name, "missing", self.missing))

    def _check(self) -> None:
        """Checks the fields that not all of these kinds have, and stores them."""
        set_fields(self, levels=checked_levels(self.name, self.levels))

    @property
    def size(self) -> int:
        """Number of codes: one for each level, and one for missing where allowed."""
        return len(self.levels) + self.missing


@dataclass(frozen=True, kw_only=True)
class Ordinal(_Coded):
    """A column of levels with an order, from least to most.

    Attributes:
        name: Name of the column in the data.
        levels: Every value that the column may hold, in order; all text or all
            integers.
        missing: Whether a value may be absent.
        type: Arrow type of the column in data, and in samples too, such as
            `"dictionary"`; None for that of `decode`.

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
    """A column of levels without an order.

    Attributes:
        name: Name of the column in the data.
        levels: Every value that the column may hold, all text or all integers.
        other: The level that stands for every value that is not listed; None to refuse
            such values.
        missing: Whether a value may be absent.
        type: Arrow type of the column in data, and in samples too; None for that of
            `decode`.

    Examples:
        >>> from noisegate.schema import Categorical
        >>> levels = ("nurse", "teacher", "other")
        >>> Categorical(name="job", levels=levels, other="other").size
        3
    """

    name: str
    levels: tuple[str | int, ...]
    other: str | int | None = None
    missing: bool = False
    type: str | None = None

    kind: ClassVar[Literal["categorical"]] = "categorical"

    def _check(self) -> None:
        """Checks that `other` is one of the levels, too."""
        super()._check()
        if self.other is None:
            return
        # The types are compared too, as True equals the level 1.
        has_type_of_levels = type(self.other) is type(self.levels[0])
        if not has_type_of_levels or self.other not in self.levels:
            raise SchemaError(
                f"column {self.name!r}: other = {self.other!r} is not one of the "
                "levels; add it to levels"
            )


@dataclass(frozen=True, kw_only=True)
class Boolean(_Coded):
    """A column of truth values.

    In text, they are written true/false, yes/no or 1/0 in any case, unless the schema
    states other words.

    Attributes:
        name: Name of the column in the data.
        missing: Whether a value may be absent.
        true_values: Words that mean true in text, in any case; synthetic text has the
            first. Stated together with `false_values`, or not at all.
        false_values: Words that mean false.
        type: Arrow type of the column in data, and in samples too; None for that of
            `decode`.
        spelling: How text writes truth values, and synthetic text too, such as
            `"True/False"`.

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
        """The words for false, then those for true; empty if none are stated."""
        return (*self.false_values, *self.true_values)

    def _check(self) -> None:
        """Checks that words are stated for both truth values or none, and differ."""
        set_fields(
            self,
            true_values=self._checked_words(self.true_values),
            false_values=self._checked_words(self.false_values),
        )
        words = [word.lower() for word in self.words]
        is_one_sided = bool(self.true_values) != bool(self.false_values)
        has_repeated_word = len(set(words)) < len(words)
        if is_one_sided or has_repeated_word:
            raise SchemaError(
                f"column {self.name!r}: true_values and false_values must both be "
                "stated, each word once in any case, found "
                f"{list(self.true_values)} and {list(self.false_values)}"
            )

    def _checked_words(self, words: Any) -> tuple[str, ...]:
        """Checks words for a truth value, which may be integers; none are allowed."""
        if not words:
            return ()
        return tuple(str(word) for word in checked_levels(self.name, words))


CodedColumn: TypeAlias = Ordinal | Categorical | Boolean
"""Any kind of column with levels, encoded as a code in [0, size)."""
