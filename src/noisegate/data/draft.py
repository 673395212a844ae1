"""A first draft of a schema from a file that its owner has declared public; never from private data."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.data.frames import read_table
from noisegate.errors import DataError, SchemaError
from noisegate.schema import (
    DEFAULT_MISSING_VALUES,
    Boolean,
    Categorical,
    Column,
    Continuous,
    Date,
    Datetime,
    Integer,
    Schema,
)
from noisegate.schema.columns import MAX_STEPS
from noisegate.schema.encode import Parser, UnexpectedType, days, floats, integers, is_text, microseconds, plain_cells

MAX_LEVELS = 200
"""Text with more distinct values than this is taken for free text or identifiers."""

_MAX_LABEL_LEVELS = 20
_EPOCH = datetime(1970, 1, 1)


def draft_schema(path: str | Path, label: str | None = None) -> Schema:
    """Return a draft of a schema from a *public* file: its bounds and levels come straight from the records.

    Whole and decimal numbers get bounds rounded outwards, ISO dates and moments bounds at the turn of a year; ``true``
    and ``false`` become boolean, other text with few distinct values categorical. Numbers that are only 0 and 1, and a
    label of few distinct whole numbers, become categorical. Numbers with leading zeros (codes) are text.

    Raises:
        DataError: if the file cannot be read or has no records.
        SchemaError: if a column holds free text, or nothing at all, or ``label`` is not a column.
    """
    table = read_table(path)
    if not table.num_rows:
        raise DataError(f"{Path(path).name}: there are no records to draft a schema from")
    if label is not None and label not in table.column_names:
        raise SchemaError(f"label {label!r} is not a column of {Path(path).name}: {', '.join(table.column_names)}")
    columns = tuple(_draft(name, table[name].combine_chunks(), is_label=name == label) for name in table.column_names)
    return Schema(columns=columns, label=label).usable()


def _draft(name: str, cells: pa.Array, *, is_label: bool) -> Column:
    cells, present = plain_cells(cells, pa.array(DEFAULT_MISSING_VALUES))
    values = cells.filter(pa.array(present)).unique()
    missing = not present.all() or (pa.types.is_floating(cells.type) and bool(pc.any(pc.is_nan(cells)).as_py()))
    if not len(values):
        raise SchemaError(
            f"column {name!r}: every value is missing, so there is nothing to draft from; remove the column from the "
            "public file, and describe it by hand"
        )
    few_words = values.to_pylist() if is_text(values.type) and len(values) < 20 else [""]
    if pa.types.is_boolean(values.type) or {word.lower() for word in few_words} <= {"true", "false"}:
        return Boolean(name=name, missing=missing)
    return (
        _number(name, values, missing=missing, is_label=is_label)
        or _time(name, values, missing=missing)
        or _categorical(name, values, missing=missing)
    )


def _number(name: str, values: pa.Array, *, missing: bool, is_label: bool) -> Column | None:
    if is_text(values.type) and pc.any(pc.match_substring_regex(values, r"^[+-]?0[0-9]")).as_py():
        return None  # codes such as 02139
    numbers = _good(floats, values)
    if numbers is None:
        return None
    finite = numbers[np.isfinite(numbers)]
    if not len(finite):
        raise SchemaError(f"column {name!r}: no finite number to draft bounds from; describe the column by hand")
    whole = _good(integers, values)
    if whole is None or len(finite) < len(numbers) or max(abs(finite.min()), abs(finite.max())) > MAX_STEPS // 4:
        lower, upper = _outwards(float(finite.min()), float(finite.max()), smallest=0.0)
        return Continuous(name=name, lower=lower, upper=upper, missing=missing)
    distinct = sorted({int(number) for number in whole})
    if set(distinct) == {0, 1} or (is_label and len(distinct) <= _MAX_LABEL_LEVELS):
        return Categorical(name=name, levels=tuple(distinct), missing=missing)
    first, last = _outwards(float(distinct[0]), float(distinct[-1]), smallest=1.0)
    return Integer(name=name, lower=int(first), upper=int(last), missing=missing)


def _outwards(lowest: float, highest: float, *, smallest: float) -> tuple[float, float]:
    """Return bounds around both values at round numbers; steps are powers of ten, at least ``smallest``."""
    width = highest - lowest or max(abs(highest), 1.0)
    if highest == lowest:
        lowest, highest = lowest - width / 2, highest + width / 2
    exponent = math.floor(math.log10(width / 2))
    if smallest:
        exponent = max(exponent, round(math.log10(smallest)))
    first, last = math.floor(lowest / 10.0**exponent), math.ceil(highest / 10.0**exponent)
    return float(f"{first}e{exponent}"), float(f"{last}e{exponent}")


def _time(name: str, values: pa.Array, *, missing: bool) -> Column | None:
    found = _good(days, values)
    if found is not None:
        first, last = (_EPOCH.date() + timedelta(days=int(day)) for day in (found.min(), found.max()))
        return Date(name=name, lower=date(first.year, 1, 1), upper=date(last.year, 12, 31), missing=missing)
    for zone in (None, UTC):
        found = _good(partial(microseconds, aware=zone is not None), values)
        if found is not None:
            start, end = ((_EPOCH + timedelta(microseconds=int(step))).year for step in (found.min(), found.max()))
            upper = datetime(end, 12, 31, 23, 59, 59, 999_999, tzinfo=zone)
            return Datetime(name=name, lower=datetime(start, 1, 1, tzinfo=zone), upper=upper, missing=missing)
    return None


def _good(parse: Parser, values: pa.Array) -> npt.NDArray[Any] | None:
    """Return the numbers that ``parse`` makes of all values, or None if it cannot read some of them."""
    try:
        parsed = parse(values)
    except UnexpectedType:
        return None
    return None if parsed.bad.any() else parsed.numbers


def _categorical(name: str, values: pa.Array, *, missing: bool) -> Column:
    if not is_text(values.type):
        raise SchemaError(
            f"column {name!r}: values of type {values.type} have no kind in a schema; convert or remove it"
        )
    if len(values) > MAX_LEVELS:
        raise SchemaError(
            f"column {name!r}: {len(values)} distinct texts, more than {MAX_LEVELS}: free text or identifiers; "
            "remove the column from the public file, and add its name to `ignore` in the schema"
        )
    return Categorical(name=name, levels=tuple(sorted(values.to_pylist())), missing=missing)
