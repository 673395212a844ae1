"""Fits a model of the label on top of a mixture.

Effects of single columns (`label_effects`) have no interactions. A mixture has, but the
probabilities that it gives to labels are poor where records are few. So its log-odds
are added to the scores with a weight κ from 0 to 1: the smallest one for which the
released pairs, by class, differ from what the model expects only as sampling and noise
do. That is judged by tables with independent noise, on a trial mixture that was not
fitted to them (`packed_tables.split`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.models.labelled import LabelModel, log_ratios
from noisegate.models.mixture import Mixture
from noisegate.models.tables.label_effects import (
    FEW_CLASSES,
    DrawnRecords,
    EffectsFit,
    gap_variance_factor,
)
from noisegate.models.tables.packed_tables import PackedTables
from noisegate.seeds import public_random

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64, Int32

Array = npt.NDArray[Any]

MIXTURE_WEIGHTS = (0.0, 0.1, 0.2, 0.4, 1.0)
"""The weights κ that are tried, ascending."""
UNCLEAR_WEIGHT = 0.1
"""The smallest κ where no effect on the label stands out of the judge's noise."""
MAX_CLASSES = 64
"""A label with more values is drawn from the mixture: noise would hide its effects."""

# Drawn records that effects are fitted to, half as many for more than a few classes,
# and that weights are judged by.
_FIT_RECORDS = 16_384
_JUDGE_RECORDS = 8_192
# Of a wide table, the columns that say most of the label take part, with up to so many
# cells in all: a step of the fit solves a system of that size.
_MAX_CELLS = 600
# This part of the excess that some weight explains may be left.
_EXCESS_LEFT = 0.02
# What a cell adds by chance to the variance of the excess.
_CHANCE_VARIANCE = 0.1
# The distance of a pair is no excess up to so many of its standard deviations.
_MAX_CHANCE_STDS = 2.0
# Keeps quotients finite.
_TINY = 1e-9


@dataclass(frozen=True, kw_only=True)
class PairExcess:
    """How far probabilities of the classes are from released pairs.

    Attributes:
        excess: Sum of the distances of those pairs of columns that are further than
            sampling and noise explain.
        distance: Sum of the distances of all pairs of columns, of expectation 0 if the
            probabilities are right.
    """

    excess: float
    distance: float


class LabelFit:
    """The fit of a label's model to one release.

    Args:
        column: Index of the label, with numeric columns first.
        tables: The released tables, by class of the label.
        n_ordered: How many cells of each other column have an order.
        seed: Seed for the records that are drawn.
    """

    def __init__(
        self, column: int, tables: PackedTables, n_ordered: Sequence[int], *, seed: int
    ) -> None:
        self._column = column
        self._tables = tables
        self._n_ordered = n_ordered
        self._seed = seed

    def choose_mixture_weight(
        self, trial: PackedTables, judge: PackedTables, mixture: Mixture
    ) -> float:
        """Chooses the weight κ of the mixture's log-odds.

        Args:
            trial: Tables to which the mixture was fitted as a trial.
            judge: Tables with independent noise.
            mixture: The mixture of the trial.

        Returns:
            One of `MIXTURE_WEIGHTS`.
        """
        if not (judge.pair_inverse_std > 0).any():
            return UNCLEAR_WEIGHT
        cells = self._draw_cells(mixture, _JUDGE_RECORDS)
        other_cells = np.delete(cells, self._column, axis=1)
        columns = _informative_columns(trial, other_cells)
        one_hot = _one_hot(other_cells, columns, trial.sizes)
        judge_of_columns = select_columns(judge, columns)
        trial_shares = trial.class_counts / trial.class_counts.sum()
        constant_shares = np.tile(trial_shares, (len(one_hot), 1))
        of_constant = pair_excess(judge_of_columns, one_hot, constant_shares)
        chance = math.sqrt(_CHANCE_VARIANCE * judge_of_columns.n_joint_cells)

        # Takes time, and is not needed if a weight of 0 is good enough.
        @cache
        def log_odds() -> Float64[Array, "records classes"]:
            return log_ratios(mixture.log_joint(cells, self._column))

        results: list[PairExcess] = []
        for weight in MIXTURE_WEIGHTS:
            offset = weight * log_odds() if weight else np.zeros_like(constant_shares)
            records = DrawnRecords(one_hot=one_hot, offset=offset)
            fit = self._effects_fit(trial, columns, records)
            probabilities = fit.run().probabilities(records)
            results.append(pair_excess(judge_of_columns, one_hot, probabilities))
            # No larger weight can leave so little that this one leaves too much.
            if results[-1].excess <= _EXCESS_LEFT * of_constant.excess + chance:
                break
        weight_index = _smallest_good_index(results, of_constant, chance)
        weight = MIXTURE_WEIGHTS[weight_index]
        gain = of_constant.distance - results[weight_index].distance
        gain_std = math.sqrt(2 * judge_of_columns.n_joint_cells)
        if gain > _MAX_CHANCE_STDS * gain_std:
            return weight
        # Noise hides all effects from the judge: the mixture steadies them.
        return max(weight, UNCLEAR_WEIGHT)

    def model(self, mixture: Mixture, weight: float) -> LabelModel:
        """Fits the model of the label.

        Args:
            mixture: The mixture that was fitted to all that was released.
            weight: The weight κ of its log-odds.
        """
        n_classes = len(self._tables.class_counts)
        n_records = _FIT_RECORDS if n_classes <= FEW_CLASSES else _FIT_RECORDS // 2
        cells = self._draw_cells(mixture, n_records)
        other_cells = np.delete(cells, self._column, axis=1)
        columns = _informative_columns(self._tables, other_cells)
        if weight:
            offset = weight * log_ratios(mixture.log_joint(cells, self._column))
        else:
            offset = np.zeros((len(cells), n_classes))
        one_hot = _one_hot(other_cells, columns, self._tables.sizes)
        records = DrawnRecords(one_hot=one_hot, offset=offset)
        effects = self._effects_fit(self._tables, columns, records).run()
        effects_by_column: list[Array] = [
            np.zeros((n_classes, size)) for size in self._tables.sizes
        ]
        column_slices = select_columns(self._tables, columns).column_slices
        for column, column_slice in zip(columns, column_slices, strict=True):
            effects_by_column[column] = effects.cells[:, column_slice]
        return LabelModel(
            column=self._column,
            bias=effects.bias,
            effects=tuple(effects_by_column),
            mixture_weight=weight,
        )

    def _effects_fit(
        self, tables: PackedTables, columns: Sequence[int], records: DrawnRecords
    ) -> EffectsFit:
        """Returns the fit of the effects of some columns."""
        n_ordered = [self._n_ordered[column] for column in columns]
        return EffectsFit(select_columns(tables, columns), records, n_ordered)

    def _draw_cells(
        self, mixture: Mixture, n_records: int
    ) -> Int32[Array, "records columns"]:
        """Draws records of a mixture, and returns their cells, the label's too."""
        records = mixture.draw(n_records, public_random(self._seed))
        return mixture.cells(records)


def _smallest_good_index(
    results: Sequence[PairExcess], of_constant: PairExcess, chance: float
) -> int:
    """Returns the index of the first weight that leaves hardly more than the best one.

    Args:
        results: Excess of each weight that was tried, ascending.
        of_constant: Excess of probabilities that are the same for all records.
        chance: What an excess may be by chance.
    """
    smallest = min(result.excess for result in results)
    explained = max(of_constant.excess - smallest, 0.0)
    allowed = smallest + _EXCESS_LEFT * explained + chance
    return next(
        index for index, result in enumerate(results) if result.excess <= allowed
    )


def _informative_columns(
    tables: PackedTables, cells: Int32[Array, "records columns"]
) -> list[int]:
    """Chooses the columns whose effects are fitted.

    Args:
        tables: Packed tables.
        cells: Cells of drawn records in their columns.

    Returns:
        All columns, or in a wide table those that say most of the label and have few
        enough cells together, ascending.
    """
    columns = list(range(len(tables.sizes)))
    if sum(tables.sizes) <= _MAX_CELLS:
        return columns
    strengths = [_strength_of_column(tables, cells, column) for column in columns]
    ranked = sorted(columns, key=lambda column: -strengths[column])
    does_fit = np.cumsum([tables.sizes[column] for column in ranked]) <= _MAX_CELLS
    does_fit[0] = True  # the one that says most, whatever its size
    return sorted(column for column, fits in zip(ranked, does_fit, strict=True) if fits)


def _strength_of_column(
    tables: PackedTables, cells: Int32[Array, "records columns"], column: int
) -> float:
    """Returns how far the effects of a column alone stand out of their noise."""
    records = DrawnRecords(
        one_hot=_one_hot(cells, [column], tables.sizes),
        offset=np.zeros((len(cells), len(tables.class_counts))),
    )
    fit = EffectsFit(select_columns(tables, [column]), records, [0])
    return float(fit.strength()[0])


def _one_hot(
    cells: Int32[Array, "records columns"],
    columns: Sequence[int],
    sizes: Sequence[int],
) -> Float32[Array, "records D"]:
    """Returns the one-hot code of the cells of records in some columns.

    Args:
        cells: Cells of records in all columns but the label.
        columns: The columns, of those but the label.
        sizes: Number of cells of each of those.
    """
    return np.concatenate(
        [
            np.asarray(
                cells[:, column, None] == np.arange(sizes[column]), dtype=np.float32
            )
            for column in columns
        ],
        axis=1,
    )


def select_columns(tables: PackedTables, columns: Sequence[int]) -> PackedTables:
    """Returns the tables of some columns.

    Args:
        tables: Packed tables.
        columns: The columns, ascending.

    Returns:
        Their single columns and pairs. If columns are left out, so are all tables of
        three columns.
    """
    if len(columns) == len(tables.sizes):
        return tables
    column_slices = [tables.column_slices[column] for column in columns]
    cells = np.concatenate([np.arange(part.start, part.stop) for part in column_slices])
    return replace(
        tables,
        sizes=tuple(tables.sizes[column] for column in columns),
        pair_counts=tables.pair_counts[:, cells[:, None], cells],
        pair_inverse_std=tables.pair_inverse_std[cells[:, None], cells],
        triples=(),
        one_way_counts=tables.one_way_counts[:, cells],
        one_way_std=tables.one_way_std[cells],
        prior_shares=tables.prior_shares[cells],
    )


def pair_excess(
    judge: PackedTables,
    one_hot: Float32[Array, "records D"],
    probabilities: Float64[Array, "records classes"],
) -> PairExcess:
    """Computes how far probabilities of the classes are from released pairs.

    In a pair of cells, the gap of a class is S - p̄ T, as in a single cell (see
    `label_effects`). Its mean square is the variance of its noise, that of sampling,
    p̄ (1 - p̄) T, and what is wrong with p̄. The last is summed over the cells of each
    pair of columns, in units of both variances.

    Args:
        judge: Tables with noise that is independent of the probabilities.
        one_hot: One-hot code of the cells of drawn records.
        probabilities: Probabilities of the classes for each of them.
    """
    is_released = judge.pair_inverse_std > 0
    variance = np.where(
        is_released, np.maximum(judge.pair_inverse_std, _TINY) ** -2.0, 1.0
    )
    n_drawn = one_hot.T @ one_hot
    is_counted = is_released & (n_drawn > 0)
    expected = n_drawn * (judge.class_counts.sum() / len(one_hot))
    totals = judge.pair_counts.sum(axis=0)
    n_classes = len(judge.class_counts)
    n_cells = _sum_by_pair(judge, is_counted.astype(float))
    chance = _MAX_CHANCE_STDS * np.sqrt(2 * n_cells)
    excess = 0.0
    distance = 0.0
    # Of two classes, one says all.
    for class_index in range(1 if n_classes == 2 else 0, n_classes):
        class_probability = probabilities[:, class_index, None].astype(np.float32)
        weighted = one_hot * class_probability
        means = (weighted.T @ one_hot) / np.maximum(n_drawn, _TINY)
        noise = gap_variance_factor(means, n_classes) * variance
        sampling = means * (1 - means) * expected
        gap = judge.pair_counts[class_index] - means * totals
        unit = np.maximum(noise + sampling, 1.0)
        cell_distances = np.where(is_counted, (gap**2 - noise - sampling) / unit, 0.0)
        pair_distances = _sum_by_pair(judge, cell_distances)
        excess += float(np.maximum(pair_distances - chance, 0).sum())
        distance += float(pair_distances.sum())
    return PairExcess(excess=excess, distance=distance)


def _sum_by_pair(
    tables: PackedTables, values: Float64[Array, "D D"]
) -> Float64[Array, "columns columns"]:
    """Sums values of pairs of cells over each pair of columns."""
    starts = [column_slice.start for column_slice in tables.column_slices]
    row_sums = np.add.reduceat(values, starts, axis=0)
    return np.asarray(np.add.reduceat(row_sums, starts, axis=1))
