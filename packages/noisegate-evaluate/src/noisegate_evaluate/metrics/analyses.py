"""What an analyst would find in synthetic records where real ones have it: associations, regressions, quantiles.

A total variation distance is an average over cells; a correlation is one direction of
hundreds, and a regression a few. So each is compared by itself, on at most `MOST_ROWS`
rows and `MOST_COLUMNS` columns, the label among them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from noisegate.schema import CodedColumn, Column, Schema
from noisegate_evaluate.metrics.marginals import (
    OrderDistance,
    cell_counts,
    order_distance,
)
from noisegate_evaluate.metrics.result import MetricResult, metric
from noisegate_evaluate.reading import (
    cells,
    known_numbers,
    read_levels,
    read_numbers,
    some_rows,
)

MOST_ROWS = 20_000
MOST_COLUMNS = 60
STRONG = 0.3  # associations of real records from here on count as strong
QUANTILES = (0.05, 0.5, 0.95)
_COMPARED = 10_000
_ROUNDING = 1e-12  # of numbers in [0, 1]
_RIDGE = 1e-3
_CLEAR = 4.0  # standard errors
# Coefficients that are farther apart are wrong in the same way. Without a limit, one column whose real values differ by
# a hair of its range would decide the mean of all.
_MOST_APART = 10.0
_LARGE = 0.1  # coefficients from here on are counted


class Pair(NamedTuple):
    """How strongly two columns go together in real and in synthetic records."""

    names: str
    real: float
    synthetic: float

    @property
    def error(self) -> float:
        """How far both are apart."""
        return abs(self.real - self.synthetic)


def compared_pairs(
    names: Sequence[str], real: np.ndarray, synthetic: np.ndarray
) -> list[Pair]:
    """Returns the pairs of columns that vary in real records.

    Args:
        names: Names of the columns.
        real: How strongly they go together in real records, (columns, columns).
        synthetic: The same in synthetic ones; NaN counts as 0.
    """
    return [
        Pair(
            f"{names[i]} × {names[j]}",
            float(real[i, j]),
            float(np.nan_to_num(synthetic[i, j])),
        )
        for i, j in itertools.combinations(range(len(names)), 2)
        if math.isfinite(real[i, j])
    ]


def kept_text(kept: float | None, strong: Sequence[Pair]) -> str:
    """Says which part is kept of how many pairs, as it is printed; "" without any."""
    return "" if kept is None else f"{kept:.0%} of {len(strong)}"


def strong_pairs(pairs: Sequence[Pair]) -> tuple[list[Pair], float | None]:
    """Returns the pairs that are strong in real records, and which part of them is kept.

    Returns:
        The pairs, the strongest first; and the mean part kept, none with the wrong
        sign; None where there are none.
    """
    strong = [pair for pair in pairs if abs(pair.real) >= STRONG]
    strong.sort(key=lambda pair: -abs(pair.real))
    kept = [min(max(pair.synthetic / pair.real, 0.0), 1.0) for pair in strong]
    return strong, float(np.mean(kept)) if kept else None


@metric("associations", "tables")
@dataclass(frozen=True, kw_only=True)
class Associations(MetricResult):
    """How pairs of columns go together: rank correlations of numbers, Cramér's V of levels, the correlation ratio.

    ``error`` is the mean absolute difference of ``pairs``. ``strong`` are those of real records from .3 on, the
    strongest first, each ("first × second", real, synthetic), and ``kept`` the mean part of these that is kept: none
    with the wrong sign; None where there are none.
    """

    PRINTED: ClassVar = {
        "error of associations, mean": "{it.error:.3f}",
        f"associations above {STRONG} kept": "{it.kept_text}",
    }
    pairs: int
    error: float
    strong: Sequence[Pair]
    kept: float | None

    @classmethod
    def measured(
        cls, synthetic: pa.Table, real: pa.Table, *, seed: int, **more: Any
    ) -> Associations | None:
        """Returns the figures; None of fewer than two columns that vary."""
        schema: Schema = more["schema"]
        columns = _columns(schema)
        synthetic_values, real_values = (
            associations(_some(table, seed), columns, schema, signed=True)
            for table in (synthetic, real)
        )
        names = [column.name for column in columns]
        pairs = compared_pairs(names, real_values, synthetic_values)
        if not pairs:
            return None
        strong, kept = strong_pairs(pairs)
        return cls(
            pairs=len(pairs),
            error=float(np.mean([pair.error for pair in pairs])),
            strong=strong,
            kept=kept,
        )

    @property
    def lost(self) -> list[Pair]:
        """Strong ones of which less than three quarters are kept."""
        return [pair for pair in self.strong if pair.synthetic / pair.real < 0.75]

    @property
    def kept_text(self) -> str:
        """What is kept of strong ones, as it is printed; "" without any."""
        return kept_text(self.kept, self.strong)


@metric("quantiles", "tables")
@dataclass(frozen=True, kw_only=True)
class Quantiles(MetricResult):
    """Which share of real records lies below synthetic quantiles: of 5, 50 and 95 %, of every number or date.

    Figures are absolute differences from what it should be: on average, and the ``largest``, of ``column`` at ``at``,
    with what ``chance`` alone explains of that. ``stretched`` is how far the 1 or 99 % quantile of ``reaching`` is off
    beyond chance, relative to its real distance from the median: values, where the others are ranks.
    """

    PRINTED: ClassVar = {
        "quantiles, error in rank, mean": "{it.mean:.3f}",
        "quantiles, largest error in rank": "{it.largest:.3f} ({it.column}, {it.at:.0%})",
        "1 or 99 % quantile, relative distance": "{it.stretched:.2f} ({it.reaching})",
    }
    mean: float
    largest: float
    chance: float
    column: str
    at: float
    stretched: float
    reaching: str

    @classmethod
    def measured(
        cls, synthetic: pa.Table, real: pa.Table, *, seed: int, **more: Any
    ) -> Quantiles | None:
        """Returns the figures; None of tables without numbers."""
        schema: Schema = more["schema"]
        errors: list[_QuantileError] = []
        distances: list[tuple[float, str]] = []
        for column in schema.file_layout.numeric:
            synthetic_numbers = known_numbers(synthetic, column, schema)
            real_numbers = np.sort(known_numbers(real, column, schema))
            if not len(synthetic_numbers) or not len(real_numbers):
                continue
            for at in (0.01, 0.99):
                distance = _stretched(synthetic_numbers, real_numbers, at)
                distances.append((distance, column.name))
            for at in QUANTILES:
                quantile = np.quantile(synthetic_numbers, at, method="inverted_cdf")
                # Where many records have this very value, each rank among theirs is right.
                low, high = (
                    np.searchsorted(real_numbers, quantile, side=side)
                    / len(real_numbers)
                    for side in ("left", "right")
                )
                error = float(max(low - at, at - high, 0.0))
                chance = _chance(at, synthetic_numbers, real_numbers)
                errors.append(_QuantileError(error, chance, column.name, at))
        if not errors:
            return None
        worst = max(errors, key=lambda quantile: quantile.error - quantile.chance)
        stretched, reaching = max(distances)
        return cls(
            mean=float(np.mean([quantile.error for quantile in errors])),
            largest=worst.error,
            chance=worst.chance,
            column=worst.column,
            at=worst.at,
            stretched=stretched,
            reaching=reaching,
        )


class _QuantileError(NamedTuple):
    """How far the rank of a synthetic quantile is off, and how far chance puts it."""

    error: float
    chance: float
    column: str
    at: float


def _chance(at: float, ours: np.ndarray, theirs: np.ndarray) -> float:
    """Returns two standard errors of the difference in rank of two samples' quantiles."""
    return 2 * math.sqrt(at * (1 - at) * (1 / len(ours) + 1 / len(theirs)))


def _stretched(ours: np.ndarray, theirs: np.ndarray, at: float) -> float:
    """Returns how far a quantile lies from where chance may put it, over the real distance to the median."""
    around = np.clip(at + np.array([-1, 0, 1]) * _chance(at, ours, theirs), 0, 1)
    low, place, high = np.quantile(theirs, around, method="inverted_cdf")
    made = np.quantile(ours, at, method="inverted_cdf")
    spread = abs(place - np.median(theirs))
    return float(max(low - made, made - high, 0.0) / spread) if spread else 0.0


@metric("equal-mass", "tables")
@dataclass(frozen=True, kw_only=True)
class EqualMass(MetricResult):
    """Mean total variation of columns and of their pairs, numbers in 20 cells that hold as many real records each.

    Cells of equal width hardly see a column whose values crowd near one end; ``sampling`` is what chance alone does.
    """

    PRINTED: ClassVar = {
        "total variation in cells of equal mass, columns": "{it.singles:.3f} (chance {it.sampling[0]:.3f})",
        "total variation in cells of equal mass, pairs": "{it.pairs:.3f} (chance {it.sampling[1]:.3f})",
    }
    singles: float
    pairs: float
    sampling: tuple[float, float]

    @classmethod
    def measured(
        cls, synthetic: pa.Table, real: pa.Table, *, seed: int, **more: Any
    ) -> EqualMass | None:
        """Returns the figures; None of tables without numbers, or of a single column."""
        schema: Schema = more["schema"]
        tables = [_some(table, seed) for table in (synthetic, real)]
        columns = {
            column.name: _in_equal_masses(tables, column, schema)
            for column in _columns(schema)
        }
        has_rows = all(map(len, tables))
        if len(columns) < 2 or not schema.file_layout.numeric or not has_rows:
            return None

        def distance(order: int) -> OrderDistance:
            return order_distance(
                {
                    names: cell_counts(
                        [columns[name] for name in names], len(tables[0])
                    )
                    for names in itertools.combinations(columns, order)
                }
            )

        singles = distance(1)
        pairs = distance(2)
        return cls(
            singles=singles.mean,
            pairs=pairs.mean,
            sampling=(singles.sampling, pairs.sampling),
        )


@metric("regressions", "tables")
@dataclass(frozen=True, kw_only=True)
class Regressions(MetricResult):
    """Coefficients of a regression of every number (OLS) and every column of yes and no (logistic) on all others.

    Numbers are in standard deviations of the real ones, levels against the most frequent one. ``error`` is the mean
    absolute difference, of which each is `_MOST_APART` at most. Real records tell ``clear`` ones of OLS from 0 by four
    standard errors; the part ``signs`` of these has the right sign, and ``kept`` is 1 less the mean relative error, at
    most 1 each, of those from .1 on; None without any.
    """

    PRINTED: ClassVar = {
        "error of regression coefficients, mean": "{it.error:.3f}",
        "coefficients with the right sign": "{it.signs_text}",
        "coefficients kept, from .1 on": "{it.kept_text}",
    }
    coefficients: int
    error: float
    clear: int
    signs: float | None
    kept: float | None

    @classmethod
    def measured(
        cls, synthetic: pa.Table, real: pa.Table, *, seed: int, **more: Any
    ) -> Regressions | None:
        """Returns the figures; None of fewer than two columns, or of few rows."""
        schema: Schema = more["schema"]
        columns = _columns(schema)
        tables = [_some(table, seed) for table in (synthetic, real)]
        if len(columns) < 2 or min(map(len, tables)) < 10 * len(columns):
            return None
        synthetic_fits, real_fits = (
            _coefficients(*design, columns)
            for design in _design(tables, columns, schema)
        )
        # Those of the columns that are explained in both tables, one behind the other.
        names = [name for name in real_fits if name in synthetic_fits]
        if not names:
            return None
        real_slopes = np.concatenate([real_fits[name][0] for name in names])
        errors = np.concatenate([real_fits[name][1] for name in names])
        slopes = np.concatenate([synthetic_fits[name][0] for name in names])
        differences = np.minimum(np.abs(slopes - real_slopes), _MOST_APART)
        is_clear = np.abs(real_slopes) > _CLEAR * errors
        has_right_sign = np.sign(slopes[is_clear]) == np.sign(real_slopes[is_clear])
        is_large = is_clear & (np.abs(real_slopes) >= _LARGE)
        lost = np.minimum(differences[is_large] / np.abs(real_slopes[is_large]), 1)
        return cls(
            coefficients=len(differences),
            error=float(differences.mean()),
            clear=len(has_right_sign),
            signs=float(has_right_sign.mean()) if len(has_right_sign) else None,
            kept=float((1 - lost).mean()) if len(lost) else None,
        )

    @property
    def signs_text(self) -> str:
        """How many have the right sign, as it is printed; "" without any."""
        return (
            "" if self.signs is None else f"{self.signs:.0%} of {self.clear} clear ones"
        )

    @property
    def kept_text(self) -> str:
        """How far those from .1 on are kept, as it is printed; "" without any."""
        return "" if self.kept is None else f"{self.kept:.0%}"


@metric("two-sample", "tables")
@dataclass(frozen=True, kw_only=True)
class TwoSample(MetricResult):
    """How well boosted trees tell synthetic from real records, on folds that they have not seen: .5 is not at all."""

    PRINTED: ClassVar = {
        "distinguished from real records, ROC-AUC (.5 = not)": "{it.roc_auc:.3f}"
    }
    roc_auc: float

    @classmethod
    def measured(
        cls, synthetic: pa.Table, real: pa.Table, *, seed: int, **more: Any
    ) -> TwoSample | None:
        """Returns the area under the curve, of equally many of both; None of fewer than 20 of each."""
        schema: Schema = more["schema"]
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.metrics import roc_auc_score
        from sklearn.model_selection import cross_val_predict

        columns = _columns(schema)
        row_count = min(len(synthetic), len(real), _COMPARED)
        if row_count < 20:
            return None
        features = np.concatenate(
            [
                np.column_stack([_values(table, column, schema) for column in columns])
                for table in (
                    _some(synthetic, seed, row_count),
                    _some(real, seed, row_count),
                )
            ]
        )
        is_synthetic = np.repeat([1, 0], row_count)
        shuffled = np.random.default_rng(seed).permutation(2 * row_count)
        probabilities = cross_val_predict(
            HistGradientBoostingClassifier(max_iter=50, random_state=seed),
            features[shuffled],
            is_synthetic[shuffled],
            cv=2,
            method="predict_proba",
        )[:, 1]
        return cls(roc_auc=float(roc_auc_score(is_synthetic[shuffled], probabilities)))


def _columns(schema: Schema) -> list[Column]:
    """Returns the columns that are compared: spread over all of a wide table, and the label."""
    count = min(len(schema.columns), MOST_COLUMNS)
    step = max(len(schema.columns) / MOST_COLUMNS, 1.0)
    indices = {int(number * step) for number in range(count)}
    return [
        column
        for index, column in enumerate(schema.columns)
        if index in indices or column.name == schema.label
    ]


def _some(table: pa.Table, seed: int, max_rows: int = MOST_ROWS) -> pa.Table:
    """Returns some rows of a table, drawn by a seed."""
    return some_rows(table, max_rows, np.random.default_rng(seed))


def _values(table: pa.Table, column: Column, schema: Schema) -> np.ndarray:
    """Returns a column as float64: numbers on the unit scale, or codes of levels."""
    if column.numeric:
        return read_numbers(table, column, schema).unit
    return cells(table, column, schema).codes.astype(np.float64)


Design: TypeAlias = tuple[np.ndarray, list[np.ndarray]]
"""Regressors, (rows, terms), and the indices of those of each column."""


def _design(
    tables: Sequence[pa.Table], columns: Sequence[Column], schema: Schema
) -> list[Design]:
    """Returns what regressions are computed on, of synthetic and of real records on the same scale."""
    terms_of_columns = [
        _number_terms([read_numbers(table, column, schema).unit for table in tables])
        if column.numeric
        else _level_terms(
            [read_levels(table, column, schema).codes for table in tables], column
        )
        for column in columns
    ]
    ends = np.cumsum([0, *(terms[0].shape[1] for terms in terms_of_columns)])
    indices = [np.arange(start, end) for start, end in itertools.pairwise(ends)]
    return [
        (np.concatenate(parts, axis=1), indices)
        for parts in zip(*terms_of_columns, strict=True)
    ]


def _number_terms(numbers: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns numbers in standard deviations of the real ones, which are the last, (rows, 1) each."""
    present = numbers[-1][~np.isnan(numbers[-1])]
    if not len(present) or np.ptp(present) <= _ROUNDING:
        # A constant explains nothing, and its spread is that of rounding.
        return [np.empty((len(values), 0)) for values in numbers]
    return [
        np.nan_to_num((values - present.mean()) / present.std())[:, None]
        for values in numbers
    ]


def _level_terms(codes: Sequence[np.ndarray], column: CodedColumn) -> list[np.ndarray]:
    """Returns levels against the most frequent real one, (rows, levels) each.

    Levels of fewer than one real record in a hundred are one with the most frequent.
    """
    real_codes = codes[-1]
    level_count = len(column.levels)
    counts = np.bincount(real_codes, minlength=level_count)[:level_count]
    levels = [
        level
        for level in np.argsort(-counts)[1:]
        if counts[level] >= len(real_codes) / 100
    ]
    if column.is_truth_value:
        levels = [1] if counts.min() else []
    return [
        (values[:, None] == np.array(levels, dtype=int)).astype(float)
        for values in codes
    ]


def _coefficients(
    terms: np.ndarray, indices: Sequence[np.ndarray], columns: Sequence[Column]
) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
    """Returns coefficients and their standard errors, infinite of logistic ones, by the column that is explained."""
    from sklearn.linear_model import LogisticRegression

    fits: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    centred = terms - terms.mean(axis=0)
    gram = centred.T @ centred / len(terms)
    for column, own in zip(columns, indices, strict=True):
        others = np.setdiff1d(np.arange(terms.shape[1]), own)
        if not len(own) or not len(others):
            continue
        target = own[0]
        if column.numeric:
            ridge = _RIDGE * np.eye(len(others))
            inverse = np.linalg.inv(gram[np.ix_(others, others)] + ridge)
            slopes = inverse @ gram[others, target]
            unexplained = float(gram[target, target] - slopes @ gram[others, target])
            variance = max(unexplained, 0.0) * np.diag(inverse) / len(terms)
            fits[column.name] = slopes, np.sqrt(variance)
        elif column.is_truth_value and 0 < terms[:, target].mean() < 1:
            model = LogisticRegression(C=100.0, max_iter=200)
            model.fit(terms[:, others], terms[:, target])
            fits[column.name] = model.coef_[0], np.full(len(others), np.inf)
    return fits


def associations(
    table: pa.Table, columns: Sequence[Column], schema: Schema, *, signed: bool = False
) -> np.ndarray:
    """Returns how strongly each pair of columns moves together, symmetric, from 0 to 1, (columns, columns).

    Of numbers the absolute Pearson correlation, of levels Cramér's V, of one of each the correlation ratio; the last
    two are corrected for the bias of many levels on few rows. NaN on the diagonal and for a constant column. Missing is
    a level; a missing number leaves the row out. `signed` takes ranks for numbers, and their correlations from -1 to 1.
    """
    values = [_values(table, column, schema) for column in columns]
    is_number = [column.numeric for column in columns]
    if signed:
        from scipy.stats import rankdata

        values = [
            rankdata(values[i], nan_policy="omit") if is_number[i] else values[i]
            for i in range(len(columns))
        ]
    matrix = np.full((len(columns), len(columns)), math.nan)
    for i, j in itertools.combinations(range(len(columns)), 2):
        # Of one of each the number comes first.
        first, second = (i, j) if is_number[i] else (j, i)
        sides = values[first], values[second]
        if is_number[second]:
            strength = _correlation(*sides)
        elif is_number[first]:
            strength = _correlation_ratio(*sides)
        else:
            strength = _cramers_v(*sides)
        matrix[i, j] = matrix[j, i] = strength
    return matrix if signed else np.abs(matrix)


def _correlation(left: np.ndarray, right: np.ndarray) -> float:
    """Returns the correlation of numbers, of the rows where both are; NaN of a constant."""
    is_known = ~(np.isnan(left) | np.isnan(right))
    left = left[is_known]
    right = right[is_known]
    if len(left) < 2 or np.ptp(left) == 0 or np.ptp(right) == 0:
        return math.nan
    return float(np.corrcoef(left, right)[0, 1])


def _correlation_ratio(numbers: np.ndarray, codes: np.ndarray) -> float:
    """The share of the spread of the numbers that the levels explain, as a root; epsilon-squared correction."""
    known = ~np.isnan(numbers)
    numbers = numbers[known]
    groups, member = np.unique(codes[known], return_inverse=True)
    if len(groups) < 2 or len(numbers) <= len(groups) or np.ptp(numbers) == 0:
        return math.nan
    centred = numbers - numbers.mean()
    sums = np.bincount(member, weights=centred)
    counts = np.bincount(member)
    explained = float((sums**2 / counts).sum() / (centred @ centred))
    corrected = 1 - (1 - explained) * (len(numbers) - 1) / (len(numbers) - len(groups))
    return math.sqrt(min(1.0, max(0.0, corrected)))


def _cramers_v(left: np.ndarray, right: np.ndarray) -> float:
    """Cramér's V with the correction of Bergsma (2013)."""
    (rows, row), (columns, column) = (
        np.unique(codes, return_inverse=True) for codes in (left, right)
    )
    r = len(rows)
    c = len(columns)
    n = len(left)
    if min(r, c) < 2:
        return math.nan
    counts = np.bincount(row * c + column, minlength=r * c).reshape(r, c)
    expected = counts.sum(axis=1, keepdims=True) * (
        counts.sum(axis=0, keepdims=True) / n
    )
    phi_squared = float(((counts - expected) ** 2 / expected).sum() / n)
    corrected = max(0.0, phi_squared - (r - 1) * (c - 1) / (n - 1))
    room = min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1
    return math.sqrt(min(1.0, corrected / room)) if room > 0 else math.nan


def _in_equal_masses(
    both: Sequence[pa.Table], column: Column, schema: Schema
) -> tuple[np.ndarray, int]:
    """Returns the cells of all rows, synthetic ones first, and how many cells there are."""
    if not column.numeric:
        levels = [cells(table, column, schema) for table in both]
        return np.concatenate([table.codes for table in levels]), levels[0].size
    numbers = [read_numbers(table, column, schema).unit for table in both]
    real_numbers = numbers[1][~np.isnan(numbers[1])]
    cuts = np.zeros(0)
    if len(real_numbers):
        parts = np.arange(1, 20) / 20
        # A value that many records share is the end of a cell: what lies above it does not join it.
        cuts = np.unique(np.quantile(real_numbers, parts, method="inverted_cdf"))
    unit = np.concatenate(numbers)
    codes = np.searchsorted(cuts, unit)
    return np.where(np.isnan(unit), len(cuts) + 1, codes), len(cuts) + 2
