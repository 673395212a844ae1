"""Columns of days and moments as a public sample shows them, and those that are written in another way than is read."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.data import regularity
from noisegate.data.draft_numbers import parsed
from noisegate.schema import Date, Datetime
from noisegate.schema.drafted import DraftedColumn
from noisegate.schema.encode import days, is_text, microseconds

_EPOCH = datetime(1970, 1, 1)
_SECONDS = (86_400, 3_600, 60, 1)
_FOREIGN = re.compile(r"([0-9]{1,4})([./-])([0-9]{1,2})\2([0-9]{2,4})\.?(?:[ T]+[0-9]{1,2}:[0-9]{2}.*)?")


def draft_time(name: str, cells: pa.Array, *, missing: bool) -> DraftedColumn | None:
    """Return the entry of a column of days or moments, or None if the cells, none of them missing, are neither."""
    found = parsed(days, cells)
    if found is not None:
        return _days(name, found, missing=missing)
    for zone in (None, UTC):
        found = parsed(partial(microseconds, aware=zone is not None), cells)
        if found is not None:
            return _moments(name, found, zone, missing=missing)
    return _foreign(name, cells, missing=missing) if is_text(cells.type) else None


def _days(name: str, found: npt.NDArray[np.int64], *, missing: bool) -> DraftedColumn:
    distinct, counts = np.unique(found, return_counts=True)
    outer = regularity.sentinels(distinct, counts)
    inner = distinct[~outer]
    first, last = (_EPOCH.date() + timedelta(days=int(day)) for day in (inner[0], inner[-1]))
    atoms = tuple(_EPOCH.date() + timedelta(days=int(day)) for day in distinct[outer])
    reasons = [f"atoms: {atom} stands far from all others" for atom in atoms]
    lower, upper = date(first.year, 1, 1), date(last.year, 12, 31)
    return DraftedColumn.of(Date(name=name, lower=lower, upper=upper, missing=missing, atoms=atoms), reasons)


def _moments(name: str, found: npt.NDArray[np.int64], zone: Any, *, missing: bool) -> DraftedColumn:
    start, end = ((_EPOCH + timedelta(microseconds=int(step))).year for step in (found.min(), found.max()))
    lower, upper = datetime(start, 1, 1, tzinfo=zone), datetime(end, 12, 31, 23, 59, 59, 999_999, tzinfo=zone)
    seen = len(found) >= regularity.LEAST_ROWS and len(np.unique(found)) >= regularity.LEAST_DISTINCT
    step = next((step for step in _SECONDS if seen and not (found % (step * 10**6)).any()), None)
    if step is None:
        return DraftedColumn.of(Datetime(name=name, lower=lower, upper=upper, missing=missing))
    upper += timedelta(microseconds=1) - timedelta(seconds=step)
    reason = f"step: all {len(found):,} moments are a whole number of {step} seconds"
    return DraftedColumn.of(Datetime(name=name, lower=lower, upper=upper, missing=missing, step=step), [reason])


def _foreign(name: str, cells: pa.Array, *, missing: bool) -> DraftedColumn | None:
    """Return the entry of days such as 31.12.2020, which must be written anew before they can be read."""
    shapes = [_FOREIGN.fullmatch(text) for text in pc.unique(cells).to_pylist()]
    if not all(shapes):
        return None
    kind: type[Date] | type[Datetime] = Datetime if any(":" in one[0] for one in shapes if one) else Date
    written = "2020-12-31T23:59:59" if kind is Datetime else "2020-12-31"
    years = [int(year) for one in shapes if one for year in (one[1], one[4]) if len(year) == 4]
    form: dict[str, Any] = {"kind": kind.kind, "lower": ..., "upper": ...}
    if len(years) == len(shapes) and min(years) > 0:
        ends = ((1, 1), (12, 31, 23, 59, 59)) if kind is Datetime else ((1, 1), (12, 31))
        clock: Any = datetime if kind is Datetime else date
        form |= {"lower": clock(min(years), *ends[0]), "upper": clock(max(years), *ends[1])}
    form |= {"missing": True} if missing else {}
    example = next(one[0] for one in shapes if one)
    return DraftedColumn.left_out(
        name, f"days written like {example} are not read; write them as {written} in the data", form
    )
