"""Columns of lengths of time.

A length is written in any of three notations, in data and in schemas::

    iso      PT1H3M      -P1DT12H    P2W          ISO 8601, without years and months
    units    1h 3m       5 days      90 seconds   each number with its unit
    clock    01:03:00    120:00:00   2 days 01:03:00

Years and months are refused, since their length depends on where they begin. So is a
number without a unit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from noisegate.errors import SchemaError
from noisegate.schema.formats import TextFormats, map_distinct, unreadable_format
from noisegate.schema.kinds.stepped import SteppedColumn

# PyArrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from noisegate.schema.parsing import Mask, Parsed

_SECONDS_PER_UNIT = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}

# Ticks of Arrow's durations, by their unit.
_TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

# So few digits that no sum of parts leaves 64 bits.
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,12})?"
_ISO_PATTERN = re.compile(
    rf"(?P<sign>[-+]?)P(?=[0-9T])(?:(?P<w>{_NUMBER})W)?(?:(?P<d>{_NUMBER})D)?"
    rf"(?:T(?=[0-9])(?:(?P<h>{_NUMBER})H)?(?:(?P<m>{_NUMBER})M)?(?:(?P<s>{_NUMBER})S)?)?",
    re.IGNORECASE | re.ASCII,
)
_UNIT_PART = (
    rf"({_NUMBER}) ?"
    r"(weeks?|days?|hours?|hrs?|minutes?|mins?|seconds?|secs?|[wdhms])(?![a-z])"
)
_UNIT_PARTS = re.compile(_UNIT_PART, re.IGNORECASE | re.ASCII)
_UNITS_PATTERN = re.compile(
    rf"([-+]?)({_UNIT_PART}(?:,? ?{_UNIT_PART})*)", re.IGNORECASE | re.ASCII
)
# Python and pandas write days before the clock, which the clock is added to: one second
# less than nothing is "-1 day, 23:59:59" or "-1 days +23:59:59".
_CLOCK_PATTERN = re.compile(
    r"(?:(?P<d>[-+]?[0-9]{1,12}) ?days?,? +)?(?P<sign>[-+]?)(?P<h>[0-9]{1,12})"
    r":(?P<m>[0-5][0-9]):(?P<s>[0-5][0-9](?:\.[0-9]{1,12})?)",
    re.IGNORECASE | re.ASCII,
)


def parse_duration(text: str) -> int | None:
    """Parses a length of time, in any of the notations.

    Args:
        text: The length, without blanks around it.

    Returns:
        The length in seconds, rounded to the nearest, half a second up; None if it is
        written in another way.

    Examples:
        >>> from noisegate.schema.kinds.duration import parse_duration
        >>> [parse_duration(text) for text in ("5 days", "PT5M", "1h 3m", "01:03:00")]
        [432000, 300, 3780, 3780]
        >>> parse_duration("-1 day, 23:59:59"), parse_duration("P1M")
        (-1, None)
    """
    length = _exact_seconds(text)
    # Half a second goes up, below zero too.
    return None if length is None else math.floor(length + Fraction(1, 2))


def _exact_seconds(text: str) -> Fraction | None:
    """Returns the seconds in text of any of the notations; None for other text."""
    for parse in (_parse_clock, _parse_iso, _parse_units):
        length = parse(text)
        if length is not None:
            return length
    return None


def _parse_clock(text: str) -> Fraction | None:
    """Returns the seconds in "01:03:00", with days before it or not, else None."""
    match = _CLOCK_PATTERN.fullmatch(text)
    if match is None:
        return None
    days = int(match["d"] or 0)
    time = _sum_of_parts(match["sign"], {unit: match[unit] for unit in "hms"})
    return days * _SECONDS_PER_UNIT["d"] + time


def _parse_iso(text: str) -> Fraction | None:
    """Returns the seconds in "PT1H3M"; None for text of another form."""
    match = _ISO_PATTERN.fullmatch(text)
    if match is None:
        return None
    parts = {unit: match[unit] for unit in "wdhms" if match[unit] is not None}
    return _sum_of_parts(match["sign"], parts)


def _parse_units(text: str) -> Fraction | None:
    """Returns the seconds in "1h 3m", largest unit first; None for others."""
    match = _UNITS_PATTERN.fullmatch(text)
    if match is None:
        return None
    numbers = [(word[0].lower(), number) for number, word in _UNIT_PARTS.findall(text)]
    units = "".join(unit for unit, _ in numbers)
    is_descending = list(units) == [unit for unit in "wdhms" if unit in units]
    return _sum_of_parts(match[1], dict(numbers)) if is_descending else None


def _sum_of_parts(sign: str, parts: Mapping[str, str]) -> Fraction:
    """Returns the seconds in numbers of units, with a sign before them all."""
    seconds = Fraction(0)
    for unit, number in parts.items():
        seconds += Fraction(number) * _SECONDS_PER_UNIT[unit]
    return -seconds if sign == "-" else seconds


def iso_duration(seconds: int) -> str:
    """Writes a length of time in ISO 8601.

    Examples:
        >>> from noisegate.schema.kinds.duration import iso_duration
        >>> iso_duration(93780), iso_duration(-60), iso_duration(0)
        ('P1DT2H3M', '-PT1M', 'PT0S')
    """
    parts = _parts_of(seconds)
    day_text = "".join(f"{number}D" for unit, number in parts if unit == "d")
    time_text = "".join(
        f"{number}{unit.upper()}" for unit, number in parts if unit != "d"
    )
    if not parts:
        time_text = "0S"
    sign = "-" if seconds < 0 else ""
    return f"{sign}P{day_text}{'T' if time_text else ''}{time_text}"


def units_duration(seconds: int) -> str:
    """Writes a length of time by its units: "1d 2h 3m"."""
    text = " ".join(f"{number}{unit}" for unit, number in _parts_of(seconds)) or "0s"
    return f"-{text}" if seconds < 0 else text


def clock_duration(seconds: int) -> str:
    """Writes a length of time as a clock does, with as many hours as there are."""
    minutes, second = divmod(abs(seconds), 60)
    hour, minute = divmod(minutes, 60)
    sign = "-" if seconds < 0 else ""
    return f"{sign}{hour:02}:{minute:02}:{second:02}"


def _parts_of(seconds: int) -> list[tuple[str, int]]:
    """Splits a length into days, hours, minutes and seconds, without those of zero."""
    parts = []
    rest = abs(seconds)
    for unit in "dhms":
        number, rest = divmod(rest, _SECONDS_PER_UNIT[unit])
        if number:
            parts.append((unit, number))
    return parts


_WRITERS = {"iso": iso_duration, "units": units_duration, "clock": clock_duration}


class _DurationFormats:
    """The notations; all of them are read, and a format says which one is written."""

    example = "clock"

    def check(self, column_name: str, text_format: Any) -> None:
        """Checks that a format is the name of a notation."""
        if not isinstance(text_format, str) or text_format not in _WRITERS:
            raise unreadable_format(
                column_name,
                text_format,
                "'iso' (PT1H3M), 'units' (1h 3m) or 'clock' (01:03:00)",
            )

    def parse(self, text_format: str, cells: pa.Array) -> pa.Array:
        """Returns the cells as they are."""
        return cells

    def write(self, text_format: str, cells: pa.Array) -> pa.Array:
        """Writes lengths of time in a notation."""
        seconds = cells.cast("duration[s]", safe=False).cast("int64")
        return map_distinct(seconds, _WRITERS[text_format])


_DURATION_FORMATS = _DurationFormats()


def checked_duration(name: str, key: str, value: Any) -> timedelta:
    """Returns a length of time that is stated as such, or as text.

    Args:
        name: Name of the column, for the message.
        key: What the value is, such as "lower", for the message.
        value: A timedelta, or text in any of the notations; whole seconds.
    """
    length = value
    if isinstance(value, str):
        seconds = _exact_seconds(value.strip())
        if seconds is not None and abs(seconds) < timedelta.max.total_seconds():
            length = timedelta(microseconds=math.ceil(seconds * 10**6))
    if not isinstance(length, timedelta) or length % timedelta(seconds=1):
        raise SchemaError(
            f"column {name!r}: {key} must be a length of time in whole seconds, in "
            f'quotes such as "5 days", "PT5M" or "01:03:00", found {value!r}'
        )
    # A subclass, such as that of pandas, becomes plain.
    return timedelta(days=length.days, seconds=length.seconds)


def _duration_form(value: Any) -> Any:
    """Returns a bound or an atom in ISO 8601, other values as they are."""
    if isinstance(value, timedelta):
        return iso_duration(value // timedelta(seconds=1))
    return value


@dataclass(frozen=True, kw_only=True)
class Duration(SteppedColumn):
    """A column of lengths of time, such as lengths of stay, to the second.

    Other lengths are moved to the nearest value; half a step is rounded up.

    Attributes:
        name: Name of the column in the data.
        lower: Smallest value, by public knowledge: a timedelta, or text such as `"5
            days"`, `"PT5M"` or `"01:03:00"`.
        upper: Largest value, a whole number of steps above `lower`.
        missing: Whether a value may be absent.
        atoms: Single values that many records have; see `Continuous`.
        format: Notation of text that is written: "iso", "units" or "clock". All three
            are read. None writes Arrow durations in tables, and "iso" in CSV files.
        type: Arrow type of the column, such as `"duration[ms]"`; see `Continuous`.
        step: Seconds between two neighbouring values, such as 60; None for 1.

    Examples:
        >>> from noisegate.schema import Duration
        >>> stay = Duration(name="stay", lower="0 days", upper="P30D", step=3600)
        >>> stay.range_text, stay.last_rank
        ('PT0S to P30D by 3600', 720)
    """

    lower: timedelta
    upper: timedelta
    atoms: tuple[timedelta, ...] = ()
    step: int | None = None

    kind: ClassVar[Literal["duration"]] = "duration"
    checked_value = staticmethod(checked_duration)
    scale: ClassVar[str] = "durations"
    unit: ClassVar[str | None] = "seconds"
    gaps_are_seconds: ClassVar[bool] = True
    units_text: ClassVar[str] = "seconds"
    grades_towards_zero: ClassVar[bool] = True
    formats: ClassVar[TextFormats] = _DURATION_FORMATS
    expected_value: ClassVar[str] = (
        'a length of time such as "5 days", "PT5M", "1h 3m" or "01:03:00"'
    )
    reads_every_format: ClassVar[bool] = True
    form_value = staticmethod(_duration_form)
    default_spelling: ClassVar[str] = "iso"
    write_spelling = staticmethod(_DURATION_FORMATS.write)
    has_bounds_in_table_schema: ClassVar[bool] = False
    croissant_type: ClassVar[str] = "sc:Text"

    def to_units(self, value: timedelta) -> int:
        """Converts a length of time to seconds."""
        return value // timedelta(seconds=1)

    def from_units(self, units: int) -> timedelta:
        """Converts seconds to a length of time."""
        return timedelta(seconds=units)

    def read_value(self, value: Any) -> timedelta:
        """Returns a length of time from a timedelta or its text."""
        return self.checked_value(self.name, "a value", value)

    def brief_text(self, number: float) -> str:
        """Returns the text of a number of seconds, with units."""
        return units_duration(round(number))

    def parse_unformatted(self, cells: pa.Array) -> Parsed:
        """Parses lengths of time as seconds.

        Args:
            cells: Arrow durations, or text in any of the notations.
        """
        from noisegate.schema.parsing import Parsed, parse_distinct_texts

        if not str(cells.type).startswith("duration"):
            return parse_distinct_texts(cells, parse_duration)
        ticks = cells.cast("int64").to_numpy(zero_copy_only=False)
        ticks_per_second = _TICKS_PER_SECOND[cells.type.unit]
        seconds, rest = np.divmod(ticks, ticks_per_second)
        seconds += 2 * rest >= ticks_per_second
        nowhere = np.zeros(len(ticks), dtype=np.bool_)
        return Parsed(seconds, is_bad=nowhere, is_missing=nowhere)

    def to_arrow(self, numbers: npt.NDArray[Any], is_missing: Mask) -> pa.Array:
        """Returns lengths of time as duration[s]."""
        import pyarrow as pa

        return pa.array(numbers, mask=is_missing).cast(pa.duration("s"))

    @property
    def table_schema_type(self) -> str:
        """Type of the column in a Table Schema, which has durations in ISO 8601."""
        return "duration" if self.format in (None, "iso") else "string"
