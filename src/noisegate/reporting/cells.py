"""Names of the cells of a column, as a person reads them: a level, a span of numbers or dates, or missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from noisegate.features.binning import NumericBins
from noisegate.reporting.drawing import at
from noisegate.schema import CodedColumn, Continuous, NumericColumn

MISSING = "(missing)"
_CLOSE = 1e-9  # the width of a cell that holds a single real number


def level_names(column: CodedColumn) -> list[str]:
    """Returns the name of each code of a column."""
    names = [str(level) for level in column.levels]
    return [*names, MISSING][: column.size]


def cell_names(column: NumericColumn, bins: NumericBins) -> list[str]:
    """Returns the name of each cell: the values between two cuts, or the one value that is there."""
    names = [span_name(column, low, high) or "" for low, high in pairwise((0.0, *bins.cuts, 1.0))]
    return [*names, MISSING] if bins.nullable else names


def numbered(names: Sequence[str]) -> list[str]:
    """Returns names that differ: those that read alike get a number behind them."""
    seen: dict[str, int] = {}
    told = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        told.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return told


def span_name(column: NumericColumn, low: float, high: float) -> str | None:
    """Returns the values from one position up to another, the last bound with it; None where there are none."""
    if isinstance(column, Continuous):
        # A bound is a cell of its own, and the next one begins at the float64 above it.
        ends = [round(low, 12)] if high - low < _CLOSE else [round(low, 12), round(high, 12)]
    else:
        first = math.ceil(low * column.last - _CLOSE)
        last = column.last if high == 1.0 else math.ceil(high * column.last - _CLOSE) - 1
        if last < first:
            return None
        ends = [first / column.last, last / column.last]
    return " – ".join(dict.fromkeys(at(column, end) for end in ends))
