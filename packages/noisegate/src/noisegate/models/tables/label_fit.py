"""Fits a model of the label on top of a mixture.

**Effects.** The score of class k for a record x is η_k(x) = b_k + Σ_i θ_ki(x_i) +
offset, with an effect θ_ki(a) for each cell a of each column i, and p = softmax(η).
Records x are drawn from a mixture and count as N of the release. If p is right, then
for every class k and cell a the gap ::

    g_k(a) = S_k(a) - p̄_k(a) T(a)

is zero but for noise: S_k is the released count of the class in the cell, T that of all
classes, and p̄_k the mean of p_k over the records in the cell. With the variance V of
the noise on one count, that of the gap is v = V ((1 - p̄)² + (classes - 1) p̄²).

Effects of the cells of a column have the prior N(0, τ² K), in which near cells of an
order are alike. A step of Newton's method with the curvature H = Xᵀ diag(p (1 - p)) X,
its diagonal h, and W = h / (h + v), which keeps of each cell what stands out of its
noise, solves ::

    (W H + K⁻¹ / τ²) δ = W g - K⁻¹ θ / τ²

The variances τ² are estimated for each column and class, at first by the method of
moments and then by EM (empirical Bayes: Efron and Morris, 1973). So a column that says
nothing of the label has no effect, whatever its noise.

**The weight of the mixture.** Effects have no interactions. A mixture has, but the
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

from noisegate.models.labelled import LabelModel, log_ratios, softmax
from noisegate.models.mixture import Mixture
from noisegate.models.tables.packed_tables import PackedTables
from noisegate.seeds import public_random

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64, Int32

Array = npt.NDArray[Any]

MIXTURE_WEIGHTS = (0.0, 0.1, 0.2, 0.4, 1.0)
"""The weights κ that are tried, ascending. The first is 0: effects alone."""
UNCLEAR_WEIGHT = 0.1
"""The smallest κ where no effect on the label stands out of the judge's noise."""
MAX_CLASSES = 64
"""A label with more values is drawn from the mixture: noise would hide its effects."""

# Fits of more classes take longer, and use half as many records, which are enough.
_FEW_CLASSES = 6
# Steps of Newton's method, each of which estimates τ² again.
_NEWTON_STEPS = 12
# Largest change of an effect in one step, since far ones overshoot.
_MAX_EFFECT_CHANGE = 3.0
# The curvature may be rough: so many records are enough, and it is computed again at
# these steps alone.
_CURVATURE_RECORDS = 6000
_CURVATURE_STEPS = (0, 1, 3, 6)
# Bounds of τ².
_MIN_PRIOR_VARIANCE = 0.003
_MAX_PRIOR_VARIANCE = 9.0
_MAX_INITIAL_VARIANCE = 1.0
# The usual τ², which counts in its estimate like so many cells.
_USUAL_PRIOR_VARIANCE = 0.1
_PRIOR_CELLS = 8
# The first estimate of τ² is lowered by so many standard errors.
_INITIAL_CAUTION = 0.5
# Ordered cells are alike over this part of the column. Of their prior variance this
# part is independent from cell to cell.
_CORRELATION_LENGTH = 0.5
_INDEPENDENT_PART = 0.05
# So few ordered cells are independent too.
_MAX_INDEPENDENT_CELLS = 3
# The sum of all classes in a cell is known if it is so many standard deviations.
_CLEAR_TOTAL_STDS = 3
# The most by which the released counts of a cell are scaled to the drawn records.
_MAX_SCALING = 2
# Rounds that bring the classes to their shares, after each change of the effects.
_CALIBRATION_ROUNDS = 2
# A class that is below the noise is rare, but not impossible.
_MIN_CLASS_SHARE = 1e-6
# Smallest curvature of an effect, for cells that hold no record.
_MIN_CURVATURE = 1e-6
# Keep quotients finite.
_TINY = 1e-9
_MIN_INFORMATION = 1e-20
_MAX_VARIANCE = 1e30
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


@dataclass(frozen=True, kw_only=True, eq=False)
class DrawnRecords:
    """Records of a mixture, in random order.

    Attributes:
        one_hot: One-hot code of their cells, without the label, (records, D).
        offset: What is added to the scores of each class, (records, classes).
    """

    one_hot: Float32[Array, "records D"]
    offset: Float64[Array, "records classes"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Effects:
    """Scores of each class without an offset: b_k + Σ_i θ_ki(x_i).

    Attributes:
        bias: The biases b_k, (classes,).
        cells: The effects θ_ki(a) of the cells of all columns, (classes, D).
    """

    bias: Float64[Array, " classes"]
    cells: Float64[Array, "classes D"]

    def probabilities(self, records: DrawnRecords) -> Float64[Array, "records classes"]:
        """Computes the probability of each class for each record."""
        cell_scores = records.one_hot @ self.cells.T.astype(np.float32)
        return softmax(cell_scores + self.bias + records.offset)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Gap:
    """The gap of one class between released and modelled counts, in each cell.

    Attributes:
        values: The gap g, (D,).
        variance: Variance v of its noise, (D,).
    """

    values: Float64[Array, " D"]
    variance: Float64[Array, " D"]


@dataclass(frozen=True, kw_only=True, eq=False)
class _VarianceEstimate:
    """The estimate of τ² by moments, for each column of one class.

    Attributes:
        values: The estimates, unbiased, so that they may be negative, (columns,).
        errors: Their standard errors if there is no effect, (columns,).
    """

    values: Float64[Array, " columns"]
    errors: Float64[Array, " columns"]


@dataclass(frozen=True, kw_only=True, eq=False)
class _ScaledCounts:
    """Released counts of each cell, scaled to the records that are drawn in it.

    Attributes:
        by_class: Counts of each class, (classes, D).
        variance: Variance of the noise on each count of a cell, (D,).
        totals: Counts of all classes together, (D,).
    """

    by_class: Float64[Array, "classes D"]
    variance: Float64[Array, " D"]
    totals: Float64[Array, " D"]

    @classmethod
    def of(cls, tables: PackedTables, expected: Float64[Array, " D"]) -> _ScaledCounts:
        """Scales the counts of single columns.

        The fit compares classes within a cell, so that the number of records in the
        cell must be the same on both sides. With E the number of drawn records in a
        cell, in records of the release, S_k the released count of class k, V the
        variance of its noise and T = Σ_k S_k, counts become f S_k and their variance
        f² V, where f = E / T, from 1/`_MAX_SCALING` to `_MAX_SCALING`. Where the noise
        hides T, so that it is less than `_CLEAR_TOTAL_STDS` of its standard deviations,
        f is 1.

        Where f is 1 or at one of its bounds, Σ_k f S_k differs from E. The totals are
        Σ_k f S_k then, so that they are those of the classes, but no further from E
        than half of it: noise alone would make some negative.

        Args:
            tables: The released tables. A cell that was not released has infinite
                noise, of which `_MAX_VARIANCE` is left.
            expected: Drawn records in each cell, in records of the release, E.
        """
        n_classes = len(tables.class_counts)
        variance = np.minimum(tables.one_way_std**2, _MAX_VARIANCE)
        released_totals = tables.one_way_counts.sum(axis=0)
        is_clear = released_totals > _CLEAR_TOTAL_STDS * np.sqrt(n_classes * variance)
        ratios = expected / np.maximum(released_totals, _TINY)
        factors = np.where(
            is_clear, np.clip(ratios, 1 / _MAX_SCALING, _MAX_SCALING), 1.0
        )
        by_class = tables.one_way_counts * factors
        surplus = by_class.sum(axis=0) - expected
        return cls(
            by_class=by_class,
            variance=variance * factors**2,
            totals=expected + np.clip(surplus, -expected / 2, expected / 2),
        )


class EffectsFit:
    """Fits effects and their prior variances by Newton's method.

    The tables are of the columns that take part, without the label: D is the number of
    their cells.

    Args:
        tables: The released tables, by class of the label.
        records: Records of a mixture that was fitted to them.
        n_ordered: How many cells of each column, the first ones, have an order; 0 for
            none.
    """

    def __init__(
        self, tables: PackedTables, records: DrawnRecords, n_ordered: Sequence[int]
    ) -> None:
        self._column_slices = tables.column_slices
        self._records = records
        class_shares = np.maximum(
            tables.class_counts / tables.class_counts.sum(), _MIN_CLASS_SHARE
        )
        self._class_shares = class_shares / class_shares.sum()
        n_classes, n_cells = tables.one_way_counts.shape
        # Of two classes, the scores of one say all.
        self._fitted_classes = (1,) if n_classes == 2 else tuple(range(n_classes))
        self._inverse_covariances = [
            np.linalg.inv(prior_covariance(size, column_n_ordered))
            for size, column_n_ordered in zip(tables.sizes, n_ordered, strict=True)
        ]
        self._released_per_drawn = tables.class_counts.sum() / len(records.one_hot)
        # Drawn records in each cell, and the same in records of the release.
        self._n_drawn = records.one_hot.sum(axis=0, dtype=np.float64)
        self._expected = self._n_drawn * self._released_per_drawn
        self._released = _ScaledCounts.of(tables, self._expected)
        self._prior_variances = np.full(
            (n_classes, len(tables.sizes)), _USUAL_PRIOR_VARIANCE
        )
        self._curvatures: dict[int, Array] = {}
        self._bias = np.log(self._class_shares)
        self._effects = np.zeros((n_classes, n_cells))
        # Odds of the classes for each record, whose sum may be any, (records, classes).
        highest = records.offset.max(axis=1, keepdims=True)
        self._odds = np.exp(records.offset - highest + self._bias)

    def run(self) -> Effects:
        """Takes all steps, and returns the effects.

        The stages are: biases that give the classes their shares; variances τ² of the
        prior by the method of moments, from effects of 0; and `_NEWTON_STEPS` rounds,
        in each of which every class takes a step (`_newton_step`) and the biases are
        set again. It is called once: effects are changed in place.
        """
        self._calibrate_bias()
        for class_index in self._fitted_classes:
            # EM alone would stay where it starts if the counts say little.
            estimate = self._estimate_prior_variances(class_index)
            cautious = estimate.values - _INITIAL_CAUTION * estimate.errors
            self._prior_variances[class_index] = np.clip(
                cautious, _MIN_PRIOR_VARIANCE, _MAX_INITIAL_VARIANCE
            )
        for step in range(_NEWTON_STEPS):
            # One class after the other: steps of all classes at once go twice as far as
            # they should, and oscillate.
            for class_index in self._fitted_classes:
                probability = self._probability(class_index)
                if step in _CURVATURE_STEPS:
                    self._curvatures[class_index] = self._curvature(probability)
                self._newton_step(class_index, probability)
            self._calibrate_bias()
        return Effects(bias=self._bias, cells=self._effects)

    def strength(self) -> Float64[Array, " columns"]:
        """Computes how far the effects of each column stand out of their noise.

        It takes no step, and is meant for a fit that has taken none.

        Returns:
            The largest estimate of τ² of a class, in standard errors, (columns,); below
            0 where counts differ less than noise makes them differ.
        """
        estimates = [
            self._estimate_prior_variances(class_index)
            for class_index in self._fitted_classes
        ]
        z_scores = [
            estimate.values / np.maximum(estimate.errors, _TINY)
            for estimate in estimates
        ]
        return np.asarray(np.max(z_scores, axis=0))

    def _probability(self, class_index: int) -> Float64[Array, " records"]:
        """Returns the probability of a class for each record."""
        return np.asarray(self._odds[:, class_index] / self._odds.sum(axis=1))

    def _cell_means(
        self, probability: Float64[Array, " records"]
    ) -> Float64[Array, " D"]:
        """Computes p̄, the mean probability of a class over the records in each cell."""
        sums = probability.astype(np.float32) @ self._records.one_hot
        return np.asarray(sums / np.maximum(self._n_drawn, _TINY))

    def _gap(self, class_index: int, means: Float64[Array, " D"]) -> _Gap:
        """Computes the gap of a class in each cell, and the variance of its noise.

        With S the released count of the class, V the variance of its noise, T the count
        of all classes and p̄ the mean probability of the class, the gap is g = S - p̄ T.
        Its noise has the variance v = V ((1 - p̄)² + (classes - 1) p̄²), that of sampling
        not included. In cells without a drawn record p̄ is not known, and g is 0.

        Args:
            class_index: The class.
            means: Its mean probability p̄ in each cell.
        """
        released = self._released
        gap = released.by_class[class_index] - means * released.totals
        n_classes = len(self._class_shares)
        return _Gap(
            values=np.where(self._n_drawn > 0, gap, 0.0),
            variance=gap_variance_factor(means, n_classes) * released.variance,
        )

    def _estimate_prior_variances(self, class_index: int) -> _VarianceEstimate:
        """Estimates the τ² of each column of a class by the method of moments.

        A cell with E records, in which the class has the mean probability p̄ without any
        effect, has the curvature h = p̄ (1 - p̄) E. An effect θ changes the expected
        count of the class by h θ, to first order; sampling gives the count the variance
        h, that of a binomial variable; and the noise gives the gap g the variance v. So
        with effects of mean 0 and variance τ², independent of all else, ::

            E[g²] = h² τ² + h + v

        A regression of g² - (h + v) on h², without a constant, estimates τ². Its
        weights are 1 / (h + v)², since without effects the variance of g² is 2 (h + v)²
        for a normal gap::

            τ² = Σ h² (g² - h - v) / (h + v)²  /  Σ h⁴ / (h + v)²

        with sums over the cells of a column. If τ² is 0, the estimate has the variance
        2 Σ h⁴ / (h + v)² over the square of the same denominator: the error is that of
        an estimate where there is no effect. Correlations of the effects of near cells
        are left out.

        Returns:
            Estimates and errors. An estimate is unbiased, so that it may be negative:
            `run`, which needs a variance, clips it, and `strength` does not.
        """
        means = self._cell_means(self._probability(class_index))
        gap = self._gap(class_index, means)
        curvature = np.maximum(means * (1 - means) * self._expected, _MIN_CURVATURE)
        null_variance = curvature + gap.variance
        weight = null_variance**-2.0
        information = self._sum_by_column(weight * curvature**4)
        information = np.maximum(information, _MIN_INFORMATION)
        excess = self._sum_by_column(
            weight * curvature**2 * (gap.values**2 - null_variance)
        )
        variance = self._sum_by_column(2 * weight**2 * null_variance**2 * curvature**4)
        return _VarianceEstimate(
            values=excess / information, errors=np.sqrt(variance) / information
        )

    def _sum_by_column(
        self, values: Float64[Array, " D"]
    ) -> Float64[Array, " columns"]:
        """Sums values of all cells over the cells of each column."""
        starts = [column_slice.start for column_slice in self._column_slices]
        return np.asarray(np.add.reduceat(values, starts))

    def _curvature(self, probability: Float64[Array, " records"]) -> Array:
        """Computes H = Xᵀ diag(p (1 - p)) X, the curvature of a class, (D, D).

        X is the one-hot code of records and p the probability of the class. It is the
        sum over the first drawn records alone, which are in random order, scaled to the
        records of the release.
        """
        has_few_classes = len(self._fitted_classes) <= _FEW_CLASSES
        n_records = _CURVATURE_RECORDS // (1 if has_few_classes else 2)
        one_hot = self._records.one_hot[:n_records]
        weight = (probability * (1 - probability))[:n_records]
        weighted = one_hot * weight.astype(np.float32)[:, None]
        curvature = np.asarray(weighted.T @ one_hot, dtype=np.float64)
        scale = self._released_per_drawn * len(self._records.one_hot) / len(one_hot)
        return np.asarray(curvature * scale)

    def _newton_step(
        self, class_index: int, probability: Float64[Array, " records"]
    ) -> None:
        """Takes a step of Newton's method for one class, and estimates its τ² by EM.

        In each cell, g is the gap between released and modelled counts, v the variance
        of its noise and h the curvature, which is the variance that g has without
        noise. So w = h / (h + v) is the part of a gap that is signal, and w g the best
        linear estimate of the gap without noise. With W = diag(w), θ the effects of the
        class and K τ² their prior covariance, the effects that are sought solve ::

            W g(θ) = K⁻¹ θ / τ²

        Without noise, where W is the identity, that is where likelihood times prior has
        its maximum. Otherwise it is an equation and no maximum: W scales each cell's
        equation, so that the matrix of the step is not symmetric, and is solved as it
        is. A step δ follows from ∂g/∂θ = -H, W being held fixed::

            (W H + K⁻¹ / τ²) δ = W g - K⁻¹ θ / τ²

        The curvature H may be that of an earlier step, and of a part of the records. It
        sets how long steps are and, by its diagonal h, how much of a gap counts. Gap
        and probability must be those of now, as they decide where steps end.

        Args:
            class_index: The class.
            probability: Its probability for each record, from the odds as they are.
        """
        gap = self._gap(class_index, self._cell_means(probability))
        curvature = self._curvatures[class_index]
        diagonal = np.maximum(curvature.diagonal(), _MIN_CURVATURE)
        signal_part = diagonal / (diagonal + gap.variance)
        change = self._solve_with_prior(
            class_index,
            matrix=signal_part[:, None] * curvature,
            right_side=signal_part * gap.values,
        )
        change *= min(1.0, _MAX_EFFECT_CHANGE / (np.abs(change).max() + _TINY))
        self._effects[class_index] += change
        # Odds are exp(score) up to a factor of each record, by which `_probability`
        # divides. A change of the scores of one class multiplies its odds alone.
        score_change = self._records.one_hot @ change.astype(np.float32)
        self._odds[:, class_index] *= np.exp(score_change)
        self._update_prior_variances(class_index, signal_part * diagonal)

    def _solve_with_prior(
        self,
        class_index: int,
        *,
        matrix: Float64[Array, "D D"],
        right_side: Float64[Array, " D"],
    ) -> Float64[Array, " D"]:
        """Solves (A + K⁻¹ / τ²) δ = b - K⁻¹ θ / τ² for a change δ of effects θ.

        The prior covariance K τ² has a block for each column, with a τ² of its own.

        Args:
            class_index: The class whose effects change.
            matrix: A, which is overwritten.
            right_side: b, which is overwritten.
        """
        effects = self._effects[class_index]
        for column_slice, inverse, prior_variance in zip(
            self._column_slices,
            self._inverse_covariances,
            self._prior_variances[class_index],
            strict=True,
        ):
            matrix[column_slice, column_slice] += inverse / prior_variance
            right_side[column_slice] -= inverse @ effects[column_slice] / prior_variance
        return np.asarray(np.linalg.solve(matrix, right_side))

    def _update_prior_variances(
        self, class_index: int, information: Float64[Array, " D"]
    ) -> None:
        """Estimates the τ² of each column of a class again, from its effects.

        Args:
            class_index: The class.
            information: How much the counts say of each effect, w h.
        """
        prior_variances = self._prior_variances[class_index]
        for column, column_slice in enumerate(self._column_slices):
            prior_variances[column] = _updated_prior_variance(
                self._effects[class_index, column_slice],
                self._inverse_covariances[column],
                prior_variances[column],
                information[column_slice],
                self._expected[column_slice],
            )

    def _calibrate_bias(self) -> None:
        """Moves the biases until the classes have their shares among the records.

        A bias b_k becomes b_k + log(share that class k is to have / mean probability
        that it has), and its odds are multiplied alike. Each round comes closer; the
        last one leaves a small difference.
        """
        for _ in range(_CALIBRATION_ROUNDS):
            probabilities = self._odds / self._odds.sum(axis=1, keepdims=True)
            shares = probabilities.mean(axis=0)
            factors = self._class_shares / np.maximum(shares, _TINY)
            self._bias += np.log(factors)
            self._odds *= factors


def _updated_prior_variance(
    effects: Float64[Array, " cells"],
    inverse_covariance: Float64[Array, "cells cells"],
    prior_variance: float,
    information: Float64[Array, " cells"],
    expected: Float64[Array, " cells"],
) -> float:
    """Estimates the τ² of one column again, by a step of EM.

    The C effects θ of the column have the prior N(0, τ² K) and, given the counts, about
    the covariance P = (diag(w h) + K⁻¹ / τ²)⁻¹. The step would be
    τ² = E[θᵀ K⁻¹ θ] / C = (θᵀ K⁻¹ θ + tr(K⁻¹ P)) / C. Effects are centred first, as a
    bias takes their mean. `_PRIOR_CELLS` cells of the usual variance count besides::

        τ² = (θᵀ K⁻¹ θ + tr(K⁻¹ P) + _PRIOR_CELLS τ₀²) / (C + _PRIOR_CELLS)

    Args:
        effects: Effects θ of its cells.
        inverse_covariance: The inverse of K.
        prior_variance: τ² so far.
        information: How much the counts say of each effect, w h.
        expected: Number of records in each cell, the weights of the mean effect.

    Returns:
        τ², from `_MIN_PRIOR_VARIANCE` to `_MAX_PRIOR_VARIANCE`.
    """
    mean_effect = effects @ expected / max(expected.sum(), _TINY)
    centred = effects - mean_effect
    posterior_covariance = np.linalg.inv(
        np.diag(information) + inverse_covariance / prior_variance
    )
    energy = centred @ inverse_covariance @ centred + np.sum(
        inverse_covariance * posterior_covariance
    )
    n_cells = len(effects)
    mean_energy = (energy + _PRIOR_CELLS * _USUAL_PRIOR_VARIANCE) / (
        n_cells + _PRIOR_CELLS
    )
    return float(np.clip(mean_energy, _MIN_PRIOR_VARIANCE, _MAX_PRIOR_VARIANCE))


def gap_variance_factor(means: Array, n_classes: int) -> Array:
    """Computes the variance of a gap over that of the noise on one count.

    The gap is S_k - p̄ Σ_l S_l, with independent noise of the same variance on each S_l.
    S_k has the factor 1 - p̄ in it and each other count -p̄, so that the ratio is
    (1 - p̄)² + (classes - 1) p̄².

    Args:
        means: Mean probability p̄ of class k in each cell, of any shape.
        n_classes: How many classes there are.
    """
    return np.asarray((1 - means) ** 2 + (n_classes - 1) * means**2)


def prior_covariance(size: int, n_ordered: int) -> Float64[Array, "size size"]:
    """Computes K, the prior covariance of the effects of a column's cells over τ².

    It is 1 on the diagonal. In an order of m cells, more than `_MAX_INDEPENDENT_CELLS`,
    cells i and j have the covariance (1 - s) exp(-|i - j| / ℓ), with
    s = `_INDEPENDENT_PART` and ℓ = `_CORRELATION_LENGTH` m, at least 1. All others have
    0.

    Args:
        size: Number of cells.
        n_ordered: How many cells, the first ones, have an order, in which near ones are
            alike. All others are independent.
    """
    covariance = np.eye(size)
    if n_ordered > _MAX_INDEPENDENT_CELLS:
        cell_index = np.arange(n_ordered)
        steps_apart = np.abs(cell_index[:, None] - cell_index)
        length = max(_CORRELATION_LENGTH * n_ordered, 1.0)
        correlations = np.exp(-steps_apart / length)
        covariance[:n_ordered, :n_ordered] = (
            _INDEPENDENT_PART * np.eye(n_ordered)
            + (1 - _INDEPENDENT_PART) * correlations
        )
    return covariance


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

        It is the smallest weight that leaves hardly more excess (`pair_excess`) than
        the best one, judged by tables that the trial has not seen. Weights are tried in
        ascending order, until one leaves so little that it would be chosen even if a
        larger one left nothing.

        Excess leaves out what pairs are off by chance, which distinguishes weights.
        That the judge sees any effect at all is told by the sum of all distances, of
        which the noise is known: if the chosen weight is not clearly closer to the
        judge's tables than constant probabilities are, it is raised to
        `UNCLEAR_WEIGHT`.

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

        # Takes time, and is not needed if a weight of 0, which comes first, is chosen.
        @cache
        def log_odds() -> Float64[Array, "records classes"]:
            return log_ratios(mixture.log_joint(cells, self._column))

        allowed_at_best = _allowed_excess(0.0, of_constant, chance)
        results: list[PairExcess] = []
        for weight in MIXTURE_WEIGHTS:
            offset = weight * log_odds() if weight else np.zeros_like(constant_shares)
            records = DrawnRecords(one_hot=one_hot, offset=offset)
            fit = self._effects_fit(trial, columns, records)
            probabilities = fit.run().probabilities(records)
            results.append(pair_excess(judge_of_columns, one_hot, probabilities))
            if results[-1].excess <= allowed_at_best:
                break
        weight_index = _smallest_good_index(results, of_constant, chance)
        weight = MIXTURE_WEIGHTS[weight_index]
        gain = of_constant.distance - results[weight_index].distance
        gain_std = math.sqrt(2 * judge_of_columns.n_joint_cells)
        if gain > _MAX_CHANCE_STDS * gain_std:
            return weight
        # No effect exceeds the noise for the judge: the mixture steadies them.
        return max(weight, UNCLEAR_WEIGHT)

    def model(self, mixture: Mixture, weight: float) -> LabelModel:
        """Fits the model of the label.

        Records are drawn from the mixture, and effects are fitted to the released
        tables on them, with κ times the mixture's log-odds as offset. In a wide table
        only the most informative columns take part; the others have effects of 0.

        Args:
            mixture: The mixture that was fitted to all that was released.
            weight: The weight κ of its log-odds.
        """
        n_classes = len(self._tables.class_counts)
        # A fit of many classes takes longer, and half the records are enough.
        n_records = _FIT_RECORDS if n_classes <= _FEW_CLASSES else _FIT_RECORDS // 2
        cells = self._draw_cells(mixture, n_records)
        # Without the label, as the columns of the packed tables are.
        other_cells = np.delete(cells, self._column, axis=1)
        columns = _informative_columns(self._tables, other_cells)
        offset = np.zeros((len(cells), n_classes))
        if weight:
            # The log-odds take time, and a weight of 0 needs none.
            offset = weight * log_ratios(mixture.log_joint(cells, self._column))
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


def _allowed_excess(smallest: float, of_constant: PairExcess, chance: float) -> float:
    """Computes how much excess a weight may leave to be chosen.

    With e the smallest excess of any weight and c that of constant probabilities, it is
    e + `_EXCESS_LEFT` (c - e) + chance. It grows with e: so a weight that would be
    chosen with e = 0 is chosen whatever larger weights leave.

    Args:
        smallest: The smallest excess e of any weight.
        of_constant: Excess of probabilities that are the same for all records.
        chance: What an excess may be by chance.
    """
    explained = max(of_constant.excess - smallest, 0.0)
    return smallest + _EXCESS_LEFT * explained + chance


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
    allowed = _allowed_excess(smallest, of_constant, chance)
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


class _PairJudge:
    """Judges probabilities of the classes by released pairs of columns.

    In a pair of cells, S is the released count of a class, T that of all classes, p̄ the
    mean probability of the class over the records drawn in both cells, and E their
    number in records of the release. The gap g = S - p̄ T has the mean square v + s +
    what is wrong with p̄, with v the variance of its noise (`gap_variance_factor`) and
    s = p̄ (1 - p̄) E that of sampling. So a cell has the distance ::

        (g² - v - s) / max(v + s, 1)

    of mean 0 if p̄ is right. The distance of a pair of columns is the sum over its
    cells, each counted once.

    Args:
        tables: Released tables with noise that is independent of the probabilities.
        one_hot: One-hot code of the cells of drawn records.
    """

    def __init__(
        self, tables: PackedTables, one_hot: Float32[Array, "records D"]
    ) -> None:
        self._tables = tables
        self._one_hot = one_hot
        is_released = tables.pair_inverse_std > 0
        self._noise_variance = np.where(
            is_released, np.maximum(tables.pair_inverse_std, _TINY) ** -2.0, 1.0
        )
        self._n_drawn = one_hot.T @ one_hot
        released_per_drawn = tables.class_counts.sum() / len(one_hot)
        self._expected = self._n_drawn * released_per_drawn
        self._totals = tables.pair_counts.sum(axis=0)
        # Pairs are stored above the diagonal alone.
        self._is_counted = is_released & (self._n_drawn > 0)

    def chance(self) -> Float64[Array, "columns columns"]:
        """Computes how large the distance of each pair of columns may be by chance.

        If p̄ is right and gaps are about normal and independent, g² / (v + s) has the
        variance 2 in each of the C cells, so that the distance has the standard
        deviation √(2 C). `_MAX_CHANCE_STDS` of these may be chance.
        """
        n_cells = _sum_by_pair(self._tables, self._is_counted.astype(float))
        return np.asarray(_MAX_CHANCE_STDS * np.sqrt(2 * n_cells))

    def distances(
        self, class_index: int, probability: Float64[Array, " records"]
    ) -> Float64[Array, "columns columns"]:
        """Computes the distance of each pair of columns in one class.

        Args:
            class_index: The class.
            probability: Its probability for each drawn record.
        """
        weighted = self._one_hot * probability[:, None].astype(np.float32)
        means = (weighted.T @ self._one_hot) / np.maximum(self._n_drawn, _TINY)
        n_classes = len(self._tables.class_counts)
        noise = gap_variance_factor(means, n_classes) * self._noise_variance
        sampling = means * (1 - means) * self._expected
        gap = self._tables.pair_counts[class_index] - means * self._totals
        unit = np.maximum(noise + sampling, 1.0)
        cell_distances = (gap**2 - noise - sampling) / unit
        return _sum_by_pair(
            self._tables, np.where(self._is_counted, cell_distances, 0.0)
        )


def pair_excess(
    judge: PackedTables,
    one_hot: Float32[Array, "records D"],
    probabilities: Float64[Array, "records classes"],
) -> PairExcess:
    """Computes how far probabilities of the classes are from released pairs.

    What the distance of a pair of columns (`_PairJudge`) has above chance is excess.

    Args:
        judge: Tables with noise that is independent of the probabilities.
        one_hot: One-hot code of the cells of drawn records.
        probabilities: Probabilities of the classes for each of them.

    Returns:
        Sums over all pairs of columns and classes, of distances and of excesses.
    """
    pair_judge = _PairJudge(judge, one_hot)
    chance = pair_judge.chance()
    n_classes = len(judge.class_counts)
    excess = 0.0
    distance = 0.0
    # Of two classes, one says all.
    for class_index in range(1 if n_classes == 2 else 0, n_classes):
        distances = pair_judge.distances(class_index, probabilities[:, class_index])
        excess += float(np.maximum(distances - chance, 0).sum())
        distance += float(distances.sum())
    return PairExcess(excess=excess, distance=distance)


def _sum_by_pair(
    tables: PackedTables, values: Float64[Array, "D D"]
) -> Float64[Array, "columns columns"]:
    """Sums values of pairs of cells over the block of cells of each pair of columns."""
    starts = [column_slice.start for column_slice in tables.column_slices]
    row_sums = np.add.reduceat(values, starts, axis=0)
    return np.asarray(np.add.reduceat(row_sums, starts, axis=1))
