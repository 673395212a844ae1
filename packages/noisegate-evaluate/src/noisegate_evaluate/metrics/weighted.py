"""Shares and means of the population that weighted records stand for, synthetic beside real."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisegate.answers.findings import VerdictFinding
from noisegate.answers.verdict import (
    RANKS_SCALE,
    Verdict,
    in_percent,
    word_of_rank_error,
)
from noisegate.schema import CodedColumn, NumericColumn, Schema
from noisegate.schema.layout import bounds_of
from noisegate_evaluate.metrics.means import RANKS_PER_DEVIATION
from noisegate_evaluate.metrics.result import MetricResult, metric, verdict_of
from noisegate_evaluate.reading import read_levels, read_numbers

Floats = npt.NDArray[np.float64]

_STANDARD_ERRORS = 2.0  # what chance alone may do


class WeightedFigure(NamedTuple):
    """A weighted share or mean.

    Attributes:
        name: What it is, such as "job = nurse" or "mean of wage".
        real: Its value for the real records.
        synthetic: Its value for the synthetic ones.
        error: How far they are apart, as a share of the population: of a mean, the
            share that lies between two values so many standard deviations apart.
        chance: Two standard errors of that by sampling alone.
    """

    name: str
    real: float
    synthetic: float
    error: float
    chance: float

    @property
    def beyond_chance(self) -> float:
        """The error less what chance may do."""
        return max(self.error - self.chance, 0.0)


@metric("weighted", "tables")
@dataclass(frozen=True, kw_only=True)
class WeightedFigures(MetricResult):
    """Shares of all levels and means of all numbers, weighted by the survey weights of the schema.

    Attributes:
        weights: The column of weights.
        figures: The figures, those that are farthest apart beyond chance first.
    """

    PRINTED: ClassVar = {
        "weighted shares and means, mean error": "{it.mean:.3f}",
        "weighted shares and means, largest error": "{it.largest_text}",
    }
    JSON: ClassVar = {"weights": "weights", "mean_error": "mean", "figures": "rows"}
    weights: str
    figures: Sequence[WeightedFigure]

    @classmethod
    def measured(
        cls, synthetic: pa.Table, real: pa.Table, *, seed: int, **more: Any
    ) -> WeightedFigures | None:
        """Returns the figures; None without weights, or where they are all 0 in a table."""
        schema: Schema = more["schema"]
        if schema.weights is None:
            return None
        tables = [
            _WeightedTable.read(table, schema, schema.weights)
            for table in (real, synthetic)
        ]
        if not all(table.weights.sum() > 0 for table in tables):
            return None
        figures: list[WeightedFigure] = []
        for column in schema.columns:
            if column.name == schema.weights:
                continue
            if column.numeric:
                figures += _mean_of(column, *tables)
            else:
                figures += _shares_of(column, *tables)
        if not figures:
            return None
        figures.sort(key=lambda figure: -figure.beyond_chance)
        return cls(weights=schema.weights, figures=figures)

    @property
    def mean(self) -> float:
        """The mean error."""
        return float(np.mean([figure.error for figure in self.figures]))

    @property
    def largest_text(self) -> str:
        """The figure that is farthest off beyond chance, as it is printed."""
        largest = self.figures[0]
        return f"{largest.error:.3f} ({largest.name})"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The figures as JSON values."""
        return [figure._asdict() for figure in self.figures]

    def verdict(self) -> Verdict:
        """Returns what the figure that is farthest off says."""
        largest = self.figures[0]
        error = largest.beyond_chance
        finding = VerdictFinding(
            question="means and tails",
            answer=RANKS_SCALE.answer(error),
            detail=f"weighted by {self.weights}, off by {in_percent(error)} at most",
        )
        word = word_of_rank_error(error)
        reason = ""
        if word != "good":
            reason = (
                f"weighted by {self.weights}, {largest.name} is "
                f"{largest.synthetic:.3g} in the synthetic records and "
                f"{largest.real:.3g} in the real ones"
            )
        cure = "more records or a larger epsilon, for weighted shares and means"
        return verdict_of(word, reason, cure, [finding], weighted_error=error)


@dataclass(frozen=True)
class _WeightedTable:
    """A table with its weights.

    Attributes:
        table: The table.
        schema: Its schema.
        weights: The weight of each record, 0 where it is no number, (records,).
    """

    table: pa.Table
    schema: Schema
    weights: Floats

    @classmethod
    def read(cls, table: pa.Table, schema: Schema, name: str) -> _WeightedTable:
        """Reads the weights of a table, in their own unit."""
        column = next(column for column in schema.columns if column.name == name)
        assert column.numeric  # the schema requires it
        lower, upper = bounds_of(column)
        unit = read_numbers(table, column, schema).unit
        return cls(table, schema, np.nan_to_num(lower + unit * (upper - lower)))

    def standard_error(self, counts: npt.NDArray[np.bool_], deviation: float) -> float:
        """Computes the standard error of a weighted mean of some records.

        Records of unequal weights tell as much as (Σw)² / Σw² of equal ones (Kish,
        *Survey Sampling*, 1965, section 11.7).

        Args:
            counts: Which records have a value, (records,).
            deviation: Standard deviation of the value.
        """
        weights = self.weights[counts]
        if not weights.any():
            return math.inf
        records = weights.sum() ** 2 / np.square(weights).sum()
        return deviation / math.sqrt(float(records))


def _mean_of(
    column: NumericColumn, real: _WeightedTable, synthetic: _WeightedTable
) -> list[WeightedFigure]:
    """Compares the weighted means of a number; nothing where a table has none."""
    lower, upper = bounds_of(column)
    means: list[float] = []
    errors: list[float] = []
    deviation = 0.0
    for table in (real, synthetic):
        unit = read_numbers(table.table, column, table.schema).unit
        is_present = ~np.isnan(unit)
        weights = table.weights[is_present]
        if weights.sum() <= 0:
            return []
        values = lower + unit[is_present] * (upper - lower)
        mean = float(np.average(values, weights=weights))
        if table is real:
            deviation = math.sqrt(
                float(np.average(np.square(values - mean), weights=weights))
            )
        means.append(mean)
        errors.append(table.standard_error(is_present, deviation))
    if deviation == 0:
        return []
    # So means and shares have one measure.
    to_ranks = RANKS_PER_DEVIATION / deviation
    return [
        WeightedFigure(
            name=f"mean of {column.name}",
            real=means[0],
            synthetic=means[1],
            error=abs(means[1] - means[0]) * to_ranks,
            chance=_STANDARD_ERRORS * math.hypot(*errors) * to_ranks,
        )
    ]


def _shares_of(
    column: CodedColumn, real: _WeightedTable, synthetic: _WeightedTable
) -> list[WeightedFigure]:
    """Compares the weighted share of each level of a column, missing ones left out."""
    shares = []
    known_records = []
    for table in (real, synthetic):
        codes = read_levels(table.table, column, table.schema)
        weights = table.weights[codes.known]
        if weights.sum() <= 0:
            return []
        counts = np.bincount(codes.codes[codes.known], weights, codes.count)
        shares.append(counts / weights.sum())
        known_records.append(codes.known)
    figures = []
    for level, real_share, synthetic_share in zip(column.levels, *shares, strict=True):
        deviation = math.sqrt(real_share * (1 - real_share))
        errors = [
            table.standard_error(is_known, deviation)
            for table, is_known in zip((real, synthetic), known_records, strict=True)
        ]
        figures.append(
            WeightedFigure(
                name=f"{column.name} = {level}",
                real=float(real_share),
                synthetic=float(synthetic_share),
                error=abs(float(synthetic_share - real_share)),
                chance=_STANDARD_ERRORS * math.hypot(*errors),
            )
        )
    return figures
