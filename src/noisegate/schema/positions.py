"""Positions in [0, 1] and the numbers they stand for: one rule for whatever reads or writes an encoded column."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.schema.columns import Continuous, NumericColumn, SteppedColumn

_SAFE_STEPS = 2**50  # below it, rounding position * steps always gives back the step that was encoded


def numbers_at(column: NumericColumn, positions: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """Return the numbers that positions stand for, of the same shape.

    Args:
        column: says the bounds and the kind.
        positions: none is NaN; those outside [0, 1] are clamped.

    Returns:
        float64 for a continuous column; else int64 steps: whole numbers, days or microseconds since 1970.
    """
    clamped = np.clip(positions, 0.0, 1.0)
    if isinstance(column, Continuous):
        return np.clip(column.lower + clamped * (column.upper - column.lower), column.lower, column.upper)
    return _steps(column, clamped)


def positions_of(column: NumericColumn, numbers: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the positions that encode numbers: float64, or int64 steps; those outside the bounds are clamped.

    Steps are subtracted exactly, as integers.
    """
    if isinstance(column, Continuous):
        offset = np.clip(numbers, column.lower, column.upper) - column.lower
        return np.asarray((offset + 0.0) / (column.upper - column.lower), dtype=np.float64)
    first, last = column.steps
    return np.asarray((np.clip(numbers, first, last) - first) / np.float64(last - first), dtype=np.float64)


def _steps(column: SteppedColumn, positions: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the nearest step of each position, exactly the one that was encoded if one was."""
    first, last = column.steps
    width = last - first
    nearest = np.rint(positions * width).astype(np.int64)
    if width > _SAFE_STEPS:  # the product may be off by a few steps: take the step that encodes to this very position
        for candidate in [np.clip(nearest + shift, 0, width) for shift in (-2, -1, 1, 2)]:
            nearest = np.where(candidate / np.float64(width) == positions, candidate, nearest)
    return np.clip(nearest, 0, width) + first
