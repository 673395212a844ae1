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
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from noisegate.schema import Column, Schema
from noisegate_evaluate.metrics.marginals import (
    OrderDistance,
    cell_counts,
    order_distance,
)
from noisegate_evaluate.metrics.result import MetricResult, metric
from noisegate_evaluate.reading import cells, read_levels, read_numbers, some_rows

MOST_ROWS, MOST_COLUMNS = 20_000, 60
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
    strong: Sequence[tuple[str, float, float]]
    kept: float | None

    @classmethod
    def measured(
        cls, synthetic: pa.Table, real: pa.Table, *, seed: int, **more: Any
    ) -> Associations | None:
        """Returns the figures; None of fewer than two columns that vary."""
        schema: Schema = more["schema"]
        columns = _columns(schema)
        ours, theirs = (
            associations(_some(one, seed), columns, schema, signed=True)
            for one in (synthetic, real)
        )
        pairs = [
            at
            for at in itertools.combinations(range(len(columns)), 2)
            if math.isfinite(theirs[at])
        ]
        if not pairs:
            return None
        found = [
            (
                f"{columns[i].name} × {columns[j].name}",
                float(theirs[i, j]),
                float(np.nan_to_num(ours[i, j])),
            )
            for i, j in pairs
        ]
        strong = sorted(
            (one for one in found if abs(one[1]) >= STRONG),
            key=lambda one: -abs(one[1]),
        )
        kept = [min(max(made / truth, 0.0), 1.0) for _, truth, made in strong]
        return cls(
            pairs=len(pairs),
            error=float(np.mean([abs(truth - made) for _, truth, made in found])),
            strong=strong,
            kept=float(np.mean(kept)) if kept else None,
        )

    @property
    def lost(self) -> list[tuple[str, float, float]]:
        """Strong ones of which less than three quarters are kept."""
        return [one for one in self.strong if one[2] / one[1] < 0.75]

    @property
    def kept_text(self) -> str:
        """What is kept of strong ones, as it is printed; "" without any."""
        return "" if self.kept is None else f"{self.kept:.0%} of {len(self.strong)}"


@metric("quantiles", "tables")
@dataclass(frozen=True, kw_only=True)
class Quantiles(MetricResult):
    """Which share of real records lies below synthetic quantiles: of 5, 50 and 95 %, of every number or date.

    Figures are absolute differences from what it should be: in the mean, and the ``largest``, of ``column`` at ``at``,
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
        found: list[tuple[float, float, str, float]] = []
        ends: list[tuple[float, str]] = []
        for column in schema.file_layout.numeric:
            ours, theirs = (
                read_numbers(one, column, schema).unit for one in (synthetic, real)
            )
            ours, theirs = (
                np.sort(ours[~np.isnan(ours)]),
                np.sort(theirs[~np.isnan(theirs)]),
            )
            if not (len(ours) and len(theirs)):
                continue
            ends += [(_stretched(ours, theirs, at), column.name) for at in (0.01, 0.99)]
            for at in QUANTILES:
                place = np.quantile(ours, at, method="inverted_cdf")
                # Where many records have this very value, each rank among theirs is right.
                low, high = (
                    np.searchsorted(theirs, place, side=side) / len(theirs)
                    for side in ("left", "right")
                )
                apart = max(low - at, at - high, 0.0)
                found.append((float(apart), _chance(at, ours, theirs), column.name, at))
        if not found:
            return None
        largest, chance, name, at = max(found, key=lambda one: one[0] - one[1])
        mean, (stretched, reaching) = (
            float(np.mean([one[0] for one in found])),
            max(ends),
        )
        where = {"column": name, "reaching": reaching}
        return cls(
            mean=mean,
            largest=largest,
            chance=chance,
            at=at,
            stretched=stretched,
            **where,
        )


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
        both = [_some(one, seed) for one in (synthetic, real)]
        columns = {
            column.name: _in_equal_masses(both, column, schema)
            for column in _columns(schema)
        }
        if (
            len(columns) < 2
            or not schema.file_layout.numeric
            or not all(one.num_rows for one in both)
        ):
            return None

        def distance(order: int) -> OrderDistance:
            subsets = itertools.combinations(columns, order)
            counted = {
                some: cell_counts([columns[name] for name in some], both[0].num_rows)
                for some in subsets
            }
            return order_distance(counted)

        singles, pairs = distance(1), distance(2)
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
        both = [_some(one, seed) for one in (synthetic, real)]
        if len(columns) < 2 or min(one.num_rows for one in both) < 10 * len(columns):
            return None
        made, truth = _design(both, columns, schema)
        ours, theirs = (_coefficients(*one, columns) for one in (made, truth))
        apart, signs, kept = [], [], [np.zeros(0)]
        for place, (right, error) in (
            (place, told) for place, told in theirs.items() if place in ours
        ):
            apart.append(np.minimum(np.abs(ours[place][0] - right), _MOST_APART))
            clear = np.abs(right) > _CLEAR * error
            signs.append(np.sign(ours[place][0][clear]) == np.sign(right[clear]))
            clear &= np.abs(right) >= _LARGE
            kept.append(1 - np.minimum(apart[-1][clear] / np.abs(right[clear]), 1))
        if not apart:
            return None
        all_apart, all_signs = np.concatenate(apart), np.concatenate(signs)
        return cls(
            coefficients=len(all_apart),
            error=float(all_apart.mean()),
            clear=len(all_signs),
            signs=float(all_signs.mean()) if len(all_signs) else None,
            kept=float(all_kept.mean())
            if len(all_kept := np.concatenate(kept))
            else None,
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
        "told from real records, ROC-AUC (.5 = not)": "{it.roc_auc:.3f}"
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

        columns, rows = (
            _columns(schema),
            min(synthetic.num_rows, real.num_rows, _COMPARED),
        )
        if rows < 20:
            return None
        both = (_some(table, seed, rows) for table in (synthetic, real))
        each = [
            np.column_stack([_values(table, column, schema) for column in columns])
            for table in both
        ]
        features = np.concatenate(each)
        truth = np.repeat([1, 0], rows)
        trees = HistGradientBoostingClassifier(max_iter=50, random_state=seed)
        shuffled = np.random.default_rng(seed).permutation(2 * rows)
        told = cross_val_predict(
            trees, features[shuffled], truth[shuffled], cv=2, method="predict_proba"
        )[:, 1]
        return cls(roc_auc=float(roc_auc_score(truth[shuffled], told)))


def _columns(schema: Schema) -> list[Column]:
    """Returns the columns that are compared: spread over all of a wide table, and the label."""
    step = max(len(schema.columns) / MOST_COLUMNS, 1.0)
    kept = {
        int(place * step) for place in range(min(len(schema.columns), MOST_COLUMNS))
    }
    return [
        one
        for place, one in enumerate(schema.columns)
        if place in kept or one.name == schema.label
    ]


def _some(table: pa.Table, seed: int, rows: int = MOST_ROWS) -> pa.Table:
    return some_rows(table, rows, np.random.default_rng(seed))


def _values(table: pa.Table, column: Column, schema: Schema) -> np.ndarray:
    if column.numeric:
        return read_numbers(table, column, schema).unit
    return cells(table, column, schema).codes.astype(np.float64)


Design = tuple[
    np.ndarray, list[np.ndarray]
]  # regressors, (rows, terms), and which of them are of each column


def _design(
    both: Sequence[pa.Table], columns: Sequence[Column], schema: Schema
) -> tuple[Design, ...]:
    """Returns what regressions are computed on, of synthetic and of real records on the same scale."""
    parts: list[list[np.ndarray]] = [[] for _ in both]
    for column in columns:
        if column.numeric:
            numbers = [read_numbers(one, column, schema).unit for one in both]
            present = numbers[-1][~np.isnan(numbers[-1])]
            if len(present) and np.ptp(present) > _ROUNDING:
                terms = [
                    np.nan_to_num((each - present.mean()) / present.std())[:, None]
                    for each in numbers
                ]
            else:
                # A constant explains nothing, and its spread is that of rounding.
                terms = [np.empty((len(each), 0)) for each in numbers]
        else:
            codes = [read_levels(one, column, schema).codes for one in both]
            few = np.bincount(codes[-1], minlength=len(column.levels))[
                : len(column.levels)
            ]
            # Levels of fewer than one record in a hundred are one with the most frequent.
            kept = [
                level
                for level in np.argsort(-few)[1:]
                if few[level] >= len(codes[-1]) / 100
            ]
            if column.is_truth_value:
                kept = [1] if few.min() else []
            terms = [
                (each[:, None] == np.array(kept, dtype=int)).astype(float)
                for each in codes
            ]
        for part, term in zip(parts, terms, strict=True):
            part.append(term)
    ends = np.cumsum([0, *(each.shape[1] for each in parts[0])])
    places = [np.arange(start, end) for start, end in itertools.pairwise(ends)]
    return tuple((np.concatenate(part, axis=1), places) for part in parts)


def _coefficients(
    terms: np.ndarray, places: list[np.ndarray], columns: Sequence[Column]
) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
    """Returns coefficients and their standard errors, infinite of logistic ones, by the column that is explained."""
    from sklearn.linear_model import LogisticRegression

    rows, found = len(terms), dict[str, tuple[np.ndarray, np.ndarray]]()
    centred = terms - terms.mean(axis=0)
    gram = centred.T @ centred / rows
    for column, own in zip(columns, places, strict=True):
        others = np.setdiff1d(np.arange(terms.shape[1]), own)
        if not len(own) or not len(others):
            continue
        if column.numeric:
            inverse = np.linalg.inv(
                gram[np.ix_(others, others)] + _RIDGE * np.eye(len(others))
            )
            slopes = inverse @ gram[others, own[0]]
            left = max(float(gram[own[0], own[0]] - slopes @ gram[others, own[0]]), 0.0)
            found[column.name] = slopes, np.sqrt(left * np.diag(inverse) / rows)
        elif column.is_truth_value and 0 < terms[:, own[0]].mean() < 1:
            model = LogisticRegression(C=100.0, max_iter=200).fit(
                terms[:, others], terms[:, own[0]]
            )
            found[column.name] = model.coef_[0], np.full(len(others), np.inf)
    return found


def associations(
    table: pa.Table, columns: Sequence[Column], schema: Schema, *, signed: bool = False
) -> np.ndarray:
    """Returns how strongly each pair of columns moves together, symmetric, from 0 to 1, (columns, columns).

    Of numbers the absolute Pearson correlation, of levels Cramér's V, of one of each the correlation ratio; the last
    two are corrected for the bias of many levels on few rows. NaN on the diagonal and for a constant column. Missing is
    a level; a missing number leaves the row out. `signed` takes ranks for numbers, and their correlations from -1 to 1.
    """
    ready = [_values(table, column, schema) for column in columns]
    numeric = [column.numeric for column in columns]
    if signed:
        from scipy.stats import rankdata

        both = zip(numeric, ready, strict=True)
        ready = [
            rankdata(each, nan_policy="omit") if number else each
            for number, each in both
        ]
    matrix = np.full((len(ready), len(ready)), math.nan)
    for i, j in itertools.combinations(range(len(ready)), 2):
        first, second = (i, j) if numeric[i] else (j, i)
        measure = (
            _correlation
            if numeric[i] and numeric[j]
            else _correlation_ratio
            if numeric[first]
            else _cramers_v
        )
        matrix[i, j] = matrix[j, i] = measure(ready[first], ready[second])
    return matrix if signed else np.abs(matrix)


def _correlation(left: np.ndarray, right: np.ndarray) -> float:
    both = ~(np.isnan(left) | np.isnan(right))
    left, right = left[both], right[both]
    if len(left) < 2 or np.ptp(left) == 0 or np.ptp(right) == 0:
        return math.nan
    left, right = left - left.mean(), right - right.mean()
    return float(
        np.clip(left @ right / math.sqrt((left @ left) * (right @ right)), -1.0, 1.0)
    )


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
    (rows, row), (columns, column) = (
        np.unique(codes, return_inverse=True) for codes in (left, right)
    )
    r, c, n = len(rows), len(columns), len(left)
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
        found = [cells(table, column, schema) for table in both]
        return np.concatenate([one.codes for one in found]), found[0].size
    numbers = [read_numbers(table, column, schema).unit for table in both]
    present = numbers[1][~np.isnan(numbers[1])]
    # A value that many records share is the end of a cell: what lies above it does not join it.
    cuts = np.unique(
        np.quantile(present, np.arange(1, 20) / 20, method="inverted_cdf")
        if len(present)
        else present
    )
    unit = np.concatenate(numbers)
    return np.where(np.isnan(unit), len(cuts) + 1, np.searchsorted(cuts, unit)), len(
        cuts
    ) + 2
