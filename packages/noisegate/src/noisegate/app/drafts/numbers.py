"""Columns of numbers, days and moments as a public sample shows them: bounds, steps, sentinels outside them, atoms.

A regularity is taken for one only where the sample has enough records and no exception.
"""

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.app.drafts.drafted import DraftedColumn, vocabulary
from noisegate.schema import Categorical, Continuous, Date, Datetime, Decimal, Integer
from noisegate.schema.encode import (
    Parser,
    UnexpectedType,
    is_text,
    parse_dates,
    parse_floats,
    parse_integers,
    parse_timestamps,
)
from noisegate.schema.numeric import MAX_STEPS, rounded_bounds

_MAX_LABEL_LEVELS = 20
# So few whole numbers, of which so many records have each and so many values lie between two, may be codes.
_MOST_CODES, _PER_CODE = 20, 10
_CELLS = 1024  # a column of more different values than this has cells that hold several of them
_EPOCH = datetime(1970, 1, 1)
_SECONDS = (86_400, 3_600, 60, 1)
_LEAST_ROWS, _LEAST_DISTINCT = 50, 10
"""A grid needs as many records and different values: of ten random ones, 1 in 500 have a common divisor of two."""

_MOST_DIGITS = 12
_LEAST_SHOWN = (
    20  # decimals that so many records at least have are how the column is written
)
_MOST_UNITS = 2**48  # so that ends rounded outwards are told from their neighbours too
_MOST_WHOLE, _LARGEST = 2**62, 1e300
# A sentinel is said by as many records, alone or with a few others.
_SENTINEL_ROWS, _MOST_SENTINELS = 10, 4
_CODES = {
    -value
    for value in (1, 2, 3, 4, 5, 6, 7, 8, 9, 66, 77, 88, 97, 98, 99, 999, 9999, 99999)
}
# An atom within the range is said by this part of all records, and by this many times as many as its neighbours are.
_ATOM_SHARE, _ATOM_TIMES, _MOST_ATOMS, _NEIGHBOURS = 0.02, 5, 8, 10

_BORDER = re.compile(r"(?<=[a-z])(?=[A-Z])|[^a-zA-Z0-9]+")

_Numbers = npt.NDArray[np.float64] | npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class _SampledGrid:
    """Numbers that are whole steps apart: value = units / scale, and units lie `step` apart."""

    step: int
    scale: int
    units: npt.NDArray[np.int64]


def draft_number(
    name: str, cells: pa.Array, *, missing: bool, is_label: bool
) -> DraftedColumn | None:
    """Returns the entry of a column of numbers, or None if the cells, none of them missing, are none."""
    if (
        is_text(cells.type)
        and pc.any(pc.match_substring_regex(cells, r"^[+-]?0[0-9]")).as_py()
    ):
        return None  # codes such as 02139
    numbers = _parsed(parse_floats, cells)
    if numbers is None:
        return None
    finite = numbers[np.isfinite(numbers)]
    if not len(finite):
        form = {
            "kind": "continuous",
            "lower": ...,
            "upper": ...,
            **({"missing": True} if missing else {}),
        }
        return DraftedColumn.left_out(
            name, "no finite number is in the sample; state bounds", form
        )
    if max(abs(finite.min()), abs(finite.max())) > _LARGEST:
        return DraftedColumn.left_out(
            name,
            f"numbers beyond {_LARGEST:g} cannot be told apart; write their logarithms",
        )
    whole = _parsed(parse_integers, cells) if len(finite) == len(numbers) else None
    if whole is None or max(-int(whole.min()), whole.max()) > _MOST_WHOLE:
        return _real(
            name, finite, missing=missing, all_finite=len(finite) == len(numbers)
        )
    distinct, counts = np.unique(whole, return_counts=True)
    if (asked := _few(name, distinct, counts, missing=missing)) is not None:
        return asked
    if float(np.ptp(finite)) > MAX_STEPS // 4:
        return _real(name, finite, missing=missing, all_finite=True)
    if set(distinct.tolist()) == {0, 1} or (
        is_label and len(distinct) <= _MAX_LABEL_LEVELS
    ):
        return DraftedColumn.of(
            Categorical(name=name, levels=tuple(distinct.tolist()), missing=missing)
        )
    held = (
        np.iinfo(cells.type.to_pandas_dtype())
        if pa.types.is_integer(cells.type)
        else np.iinfo(np.int64)
    )
    return _whole(
        name, distinct, counts, (int(held.min), int(held.max)), missing=missing
    )


def _few(
    name: str,
    distinct: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    *,
    missing: bool,
) -> DraftedColumn | None:
    """Returns an entry of levels for few whole numbers that stand far apart, as codes do; None if they do not."""
    inner = distinct[~_sentinels(distinct, counts)].astype(np.float64)
    if not 2 < len(inner) <= _MOST_CODES or counts.sum() < _PER_CODE * len(distinct):
        return None
    if np.ptp(inner) < _PER_CODE * len(inner) * np.gcd.reduce(np.diff(distinct)):
        return None
    reason = (
        f"levels: only {len(distinct)} different whole numbers, far apart, as codes are; is it a quantity? Then write "
        f'kind = "integer", lower = {distinct[0]}, upper = {distinct[-1]}'
    )
    return DraftedColumn.of(
        Categorical(name=name, levels=tuple(distinct.tolist()), missing=missing),
        [reason],
    )


def _whole(
    name: str,
    distinct: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    held: tuple[int, int],
    *,
    missing: bool,
) -> DraftedColumn:
    if len(distinct) == 1 and distinct[0] in (0, 1):
        alone = f"the sample shows {distinct[0]} alone; widen the bounds if other numbers can be"
        return DraftedColumn.of(
            Integer(name=name, lower=0, upper=1, missing=missing), [alone]
        )
    outer = _sentinels(distinct, counts)
    inner, rows = distinct[~outer], int(counts[~outer].sum())
    start = (
        int(inner[0]) if max(-inner[0], inner[-1]) > _MOST_UNITS else 0
    )  # float64 holds the distance, not the ends
    ends = rounded_bounds(
        float(inner[0] - start), float(inner[-1] - start), smallest=1.0
    )
    ends = _known_ends(name, inner[0], inner[-1]) or (
        start + int(ends[0]),
        start + int(ends[1]),
    )
    first, last = max(ends[0], held[0]), min(ends[1], held[1])
    reasons: list[str] = []
    described: dict[str, Any] = {"name": name, "missing": missing}
    grid = _grid(inner, rows)
    if grid is not None and grid.step > 1:
        described["step"] = grid.step
        first, last = _on_grid(first, last, grid.units, grid.step)
        reasons.append(
            f"step: all {rows:,} values stand a multiple of {grid.step} apart"
        )
    atoms, why = _atoms(
        distinct, counts, outer, (last - first) // described.get("step", 1)
    )
    return DraftedColumn.of(
        Integer(**described, lower=first, upper=last, atoms=atoms), [*reasons, *why]
    )


def _real(
    name: str, numbers: npt.NDArray[np.float64], *, missing: bool, all_finite: bool
) -> DraftedColumn:
    distinct, counts = np.unique(numbers + 0.0, return_counts=True)
    outer = _sentinels(distinct, counts)
    inner, rows = distinct[~outer], int(counts[~outer].sum())
    lower, upper = rounded_bounds(float(inner[0]), float(inner[-1]))
    known = _known_ends(name, inner[0], inner[-1]) or (lower, upper)
    lower, upper = max(lower, known[0]), min(upper, known[1])
    described: dict[str, Any] = {"name": name, "missing": missing}
    grid = _grid(inner, rows) if all_finite else None
    if grid is None:
        atoms, why = _atoms(distinct, counts, outer, math.inf)
        return DraftedColumn.of(
            Continuous(**described, lower=lower, upper=upper, atoms=atoms), why
        )
    first, last = _on_grid(
        round(lower * grid.scale), round(upper * grid.scale), grid.units, grid.step
    )
    described |= {
        "lower": first / grid.scale,
        "upper": last / grid.scale,
        "step": grid.step / grid.scale,
    }
    atoms, why = _atoms(distinct, counts, outer, (last - first) // grid.step)
    reason = (
        f"step: all {rows:,} values stand a multiple of {described['step']:g} apart"
    )
    return DraftedColumn.of(Decimal(**described, atoms=atoms), [reason, *why])


def _on_grid(
    first: int, last: int, units: npt.NDArray[np.int64], step: int
) -> tuple[int, int]:
    lowest, highest = int(units[0]), int(units[-1])
    return lowest - (lowest - first) // step * step, highest + (
        last - highest
    ) // step * step


def _atoms(
    values: _Numbers,
    counts: npt.NDArray[np.int64],
    outer: npt.NDArray[np.bool_],
    steps: float,
) -> tuple[tuple[Any, ...], list[str]]:
    total = int(counts.sum())
    found = [
        (value.item(), count / total, " and stands far from all others")
        for value, count in zip(values[outer], counts[outer].tolist(), strict=True)
    ]
    if steps > _CELLS and total >= _LEAST_ROWS:
        found += [
            (value, share, "")
            for value, share in _frequent(values[~outer], counts[~outer])
        ]
    reasons = [
        f"atoms: {value:g} is said by {share:.1%} of records{why}"
        for value, share, why in found
    ]
    return tuple(value for value, _, _ in found), reasons


def _parsed(parse: Parser, values: pa.Array) -> npt.NDArray[Any] | None:
    try:
        found = parse(values)
    except UnexpectedType:
        return None
    return None if found.is_bad.any() else found.numbers[~found.is_missing]


def draft_time(name: str, cells: pa.Array, *, missing: bool) -> DraftedColumn | None:
    """Returns the entry of a column of days or moments, or None if the cells, none of them missing, are neither."""
    found = _parsed(parse_dates, cells)
    if found is not None:
        return _days(name, found, missing=missing)
    for zone in (None, UTC):
        found = _parsed(partial(parse_timestamps, aware=zone is not None), cells)
        if found is not None:
            return _moments(name, found, zone, missing=missing)
    return None


def _days(name: str, found: npt.NDArray[np.int64], *, missing: bool) -> DraftedColumn:
    distinct, counts = np.unique(found, return_counts=True)
    outer = _sentinels(distinct, counts)
    inner = distinct[~outer]
    first, last = (
        _EPOCH.date() + timedelta(days=int(day)) for day in (inner[0], inner[-1])
    )
    atoms = tuple(_EPOCH.date() + timedelta(days=int(day)) for day in distinct[outer])
    reasons = [f"atoms: {atom} stands far from all others" for atom in atoms]
    lower, upper = date(first.year, 1, 1), date(last.year, 12, 31)
    return DraftedColumn.of(
        Date(name=name, lower=lower, upper=upper, missing=missing, atoms=atoms), reasons
    )


def _moments(
    name: str, found: npt.NDArray[np.int64], zone: Any, *, missing: bool
) -> DraftedColumn:
    start, end = (
        (_EPOCH + timedelta(microseconds=int(step))).year
        for step in (found.min(), found.max())
    )
    lower, upper = (
        datetime(start, 1, 1, tzinfo=zone),
        datetime(end, 12, 31, 23, 59, 59, 999_999, tzinfo=zone),
    )
    seen = len(found) >= _LEAST_ROWS and len(np.unique(found)) >= _LEAST_DISTINCT
    step = next(
        (step for step in _SECONDS if seen and not (found % (step * 10**6)).any()), None
    )
    if step is None:
        return DraftedColumn.of(
            Datetime(name=name, lower=lower, upper=upper, missing=missing)
        )
    upper += timedelta(microseconds=1) - timedelta(seconds=step)
    reason = f"step: all {len(found):,} moments are a whole number of {step} seconds"
    return DraftedColumn.of(
        Datetime(name=name, lower=lower, upper=upper, missing=missing, step=step),
        [reason],
    )


def _sentinels(
    values: _Numbers, counts: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Returns which of the values, ascending and distinct, stand for something that is no number of the scale."""
    # Few, said by many records, with a gap as wide as the range of all others between; or negative codes such as -1.
    found = np.zeros(len(values), dtype=np.bool_)
    for place in range(
        len(values) - 1, max(len(values) - 1 - _MOST_SENTINELS, _LEAST_DISTINCT - 1), -1
    ):
        if values[place] - values[place - 1] >= values[place - 1] - values[0]:
            found[place:] = (counts[place:] >= _SENTINEL_ROWS).all()
    for place in range(1, min(_MOST_SENTINELS, len(values) - _LEAST_DISTINCT) + 1):
        codes = (
            values[place] >= 0 > values[place - 1]
            and set(values[:place].tolist()) <= _CODES
        )
        if (
            codes
            or values[place] - values[place - 1] >= values[~found][-1] - values[place]
        ):
            found[:place] = (counts[:place] >= _SENTINEL_ROWS).all()
    return found


def _grid(values: _Numbers, rows: int) -> _SampledGrid | None:
    """Returns the coarsest grid on which all values stand, ascending and distinct ones of so many records, if any."""
    # Too few of them to tell its step show as many decimals as they have.
    clear, whole = (
        rows >= _LEAST_ROWS and len(values) >= _LEAST_DISTINCT,
        values.dtype.kind != "f",
    )
    if not clear and (whole or rows < _LEAST_SHOWN):
        return None
    for digits in range(0 if clear else 1, _MOST_DIGITS + 1):
        scale = 10**digits
        if whole:
            units = values.astype(np.int64)
        elif float(np.abs(values).max()) * scale > _MOST_UNITS:
            return None
        else:
            units = np.rint(values * float(scale)).astype(np.int64)
            if not (units / float(scale) == values).all():
                continue
        return _SampledGrid(
            step=int(np.gcd.reduce(np.diff(units))) if clear else 1,
            scale=scale,
            units=units,
        )
    return None


def _frequent(
    values: _Numbers, counts: npt.NDArray[np.int64]
) -> list[tuple[float, float]]:
    """Returns which of the values, ascending and distinct, far more records say than those beside them; with shares."""
    shares = counts / counts.sum()
    around = np.pad(
        counts.astype(np.float64),
        _NEIGHBOURS,
        mode="reflect" if len(counts) > _NEIGHBOURS else "edge",
    )
    usual = np.median(
        np.lib.stride_tricks.sliding_window_view(around, 2 * _NEIGHBOURS + 1), axis=1
    )
    clear = (
        (shares >= _ATOM_SHARE)
        & (counts >= _SENTINEL_ROWS)
        & (counts >= _ATOM_TIMES * usual)
    )
    best = sorted(np.flatnonzero(clear).tolist(), key=lambda place: -shares[place])[
        :_MOST_ATOMS
    ]
    return [(values[place].item(), float(shares[place])) for place in sorted(best)]


def _known_ends(name: str, lowest: float, highest: float) -> tuple[int, int] | None:
    """Returns the ends of what a column is called by its last words, if all its numbers are between them."""
    words = _BORDER.sub("_", name).strip("_").lower()
    ranges = (
        ends
        for called, ends in vocabulary("ends").items()
        if re.search(rf"(?:^|(?<!per)_)(?:{called})$", words)
    )
    return next(
        (
            (low, high)
            for low, high in next(ranges, ())
            if low <= lowest and highest <= high
        ),
        None,
    )
