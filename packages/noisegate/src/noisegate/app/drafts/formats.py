"""How the columns of a public sample are written, where it is not plainly: dates, times of day, decorated numbers.

A format is proposed only where it gives back the text of every cell, but for zeros
behind a decimal point.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, datetime
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc

from noisegate.app.drafts.drafted import DraftedColumn, vocabulary
from noisegate.app.drafts.numbers import draft_number, draft_time
from noisegate.schema import Continuous, Date, Datetime
from noisegate.schema.encode import is_text, parse_dates, parse_floats, parse_timestamps
from noisegate.schema.formats import format_cells, iso_text, parse_formatted

_FORMATS = vocabulary("formats")
_WRITTEN = [
    *(f"{day}{clock}" for day in _FORMATS["days"] for clock in _FORMATS["clocks"]),
    *_FORMATS["months"],
    *_FORMATS["hours"],
]
_DIGITS = ("%Y%m%d", "%Y%m", "%-H%M", "%H%M")
# Digits alone are such a date or time where so many different ones are: by chance, hardly all of them would be.
_LEAST_DIGITS = {"%Y%m%d": 3, "%Y%m": 8, "%-H%M": 0, "%H%M": 0}
_LEAST_ANCIENT = 50
_LEAST_HOURS, _LEAST_MINUTES = 8, 12
_MONEY = (
    r"(?:[$€£¥₹₽₩%‰]|kr\.?|Fr\.|zł|R\$|USD|EUR|GBP|CHF|JPY|CAD|AUD|SEK|NOK|DKK|INR|PLN)"
)
_NUMBER = re.compile(
    rf"\(?[-+]?((?:{_MONEY}\s?)?)([0-9](?:[0-9.,'’\s]*[0-9])?)((?:\s?{_MONEY})?)\)?"
)
_MARKS = (
    (",", "."),
    (".", ","),
    *product((" ", "\u00a0", "\u202f", "'", "’"), ",."),
    ("", ","),
    ("", "."),
)


def draft_formatted(
    name: str, cells: pa.Array, *, missing: bool
) -> DraftedColumn | None:
    """Returns the entry of a column of dates, times or numbers in a format; None if it has none, or needs none."""
    texts = _texts(cells)
    if texts is None:
        return None
    distinct = texts.unique()
    numbers = not parse_floats(distinct).is_bad.any()
    if not numbers and not parse_timestamps(distinct, aware=False).is_bad.any():
        return None
    columns = _clocked(name, distinct, _DIGITS if numbers else _WRITTEN)
    if not columns and not numbers:
        columns = _decorated(name, distinct)
    if not columns:
        return None
    column = columns[0]
    plain = parse_formatted(column, texts)
    if isinstance(column, Continuous):
        entry = draft_number(name, plain, missing=missing, is_label=False)
    elif "y" in str(column.format).lower():
        entry = draft_time(name, plain, missing=missing)
    else:
        step, start = 1 if "%S" in str(column.format) else 60, datetime(1970, 1, 1)
        last = start.replace(hour=23, minute=59, second=59 * (step == 1))
        entry = DraftedColumn.of(
            Datetime(name=name, lower=start, upper=last, step=step, missing=missing)
        )
    if entry is None or entry.ignored or "lower" not in entry.form:
        return None
    read = plain[0].as_py().removesuffix(" 00:00:00").removeprefix("1970-01-01 ")
    others = "".join(f"; or is it {other.format!r}?" for other in columns[1:])
    why = (
        f"format: {texts[0].as_py()!r} is read as {read}, and written so again{others}"
    )
    return replace(
        entry, form={**entry.form, "format": column.format}, why=(*entry.why, why)
    )


def _texts(cells: pa.Array) -> pa.Array | None:
    """Returns cells as text, whole numbers too; None if they are neither."""
    if pa.types.is_floating(cells.type):
        cells = cells.cast(pa.float64())
        cells = cells.filter(pc.is_finite(cells))
        if (
            not pc.all(pc.equal(pc.round(cells), cells)).as_py()
            or pc.any(pc.greater(pc.abs(cells), 1e15)).as_py()
        ):
            return None
        cells = cells.cast(pa.int64())
    if not len(cells) or not (is_text(cells.type) or pa.types.is_integer(cells.type)):
        return None
    return pc.replace_substring_regex(
        cells.cast(pa.string()), r"^([0-9]+)\.0$", r"\1"
    )  # as pandas writes them


def _clocked(
    name: str, distinct: pa.Array, forms: Iterable[str]
) -> list[Continuous | Date | Datetime]:
    """Returns columns of days or moments in the formats in which all texts are, each of another reading."""
    found: dict[str, Continuous | Date | Datetime] = {}
    first = distinct[0].as_py()
    for form in forms:
        if iso_text(form, first) == first:
            continue
        column: Date | Datetime = Date(
            name=name, lower=date(1970, 1, 1), upper=date(1970, 1, 2), format=form
        )
        if "H" in form or "I" in form:
            column = Datetime(
                name=name,
                lower=datetime(1970, 1, 1),
                upper=datetime(1970, 1, 2),
                format=form,
            )
        if _fits(column, distinct):
            found.setdefault(str(parse_formatted(column, distinct).to_pylist()), column)
    return list(found.values())


def _fits(column: Date | Datetime, distinct: pa.Array) -> bool:
    plain, form = parse_formatted(column, distinct), str(column.format)
    found = (
        parse_timestamps(plain, aware=False)
        if isinstance(column, Datetime)
        else parse_dates(plain)
    )
    if found.is_bad.any():
        return False
    moments = pa.array(
        found.numbers.astype(
            "datetime64[us]" if isinstance(column, Datetime) else "datetime64[D]"
        )
    )
    if format_cells(column, moments).cast(pa.string()) != distinct:
        return False
    if form not in _LEAST_DIGITS:
        return True
    if "Y" in form:
        usual = pc.min_max(pc.year(moments)).as_py()
        earliest = (
            1000 if len(distinct) >= _LEAST_ANCIENT else 1800
        )  # of as many other numbers some would be no day
        return len(distinct) >= _LEAST_DIGITS[form] and bool(
            earliest <= usual["min"] <= usual["max"] <= 2200
        )
    hours, minutes = (
        pc.count_distinct(each(moments)).as_py() for each in (pc.hour, pc.minute)
    )
    return bool(hours >= _LEAST_HOURS and minutes >= _LEAST_MINUTES)


def _decorated(name: str, distinct: pa.Array) -> list[Continuous | Date | Datetime]:
    """Returns a column of numbers in the first format in which all texts are, if there is one."""
    texts = distinct.to_pylist()
    shapes = [_NUMBER.fullmatch(text) for text in texts]
    if not all(shapes):
        return []
    before, after = (
        max((shape[group] for shape in shapes if shape), key=len) for group in (1, 3)
    )
    below = ";(0)" if any(text.startswith("(") for text in texts) else ""
    for mark, point in [
        each for each in _MARKS if not each[0] or any(each[0] in text for text in texts)
    ]:
        places = max(len(shape[2].partition(point)[2]) for shape in shapes if shape)
        whole = f"#{mark}##0" if mark else "0"
        form = (
            f"{before}{whole}{point}{'0' * places}{after}{below}"
            if places
            else f"{before}{whole}{after}{below}"
        )
        column = Continuous(name=name, lower=0, upper=1, format=form)
        found = parse_floats(parse_formatted(column, distinct))
        if found.is_bad.any():
            continue
        again = format_cells(column, pa.array(found.numbers)).to_pylist()
        stems = [
            text.removesuffix(")").removesuffix(after) for text in texts
        ]  # the rest is zeros
        if all(map(str.startswith, again, stems)):
            return [column]
    return []
