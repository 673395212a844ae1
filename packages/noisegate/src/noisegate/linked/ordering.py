"""Time between children: the gap to the one before, in steps of the column that puts them in order.

The first child has its distance from an origin, a column of the parent or the lower bound, and each further one its gap
to the child before, so that dates never decrease. A distance is counted in *ticks*, from 0 at the lower bound: ranks of
a column of steps, or the difference itself in a column of real numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import SchemaError
from noisegate.schema.layout import (
    Floats,
    bounds_of,
    numbers_at,
    positions_of,
    positions_of_ranks,
    ranks_at,
    ranks_of,
)
from noisegate.schema.numeric import Continuous, Datetime, Decimal, Integer, NumericColumn

Ticks = npt.NDArray[Any]
"""int64, or float64 for a column of real numbers."""


def ticks_at(order: NumericColumn, positions: Floats) -> Ticks:
    """Returns the ticks of encoded values of the column ``order``, none of them missing."""
    if isinstance(order, Continuous):
        return np.asarray(numbers_at(order, positions) - order.lower)
    return ranks_at(order, positions)


def positions_at(order: NumericColumn, ticks: Ticks) -> Floats:
    """Returns the positions in [0, 1] of ticks; those beyond the upper bound are moved to it."""
    if isinstance(order, Continuous):
        return positions_of(order, order.lower + ticks)
    return positions_of_ranks(order, np.clip(ticks, 0, order.last))


def origin_ticks(order: NumericColumn, since: NumericColumn, positions: Floats) -> Ticks:
    """Returns the ticks of ``order`` that encoded values of ``since`` stand at; at least 0, and the nearest ones."""
    numbers = numbers_at(since, positions)
    if isinstance(order, Continuous):
        return np.asarray(np.clip(numbers, order.lower, order.upper) - order.lower)
    return ranks_of(order, numbers)


def first_column(order: NumericColumn, name: str) -> NumericColumn:
    """Returns the column of the first child's distance from its origin; the others have none."""
    if isinstance(order, Continuous):
        return Continuous(name=name, lower=0.0, upper=order.upper - order.lower, missing=True)
    return Integer(name=name, lower=0, upper=order.last, missing=True)


def gap_column(order: NumericColumn, name: str, longest: float | None) -> NumericColumn:
    """Returns the column of the gap to the child before, up to ``longest`` (numbers, days or seconds; None for all)."""
    if isinstance(order, Continuous):
        wide = order.upper - order.lower
        return Continuous(name=name, lower=0.0, upper=wide if longest is None else min(longest, wide), missing=True)
    last = order.last if longest is None else min(math.ceil(longest * ticks_per_unit(order)), order.last)
    return Integer(name=name, lower=0, upper=last, missing=True)


def check_order(order: Any, what: str) -> NumericColumn:
    """Requires a column of numbers or dates that is never missing and has no atoms outside its bounds."""
    if not order.numeric:
        raise SchemaError(f"{what} {order.name!r} is {order.kind}; name a column of numbers, dates or moments")
    if order.missing:
        raise SchemaError(f"{what} {order.name!r} may be missing in the schema; leave missing = true out there")
    if any(order.outer):
        raise SchemaError(f"{what} {order.name!r} has atoms outside its bounds, which no gap leads to; remove them")
    column: NumericColumn = order
    return column


def check_origin(order: NumericColumn, since: NumericColumn, where: str) -> None:
    """Requires that distances can be counted from ``since`` to ``order``: of one kind, with bounds that meet."""
    if not _alike(order, since):
        raise SchemaError(
            f"{where}: since = {since.name!r} is {since.kind} and order = {order.name!r} is {order.kind}; name columns "
            "of one kind, moments with or without a time zone both"
        )
    if since.missing or any(since.outer):
        raise SchemaError(
            f"{where}: since = {since.name!r} must be a column that is never missing and has no atoms outside its "
            "bounds; leave since out to count from the lower bound of order"
        )
    if bounds_of(since)[0] >= bounds_of(order)[1]:
        raise SchemaError(f"{where}: since = {since.name!r} lies after all of order = {order.name!r}; correct a bound")


def can_be_origin(order: NumericColumn, since: NumericColumn) -> bool:
    """Returns whether distances can be counted from ``since`` to ``order``."""
    try:
        check_origin(order, since, "")
    except SchemaError:
        return False
    return True


def _alike(order: NumericColumn, since: NumericColumn) -> bool:
    """Returns whether two columns are both of numbers, or of dates, or of moments with or without a time zone."""
    kinds = {(column.kind, isinstance(column, Datetime) and column.aware) for column in (order, since)}
    return len(kinds) == 1 or all(isinstance(column, Continuous | Decimal | Integer) for column in (order, since))


def ticks_per_unit(order: NumericColumn) -> float:
    """Returns how many ticks make one of what ``longest_gap`` counts: numbers, days or, for moments, seconds."""
    if isinstance(order, Continuous):
        return 1.0
    return (10**6 if isinstance(order, Datetime) else order.scale) / order.spacing
