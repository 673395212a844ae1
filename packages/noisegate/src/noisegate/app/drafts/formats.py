"""Columns whose text has a format: dates and times as people write them, and amounts.

A format is proposed only where it gives back the text of every cell, but for zeros
behind a decimal point. Several formats may fit, as %d/%m/%Y and %m/%d/%Y do where no
day is above 12: the first one is proposed, and a comment names the others.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date, datetime
from itertools import product
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from noisegate.app.drafts.drafted import DraftedColumn, vocabulary
from noisegate.app.drafts.numbers import draft_number
from noisegate.app.drafts.times import draft_time
from noisegate.schema import Continuous, Date, Datetime
from noisegate.schema.formats import MINUS_SIGN, iso_text
from noisegate.schema.parsing import (
    is_text,
    parse_floats,
    parse_timestamps,
)

ClockColumn: TypeAlias = Date | Datetime
FormattedColumn: TypeAlias = Continuous | ClockColumn

# Formats of days, times and months with separators, the likelier ones first.
_FORMATS: dict[str, list[str]] = vocabulary("formats")
_CLOCK_FORMATS = [
    *(f"{day}{clock}" for day in _FORMATS["days"] for clock in _FORMATS["clocks"]),
    *_FORMATS["months"],
    *_FORMATS["hours"],
]

# Formats of digits alone. Other numbers fit them by chance, but as many different ones
# of them hardly ever do.
_MIN_DIGIT_TEXTS = {"%Y%m%d": 3, "%Y%m": 8, "%-H%M": 0, "%H%M": 0}

# Times of day vary at least so much, unlike counts that happen to be below 2400.
_MIN_HOURS = 8
_MIN_MINUTES = 12

# The years that dates of digits alone usually have. Many different ones may be older,
# since among as many other numbers some would be no date.
_USUAL_YEARS = (1800, 2200)
_EARLIEST_YEAR_OF_MANY = 1000
_MIN_MANY_DATES = 50

_CURRENCY = (
    r"(?:[$€£¥₹₽₩%‰]|kr\.?|Fr\.|zł|R\$|USD|EUR|GBP|CHF|JPY|CAD|AUD|SEK|NOK|DKK|INR|PLN)"
)
UNIT_PATTERN: str = rf"(?:\s(?:{vocabulary('units')})|(?:{vocabulary('long_units')}))"
"""A unit of measurement behind a number, one of a letter behind a blank: 5m may be a
code."""

# Groups: what stands before the digits, the digits with their marks, the exponent, what
# stands after.
_AMOUNT = re.compile(
    rf"\(?[-+]?((?:{_CURRENCY}\s?)?)"
    r"([0-9](?:[0-9.,'’\s]*[0-9])?)((?:[eE][-+]?[0-9]{1,3})?)"
    rf"((?:\s?{_CURRENCY}|{UNIT_PATTERN})?)\)?"
)
# Fewer different numbers with units are rather levels, as doses are.
_MIN_MEASUREMENTS = 10
# A format writes no more decimals than this, even of 1,5e-300.
_MAX_DECIMALS = 12
# Marks between thousands, and before decimals, the likelier pairs first.
_MARK_PAIRS = (
    (",", "."),
    (".", ","),
    *product((" ", "\u00a0", "\u202f", "'", "’"), ",."),
    ("", ","),
    ("", "."),
)


def draft_formatted(
    name: str, cells: pa.Array, *, missing: bool
) -> DraftedColumn | None:
    """Drafts a column of dates, times or numbers that are written in a format.

    Args:
        name: Name of the column.
        cells: Its cells without missing ones, (records,).
        missing: Whether a value may be missing.

    Returns:
        The drafted column, with its format; None if the cells have no format, or need
        none: plain numbers and ISO text.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate.app.drafts.formats import draft_formatted
        >>> days = pa.array(["03.01.2020", "14.02.2021"])
        >>> draft_formatted("day", days, missing=False).form["format"]
        '%d.%m.%Y'
        >>> draft_formatted("day", pa.array(["2020-01-03"]), missing=False) is None
        True
    """
    texts = _as_texts(cells)
    if texts is None:
        return None
    distinct_texts = texts.unique()
    are_numbers = not parse_floats(distinct_texts).is_bad.any()
    if not are_numbers:
        are_iso = not parse_timestamps(distinct_texts, aware=False).is_bad.any()
        if are_iso:
            return None

    candidates: list[FormattedColumn] = []
    clock_formats: Iterable[str] = _MIN_DIGIT_TEXTS if are_numbers else _CLOCK_FORMATS
    candidates.extend(_clock_columns(name, distinct_texts, clock_formats))
    if not candidates and not are_numbers:
        amount_column = _amount_column(name, distinct_texts)
        if amount_column is not None:
            candidates.append(amount_column)
    if not candidates:
        return None

    column = candidates[0]
    plain_cells = column.parse_formatted(texts)
    entry = _draft_plain(column, plain_cells, missing=missing)
    has_bounds = entry is not None and "lower" in entry.form
    if entry is None or entry.is_ignored or not has_bounds:
        return None

    reading = plain_cells[0].as_py()
    reading = reading.removesuffix(" 00:00:00").removeprefix("1970-01-01 ")
    alternatives = "".join(f"; or is it {other.format!r}?" for other in candidates[1:])
    comment = (
        f"format: {texts[0].as_py()!r} is read as {reading}, and written in the "
        f"same form{alternatives}"
    )
    return replace(
        entry,
        form={**entry.form, "format": column.format},
        comments=(*entry.comments, comment),
    )


def _draft_plain(
    column: FormattedColumn, plain_cells: pa.Array, *, missing: bool
) -> DraftedColumn | None:
    """Drafts a column from its cells, once they are translated from its format.

    Args:
        column: The column, with its format; its bounds are not used.
        plain_cells: Plain numbers or ISO text, (records,).
        missing: Whether a value may be missing.
    """
    if not column.is_temporal:
        return draft_number(column.name, plain_cells, missing=missing, is_label=False)
    has_year = "y" in str(column.format).lower()
    if has_year:
        return draft_time(column.name, plain_cells, missing=missing)

    # Times of day stand on 1970-01-01, all 24 hours of it.
    has_seconds = "%S" in str(column.format)
    first = datetime(1970, 1, 1)
    last = first.replace(hour=23, minute=59, second=59 if has_seconds else 0)
    times_of_day = Datetime(
        name=column.name,
        lower=first,
        upper=last,
        step=1 if has_seconds else 60,
        missing=missing,
    )
    return DraftedColumn.from_column(times_of_day)


def _as_texts(cells: pa.Array) -> pa.Array | None:
    """Returns cells as text, integers too; None if they are neither.

    Floats are integers if all finite ones are integral, as pandas stores integers where
    one is missing.
    """
    if pa.types.is_floating(cells.type):
        floats = cells.cast(pa.float64())
        floats = floats.filter(pc.is_finite(floats))
        are_integral = pc.all(pc.equal(pc.round(floats), floats)).as_py()
        are_large = pc.any(pc.greater(pc.abs(floats), 1e15)).as_py()
        if not are_integral or are_large:
            return None
        cells = floats.cast(pa.int64())
    holds_text_or_integers = is_text(cells.type) or pa.types.is_integer(cells.type)
    if not len(cells) or not holds_text_or_integers:
        return None
    # In a CSV file of pandas, such floats are 20200131.0.
    return pc.replace_substring_regex(cells.cast(pa.string()), r"^([0-9]+)\.0$", r"\1")


def clock_columns(name: str) -> Iterator[ClockColumn]:
    """Yields a column for each format of days and times with separators."""
    for text_format in _CLOCK_FORMATS:
        yield _clock_column(name, text_format)


def _clock_columns(
    name: str, distinct_texts: pa.Array, formats: Iterable[str]
) -> Iterator[ClockColumn]:
    """Yields a column for each reading of texts as dates, timestamps or times of day.

    Args:
        name: Name of the columns.
        distinct_texts: The texts, at least one.
        formats: The formats that are tried, in order.

    Yields:
        Columns whose format fits all texts. Of formats that read them alike, the first
        one counts.
    """
    first_text = distinct_texts[0].as_py()
    readings = set()
    for text_format in formats:
        if iso_text(text_format, first_text) == first_text:
            continue
        column = _clock_column(name, text_format)
        if _fits(column, distinct_texts):
            reading = str(column.parse_formatted(distinct_texts).to_pylist())
            if reading not in readings:
                readings.add(reading)
                yield column


def _clock_column(name: str, text_format: str) -> ClockColumn:
    """Returns a column by which texts in a format are read.

    Its bounds are a day in 1970, and only there since a column must have some: texts
    are parsed without them, and the drafted column has those of its values.

    Args:
        name: Name of the column.
        text_format: One of the candidates of the vocabulary. Those with a time of day
            have an hour: %H or %I, or without a leading zero %-H or %-I.
    """
    has_time = "H" in text_format or "I" in text_format
    if has_time:
        return Datetime(
            name=name,
            lower=datetime(1970, 1, 1),
            upper=datetime(1970, 1, 2),
            format=text_format,
        )
    return Date(
        name=name, lower=date(1970, 1, 1), upper=date(1970, 1, 2), format=text_format
    )


def _fits(column: ClockColumn, distinct_texts: pa.Array) -> bool:
    """Returns whether a format reads all texts, and writes them as they are.

    Of a format of digits alone, the times that it reads must also look like times.

    Args:
        column: A column with the format; its bounds are not used.
        distinct_texts: The texts, at least one.
    """
    parsed = column.parse_cells(distinct_texts)
    if parsed.is_bad.any():
        return False
    times = column.to_arrow(parsed.numbers, parsed.is_missing)
    if column.format_cells(times).cast(pa.string()) != distinct_texts:
        return False

    text_format = str(column.format)
    if text_format not in _MIN_DIGIT_TEXTS:
        return True
    if "Y" in text_format:
        are_enough = len(distinct_texts) >= _MIN_DIGIT_TEXTS[text_format]
        return are_enough and _have_usual_years(times)
    hour_count = pc.count_distinct(pc.hour(times)).as_py()
    minute_count = pc.count_distinct(pc.minute(times)).as_py()
    return bool(hour_count >= _MIN_HOURS and minute_count >= _MIN_MINUTES)


def _have_usual_years(distinct_times: pa.Array) -> bool:
    """Returns whether dates of digits alone have years as dates of records have."""
    earliest, latest = _USUAL_YEARS
    if len(distinct_times) >= _MIN_MANY_DATES:
        earliest = _EARLIEST_YEAR_OF_MANY
    years = pc.min_max(pc.year(distinct_times)).as_py()
    return bool(earliest <= years["min"] and years["max"] <= latest)


def _amount_column(name: str, distinct_texts: pa.Array) -> Continuous | None:
    """Finds the format of amounts: their marks, currency, and brackets if negative.

    Args:
        name: Name of the column.
        distinct_texts: The texts, at least one.

    Returns:
        A column whose format writes each text as it is, but for zeros behind the
        decimal mark: "$#,##0.00" for "$1,200.50" and "$99". None if there is no such
        format.
    """
    texts = [text.replace(MINUS_SIGN, "-") for text in distinct_texts.to_pylist()]
    matches = [match for match in map(_AMOUNT.fullmatch, texts) if match is not None]
    if len(matches) < len(texts):
        return None
    before = max((match[1] for match in matches), key=len)
    after = max((match[4] for match in matches), key=len)
    has_unit = re.fullmatch(UNIT_PATTERN, after) is not None
    if has_unit and len(texts) < _MIN_MEASUREMENTS:
        return None
    has_brackets = any(text.startswith("(") for text in texts)
    stems = [
        _stem(match, text, after) for match, text in zip(matches, texts, strict=True)
    ]

    for thousands_mark, decimal_mark in _MARK_PAIRS:
        if thousands_mark and not any(thousands_mark in match[2] for match in matches):
            continue
        decimals = max(_decimal_count(match, decimal_mark) for match in matches)
        digits = f"#{thousands_mark}##0" if thousands_mark else "0"
        if decimals:
            digits += decimal_mark + "0" * decimals
        text_format = f"{before}{digits}{after}"
        if has_brackets:
            text_format += ";(0)"
        column = Continuous(name=name, lower=0, upper=1, format=text_format)
        parsed = column.parse_cells(distinct_texts)
        if parsed.is_bad.any():
            continue
        written = column.format_cells(pa.array(parsed.numbers)).to_pylist()
        if all(map(str.startswith, written, stems)):
            return column
    return None


def _stem(match: re.Match[str], text: str, suffix: str) -> str:
    """Returns what an amount says but for zeros that a format may add behind it.

    Args:
        match: Of the amount with `_AMOUNT`.
        text: The amount.
        suffix: What the format writes behind numbers.
    """
    has_exponent = bool(match[3])
    if has_exponent:
        return ""  # it is written without
    stem = text.removesuffix(")").removesuffix(suffix)
    is_zero = not re.search("[1-9]", stem)
    return stem.removeprefix("-") if is_zero else stem


def _decimal_count(match: re.Match[str], decimal_mark: str) -> int:
    """Returns how many decimals an amount has once it is written without exponent."""
    _, digits, exponent, _ = match.groups()
    decimals = len(digits.partition(decimal_mark)[2])
    if exponent:
        decimals -= int(exponent[1:])
    return min(max(decimals, 0), _MAX_DECIMALS)
