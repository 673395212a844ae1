"""How strongly pairs of columns of one table move together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from noisegate.schema import Column, NumericColumn, Schema
from noisegate_evaluate.reading import cells, read_numbers


def associations(table: pa.Table, columns: Sequence[Column], schema: Schema, *, signed: bool = False) -> np.ndarray:
    """Returns how strongly each pair of columns moves together, symmetric, from 0 to 1, (columns, columns).

    Of numbers the absolute Pearson correlation, of levels Cramér's V, of one of each the correlation ratio; the last
    two are corrected for the bias of many levels on few rows. NaN on the diagonal and for a constant column. Missing is
    a level; a missing number leaves the row out. `signed` takes ranks for numbers, and their correlations from -1 to 1.
    """
    ready = [
        read_numbers(table, column, schema).unit
        if isinstance(column, NumericColumn)
        else cells(table, column, schema).codes
        for column in columns
    ]
    if signed:
        pairs = zip(columns, ready, strict=True)
        ready = [_ranks(each) if isinstance(column, NumericColumn) else each for column, each in pairs]
    numeric = [isinstance(column, NumericColumn) for column in columns]
    matrix = np.full((len(ready), len(ready)), math.nan)
    for i, j in itertools.combinations(range(len(ready)), 2):
        first, second = (i, j) if numeric[i] else (j, i)
        measure = _correlation if numeric[i] and numeric[j] else _correlation_ratio if numeric[first] else _cramers_v
        matrix[i, j] = matrix[j, i] = measure(ready[first], ready[second])
    return matrix if signed else np.abs(matrix)


def _ranks(numbers: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata

    return np.asarray(rankdata(numbers, nan_policy="omit"))


def _correlation(left: np.ndarray, right: np.ndarray) -> float:
    both = ~(np.isnan(left) | np.isnan(right))
    left, right = left[both], right[both]
    if len(left) < 2 or np.ptp(left) == 0 or np.ptp(right) == 0:
        return math.nan
    left, right = left - left.mean(), right - right.mean()
    return float(np.clip(left @ right / math.sqrt((left @ left) * (right @ right)), -1.0, 1.0))


def _correlation_ratio(numbers: np.ndarray, codes: np.ndarray) -> float:
    """The share of the spread of the numbers that the levels explain, as a root; epsilon-squared correction."""
    known = ~np.isnan(numbers)
    numbers = numbers[known]
    groups, member = np.unique(codes[known], return_inverse=True)
    if len(groups) < 2 or len(numbers) <= len(groups) or np.ptp(numbers) == 0:
        return math.nan
    centred = numbers - numbers.mean()
    sums, counts = np.bincount(member, weights=centred), np.bincount(member)
    explained = float((sums**2 / counts).sum() / (centred @ centred))
    corrected = 1 - (1 - explained) * (len(numbers) - 1) / (len(numbers) - len(groups))
    return math.sqrt(min(1.0, max(0.0, corrected)))


def _cramers_v(left: np.ndarray, right: np.ndarray) -> float:
    """Cramér's V with the correction of Bergsma (2013)."""
    (rows, row), (columns, column) = (np.unique(codes, return_inverse=True) for codes in (left, right))
    r, c, n = len(rows), len(columns), len(left)
    if min(r, c) < 2:
        return math.nan
    counts = np.bincount(row * c + column, minlength=r * c).reshape(r, c)
    expected = counts.sum(axis=1, keepdims=True) * (counts.sum(axis=0, keepdims=True) / n)
    phi_squared = float(((counts - expected) ** 2 / expected).sum() / n)
    corrected = max(0.0, phi_squared - (r - 1) * (c - 1) / (n - 1))
    room = min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1
    return math.sqrt(min(1.0, corrected / room)) if room > 0 else math.nan
