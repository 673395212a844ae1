"""Fits the effects of the other columns on a label.

Scores are η_k(x) = b_k + Σ_i θ_ki(x_i) + offset, and p = softmax(η). Records x are
drawn from a mixture, scaled to the release's N. Where p is right, then for every class
k and cell c

    g_k(c) = S_k(c) − p̄_k(c) T(c)

is zero but for noise: S_k the released count of the class, T that of all classes, p̄_k
the mean of p_k over the records in the cell. The variance of its noise is v = V ((1 −
p̄)² + (classes − 1) p̄²), V that of one count. With the curvature H = Xᵀ diag(p (1 −
p)) X, h its diagonal and W = h / (h + v), which keeps of each cell what stands out of
its noise, a step of Newton's solves (W H + K⁻¹/τ²) δ = W g − K⁻¹ θ / τ².

The prior of a column's effects is N(0, τ² K), where cells in an order are alike if they
are near; τ² is estimated by the method of moments and then by EM (empirical Bayes:
Efron and Morris, 1973). So a column that says nothing of the label has no effect,
whatever its noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.models.labelled import softmax
from noisegate.models.tables.packed_tables import PackedTables

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64

    Array = npt.NDArray[Any]

FEW_CLASSES = 6
# Newton's steps, each of which estimates τ² anew.
_ROUNDS = 12
_LONGEST = 3.0  # largest change of an effect in one step
# Bounds of τ², and a prior of it that counts like so many cells.
_LEAST, _MOST = 0.003, 9.0
_USUAL, _PRIOR_CELLS = 0.1, 8
# Standard errors by which the first estimate of τ² is lowered.
_SHY = 0.5
# Ordered cells are alike over this part of the column; so much of the prior is each cell's own.
_REACH, _OWN = 0.5, 0.05
# The curvature may be rough: so many records are enough, and it is computed anew at these steps.
_CURVATURE_ROWS, _CURVATURE_ROUNDS = 6000, (0, 1, 3, 6)
# Of more classes half of that is enough.
_TINY, _HUGE = 1e-9, 1e30
_RAREST = 1e-6  # share of a class


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn:
    """Records of a mixture, in random order.

    Attributes:
        onehot: Their cells of the columns other than the label, (rows, D).
        offset: What is known of the scores, (rows, classes).
    """

    onehot: Float32[Array, "rows D"]
    offset: Float64[Array, "rows classes"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Effects:
    """Scores of each class without an offset: b_k + Σ_i θ_ki(x_i).

    Attributes:
        bias: (classes,).
        cells: (classes, D).
    """

    bias: Float64[Array, " classes"]
    cells: Float64[Array, "classes D"]

    def probabilities(self, drawn: Drawn) -> Float64[Array, "rows classes"]:
        """Returns the probability of each class for each record."""
        return softmax(
            drawn.onehot @ self.cells.T.astype(np.float32) + self.bias + drawn.offset
        )


class EffectsFit:
    """Newton's steps for the effects, and their prior variances by column and class.

    Args:
        tables: The released tables, arranged by class.
        drawn: Records of a mixture that was fitted to them.
        ordered: How many cells of each column, the first ones, stand in an order; 0 for none.
    """

    def __init__(
        self, tables: PackedTables, drawn: Drawn, ordered: Sequence[int]
    ) -> None:
        self._spans, self._drawn = tables.spans, drawn
        # A class that drowned is rare, not impossible.
        shares = np.maximum(tables.counts / tables.counts.sum(), _RAREST)
        self._prior = shares / shares.sum()
        classes, width = tables.singles.shape
        # Of two classes one says all.
        self._free = (1,) if classes == 2 else tuple(range(classes))
        self._inverse = [
            np.linalg.inv(prior_covariance(size, few))
            for size, few in zip(tables.sizes, ordered, strict=True)
        ]
        self._scale = tables.counts.sum() / len(drawn.onehot)
        self._drawn_counts = drawn.onehot.sum(axis=0, dtype=np.float64)
        self._expected = self._drawn_counts * self._scale
        self._singles, self._variance, self._total = self._scaled(tables)
        self._taus = np.full((classes, len(tables.sizes)), _USUAL)
        self._curvatures: dict[int, Array] = {}
        self._bias, self._effects = np.log(self._prior), np.zeros((classes, width))
        # Odds of the classes, of any sum in a row.
        self._odds = np.exp(
            drawn.offset - drawn.offset.max(axis=1, keepdims=True) + self._bias
        )

    def run(self) -> Effects:
        """Returns the effects."""
        self._recalibrate()
        for place in self._free:
            # Each τ² starts where counts say: EM alone would stay where it starts if they say little.
            estimate, error = self._estimate(
                place, self._means(self._probability(place))
            )
            self._taus[place] = np.clip(estimate - _SHY * error, _LEAST, 1.0)
        for done in range(_ROUNDS):
            # One class after the other: steps of all at once go twice as far as they should, and swing.
            for place in self._free:
                probability = self._probability(place)
                if done in _CURVATURE_ROUNDS:
                    self._curvatures[place] = self._curvature(probability)
                self._newton(place, probability)
            self._recalibrate()
        return Effects(bias=self._bias, cells=self._effects)

    def strength(self) -> Float64[Array, " columns"]:
        """Returns how far what each column says of the label stands out of its noise, in standard errors."""
        found = [
            self._estimate(place, self._means(self._probability(place)))
            for place in self._free
        ]
        return np.asarray(
            np.max(
                [estimate / np.maximum(error, _TINY) for estimate, error in found],
                axis=0,
            )
        )

    def _probability(self, place: int) -> Array:
        """Returns the probability of a class for each record, (rows,)."""
        return np.asarray(self._odds[:, place] / self._odds.sum(axis=1))

    def _scaled(self, tables: PackedTables) -> tuple[Array, Array, Array]:
        """Returns counts, their noise and totals, where these are known well, scaled to the cells' expected records."""
        classes = len(tables.counts)
        variance = np.minimum(tables.singles_std**2, _HUGE)
        total, expected = tables.singles.sum(axis=0), self._expected
        known = total > 3 * np.sqrt(classes * variance)
        factor = np.where(
            known, np.clip(expected / np.maximum(total, _TINY), 0.5, 2), 1.0
        )
        singles = tables.singles * factor
        total = expected + np.clip(
            singles.sum(axis=0) - expected, -expected / 2, expected / 2
        )
        return singles, variance * factor**2, total

    def _means(self, probability: Array) -> Array:
        """Returns p̄, the mean probability of a class over the records in each cell."""
        return np.asarray(
            (probability.astype(np.float32) @ self._drawn.onehot)
            / np.maximum(self._drawn_counts, _TINY)
        )

    def _gap(self, place: int, means: Array) -> tuple[Array, Array]:
        """Returns g and v of a class."""
        gap = np.where(
            self._drawn_counts > 0, self._singles[place] - means * self._total, 0.0
        )
        return gap, gap_variance(means, len(self._prior)) * self._variance

    def _estimate(self, place: int, means: Array) -> tuple[Array, Array]:
        """Returns the moment estimate of each column's τ², and its standard error where there is no effect."""
        gap, noise = self._gap(place, means)
        curvature = np.maximum(means * (1 - means) * self._expected, 1e-6)
        spread = curvature + noise
        weight = spread**-2.0
        starts = [span.start for span in self._spans]
        information = np.maximum(np.add.reduceat(weight * curvature**4, starts), 1e-20)
        estimate = (
            np.add.reduceat(weight * curvature**2 * (gap**2 - spread), starts)
            / information
        )
        error = (
            np.sqrt(np.add.reduceat(2 * weight**2 * spread**2 * curvature**4, starts))
            / information
        )
        return estimate, error

    def _curvature(self, probability: Array) -> Array:
        rows = _CURVATURE_ROWS // (1 if len(self._free) <= FEW_CLASSES else 2)
        onehot, weight = (
            self._drawn.onehot[:rows],
            (probability * (1 - probability))[:rows],
        )
        curvature = np.asarray(
            (onehot * weight.astype(np.float32)[:, None]).T @ onehot, dtype=np.float64
        )
        return np.asarray(
            curvature * (self._scale * len(self._drawn.onehot) / len(onehot))
        )

    def _newton(self, place: int, probability: Array) -> None:
        """Takes a step for one class, and estimates its τ² anew by EM."""
        means = self._means(probability)
        gap, noise = self._gap(place, means)
        curvature = self._curvatures[place]
        diagonal = np.maximum(curvature.diagonal(), 1e-6)
        kept = diagonal / (diagonal + noise)
        matrix, pull, effects = (
            kept[:, None] * curvature,
            kept * gap,
            self._effects[place],
        )
        for span, inverse, tau in zip(
            self._spans, self._inverse, self._taus[place], strict=True
        ):
            matrix[span, span] += inverse / tau
            pull[span] -= inverse @ effects[span] / tau
        change = np.linalg.solve(matrix, pull)
        change *= min(1.0, _LONGEST / (np.abs(change).max() + _TINY))
        effects += change
        self._odds[:, place] *= np.exp(self._drawn.onehot @ change.astype(np.float32))
        for column, (span, inverse) in enumerate(
            zip(self._spans, self._inverse, strict=True)
        ):
            self._taus[place, column] = self._expectation(
                effects[span],
                inverse,
                self._taus[place, column],
                (kept * diagonal)[span],
                self._expected[span],
            )

    def _expectation(
        self,
        effects: Array,
        inverse: Array,
        tau: float,
        information: Array,
        expected: Array,
    ) -> float:
        """Returns the τ² of one column after a step of EM."""
        centred = effects - effects @ expected / max(expected.sum(), _TINY)
        covariance = np.linalg.inv(np.diag(information) + inverse / tau)
        energy = centred @ inverse @ centred + np.sum(inverse * covariance)
        return float(
            np.clip(
                (energy + _PRIOR_CELLS * _USUAL) / (len(effects) + _PRIOR_CELLS),
                _LEAST,
                _MOST,
            )
        )

    def _recalibrate(self) -> None:
        """Moves the bias until the classes have their shares."""
        for _ in range(2):
            shares = (self._odds / self._odds.sum(axis=1, keepdims=True)).mean(axis=0)
            factor = self._prior / np.maximum(shares, _TINY)
            self._bias += np.log(factor)
            self._odds *= factor


def gap_variance(means: Array, classes: int) -> Array:
    """Returns the variance of S_k − p̄ Σ S over that of one count, whose noise is independent."""
    return np.asarray((1 - means) ** 2 + (classes - 1) * means**2)


def prior_covariance(size: int, ordered: int) -> Float64[Array, "size size"]:
    """Returns K: of the first `ordered` cells near ones are alike, all others are independent."""
    covariance = np.eye(size)
    if ordered > 3:
        at = np.arange(ordered)
        near = np.exp(-np.abs(at[:, None] - at) / max(_REACH * ordered, 1.0))
        covariance[:ordered, :ordered] = _OWN * np.eye(ordered) + (1 - _OWN) * near
    return covariance
