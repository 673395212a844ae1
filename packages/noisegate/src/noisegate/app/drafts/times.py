"""Columns of dates and timestamps, as a public sample shows them: bounds and step.

Bounds are whole years. A step is claimed for timestamps alone: of a day, an hour, a
minute or a second.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisegate.app.drafts.drafted import DraftedColumn
from noisegate.app.drafts.numbers import parsed_numbers
from noisegate.app.drafts.regularities import (
    MIN_STEP_RECORDS,
    MIN_STEP_VALUES,
    ValueCounts,
    sentinel_mask,
)
from noisegate.schema import Date, Datetime
from noisegate.schema.parsing import parse_dates, parse_timestamps

_EPOCH = datetime(1970, 1, 1)
_ONE_DAY = timedelta(days=1)
_ONE_SECOND = timedelta(seconds=1)
_MICROSECONDS = 10**6  # in a second

# Seconds of the steps that are looked for, the largest first.
_STEPS = (86_400, 3_600, 60, 1)


def draft_time(name: str, cells: pa.Array, *, missing: bool) -> DraftedColumn | None:
    """Drafts a column of dates or timestamps.

    Args:
        name: Name of the column.
        cells: Its cells without missing ones, (records,), at least one; Arrow dates or
            timestamps, or ISO text.
        missing: Whether a value may be missing.

    Returns:
        The drafted column; None unless all cells are dates, or all timestamps with a
        time zone, or all timestamps without.
    """
    days = parsed_numbers(parse_dates, cells)
    if days is not None:
        return _draft_date(name, days, missing=missing)
    for zone in (None, UTC):
        parse = partial(parse_timestamps, aware=zone is not None)
        microseconds = parsed_numbers(parse, cells)
        if microseconds is not None:
            return _draft_datetime(name, microseconds, zone, missing=missing)
    return None


def _draft_date(
    name: str, days: npt.NDArray[np.int64], *, missing: bool
) -> DraftedColumn:
    """Drafts a column of dates; sentinels such as 9999-12-31 become atoms.

    Args:
        name: Name of the column.
        days: Days since 1970-01-01, (records,).
        missing: Whether a value may be missing.
    """
    distinct = ValueCounts.of(days)
    if distinct.is_constant:
        day = _date(distinct.values[0])
        return _draft_constant(Date, name, day, _ONE_DAY, missing=missing)
    is_sentinel = sentinel_mask(distinct)
    regular_days = distinct.values[~is_sentinel]
    atoms = tuple(_date(day) for day in distinct.values[is_sentinel])
    column = Date(
        name=name,
        lower=date(_date(regular_days[0]).year, 1, 1),
        upper=date(_date(regular_days[-1]).year, 12, 31),
        missing=missing,
        atoms=atoms,
    )
    reasons = [f"atoms: {atom} stands far from all others" for atom in atoms]
    return DraftedColumn.from_column(column, reasons)


def _date(day: int) -> date:
    """Returns the date of a day that is counted from 1970-01-01."""
    return _EPOCH.date() + timedelta(days=int(day))


def _draft_datetime(
    name: str,
    microseconds: npt.NDArray[np.int64],
    zone: tzinfo | None,
    *,
    missing: bool,
) -> DraftedColumn:
    """Drafts a column of timestamps.

    Args:
        name: Name of the column.
        microseconds: Since 1970-01-01T00:00:00, (records,).
        zone: Time zone of the bounds; None for timestamps without one.
        missing: Whether a value may be missing.
    """
    first = _EPOCH + timedelta(microseconds=int(microseconds.min()))
    is_in_seconds = first.microsecond == 0
    if is_in_seconds and ValueCounts.of(microseconds).is_constant:
        moment = first.replace(tzinfo=zone)
        return _draft_constant(Datetime, name, moment, _ONE_SECOND, missing=missing)
    last = _EPOCH + timedelta(microseconds=int(microseconds.max()))
    lower = datetime(first.year, 1, 1, tzinfo=zone)
    end_of_year = datetime(last.year, 12, 31, 23, 59, 59, 999_999, tzinfo=zone)
    step = _largest_step(microseconds)
    if step is None:
        column = Datetime(name=name, lower=lower, upper=end_of_year, missing=missing)
        return DraftedColumn.from_column(column)

    # The last multiple of the step in the year.
    upper = end_of_year + timedelta(microseconds=1) - timedelta(seconds=step)
    column = Datetime(name=name, lower=lower, upper=upper, missing=missing, step=step)
    reason = (
        f"step: all {len(microseconds):,} moments are a whole number of {step} seconds"
    )
    return DraftedColumn.from_column(column, [reason])


def _draft_constant(
    kind: type[Date | Datetime], name: str, time: Any, unit: timedelta, *, missing: bool
) -> DraftedColumn:
    """Drafts a column whose records all have one time, between its two neighbours.

    Args:
        kind: Kind of the column.
        name: Name of the column.
        time: The date, or the timestamp in whole seconds.
        unit: Distance to the neighbours.
        missing: Whether a value may be missing.
    """
    step = 1 if kind is Datetime else None
    column = kind(
        name=name, lower=time - unit, upper=time + unit, missing=missing, step=step
    )
    reason = (
        f"bounds: the sample shows {time.isoformat()} alone; widen them if other times "
        "can be"
    )
    return DraftedColumn.from_column(column, [reason])


def _largest_step(microseconds: npt.NDArray[np.int64]) -> int | None:
    """Returns the largest step of all timestamps, in seconds; None for no clear one."""
    shows_step = (
        len(microseconds) >= MIN_STEP_RECORDS
        and len(np.unique(microseconds)) >= MIN_STEP_VALUES
    )
    if not shows_step:
        return None
    for step in _STEPS:
        if not (microseconds % (step * _MICROSECONDS)).any():
            return step
    return None
