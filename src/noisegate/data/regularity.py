"""What a public sample shows of one column of numbers: sentinels outside its range, the grid it stands on, its atoms.

Nothing here may see private records: `draft` reads files that their owner has declared public. A regularity is taken
for one only where the sample has enough records and no exception.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LEAST_ROWS, LEAST_DISTINCT = 50, 10
"""A grid is seen in as many records, and as many different values, at least: of ten random ones a common divisor of two
has a chance of 1 in 500."""

_MOST_DIGITS = 6
# So few decimals, in so many records at least, are how the column is written.
_MOST_SHOWN, _LEAST_SHOWN = 3, 20
_MOST_UNITS = 2**50
# A sentinel is said by as many records, alone or with a few others.
_SENTINEL_ROWS, _MOST_SENTINELS = 10, 4
_CODES = {-value for value in (1, 2, 3, 4, 5, 6, 7, 8, 9, 66, 77, 88, 97, 98, 99, 999, 9999, 99999)}
# An atom within the range is said by this part of all records, and by this many times as many as its neighbours are.
_ATOM_SHARE, _ATOM_TIMES, _MOST_ATOMS, _NEIGHBOURS = 0.02, 5, 8, 10

Numbers = npt.NDArray[np.float64] | npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class SampledGrid:
    """Numbers that are whole steps apart: value = units / scale, and units lie `step` apart."""

    step: int
    scale: int
    units: npt.NDArray[np.int64]


def sentinels(values: Numbers, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Returns which of the values, ascending and distinct, stand for something that is no number of the scale.

    They are few, many records say each, and a gap as wide as the range of all other values lies between; or they are
    negative codes such as -1 beside numbers that are not negative.
    """
    found = np.zeros(len(values), dtype=np.bool_)
    for place in range(len(values) - 1, max(len(values) - 1 - _MOST_SENTINELS, LEAST_DISTINCT - 1), -1):
        if values[place] - values[place - 1] >= values[place - 1] - values[0]:
            found[place:] = (counts[place:] >= _SENTINEL_ROWS).all()
    for place in range(1, min(_MOST_SENTINELS, len(values) - LEAST_DISTINCT) + 1):
        codes = values[place] >= 0 > values[place - 1] and set(values[:place].tolist()) <= _CODES
        if codes or values[place] - values[place - 1] >= values[~found][-1] - values[place]:
            found[:place] = (counts[:place] >= _SENTINEL_ROWS).all()
    return found


def grid(values: Numbers, rows: int) -> SampledGrid | None:
    """Returns the coarsest grid on which all values stand, ascending and distinct ones of so many records, if any."""
    if rows < LEAST_ROWS or len(values) < LEAST_DISTINCT:
        return None
    for digits in range(_MOST_DIGITS + 1):
        scale = 10**digits
        if values.dtype.kind != "f":
            units = values.astype(np.int64)
        elif float(np.abs(values).max()) * scale > _MOST_UNITS:
            return None
        else:
            units = np.rint(values * float(scale)).astype(np.int64)
            if not (units / float(scale) == values).all():
                continue
        return SampledGrid(step=int(np.gcd.reduce(np.diff(units))), scale=scale, units=units)
    return None


def decimals(values: Numbers, rows: int) -> SampledGrid | None:
    """Returns the grid of as many decimals as the values, ascending and distinct, show; for few of them."""
    for digits in range(1, _MOST_SHOWN + 1):
        units = np.rint(values * 10.0**digits)
        if rows >= _LEAST_SHOWN and (units / 10.0**digits == values).all():
            return SampledGrid(step=1, scale=10**digits, units=units.astype(np.int64))
    return None


def atoms(values: Numbers, counts: npt.NDArray[np.int64]) -> list[tuple[float, float]]:
    """Returns which of the values, ascending and distinct, far more records say than those beside them; with shares."""
    shares = counts / counts.sum()
    around = np.pad(counts.astype(np.float64), _NEIGHBOURS, mode="reflect" if len(counts) > _NEIGHBOURS else "edge")
    usual = np.median(np.lib.stride_tricks.sliding_window_view(around, 2 * _NEIGHBOURS + 1), axis=1)
    clear = (shares >= _ATOM_SHARE) & (counts >= _SENTINEL_ROWS) & (counts >= _ATOM_TIMES * usual)
    best = sorted(np.flatnonzero(clear).tolist(), key=lambda place: -shares[place])[:_MOST_ATOMS]
    return [(values[place].item(), float(shares[place])) for place in sorted(best)]
