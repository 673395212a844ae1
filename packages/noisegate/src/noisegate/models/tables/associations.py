"""How much of the associations and regressions of a release its fit keeps.

It is estimated from the release alone, without a record.

**Associations.** A column has scores of mean 0 and variance 1 over the records of the
model: the ranks of cells in an order, or an orthonormal basis over levels. Of two
columns with scores X and Y and a table T of n records, the association is the matrix of
mean products C = Xᵀ (T / n) Y: a rank correlation, or numbers whose squares sum to
Cramér's V² times the degrees of freedom of the smaller column.

A release gives each number c with noise of known variance σ² and no bias. So Σ c² - σ²
over all pairs is an unbiased estimate of all association, however much of it noise
hides in single pairs. With f the part of the released C that the model has, the model
has ::

    f Σ (c² - σ²) - 2 f (1 - f) σ²

of it, less what it owes to the noise that both share (Stein's identity), with the mean
of σ² over the pair. The ratio of the two sums is the part of the associations that is
kept.

**Regressions.** `coefficients_kept` takes one Newton step from the model's moments of
scores to those of the release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.answers.measurements import Measurements
from noisegate.models.tables.pairwise_fit import PairwiseFit

if TYPE_CHECKING:
    from jaxtyping import Float64

Floats = npt.NDArray[np.float64]

WEAKENED = 0.75
"""An association of which a smaller part is kept is weakened."""

# A level with a smaller share of the records has no score of its own.
_MIN_LEVEL_SHARE = 0.02
# Pairs without any association exceed the limit of chance in one of so many releases.
_CHANCE_RELEASES = 10
# Smaller coefficients do not count: their relative errors say little.
_MIN_COEFFICIENT = 0.1
# Is added to the squares of scores, so that none are collinear.
_RIDGE = 1e-3
# Keeps quotients finite.
_TINY = 1e-12


@dataclass(frozen=True, kw_only=True)
class Association:
    """How strongly two columns are associated in a release, and in the model of a fit.

    Strengths are squares, from 0 to 1: r² of ranks, or Cramér's V².

    Attributes:
        columns: The two columns.
        released: The strength in the release, unbiased, so that it may be negative.
        noise_std: Standard deviation of its noise.
        chance: What `released` exceeds by chance in one of ten releases of as many
            pairs, if no pair is associated.
        shared: The part of `released` that the model has, unbiased for a given model.
    """

    columns: tuple[int, int]
    released: float
    noise_std: float
    chance: float
    shared: float


@dataclass(frozen=True, kw_only=True)
class PairMoments:
    """Mean products of the scores of two columns.

    Attributes:
        columns: The two columns.
        released: In the release, (scores of the first, scores of the second).
        modelled: In the model of the fit, shaped alike.
        variance: Variance of the noise on those of the release, shaped alike.
    """

    columns: tuple[int, int]
    released: Floats
    modelled: Floats
    variance: Floats


@dataclass(frozen=True, kw_only=True)
class MeasuredMoments:
    """Moments of every pair of columns that a release has a table of.

    Attributes:
        by_rank: With scores of numbers by their ranks.
        by_value: With scores of numbers by their values.
    """

    by_rank: list[PairMoments]
    by_value: list[PairMoments]


def rank_or_level_scores(
    shares: Float64[Floats, " cells"], n_ordered: int
) -> Float64[Floats, "cells scores"]:
    """Computes scores of a column's cells, of mean 0 and variance 1 under its shares.

    Args:
        shares: Share of each cell.
        n_ordered: How many cells, the first ones, have an order.

    Returns:
        One score by rank for ordered cells, 0 for the others; else an orthonormal basis
        over the levels that are frequent enough, one less than these, 0 for the others.

    Examples:
        >>> import numpy as np
        >>> from noisegate.models.tables.associations import rank_or_level_scores
        >>> shares = np.array([0.2, 0.3, 0.5])
        >>> rank_or_level_scores(shares, 3).shape
        (3, 1)
        >>> scores = rank_or_level_scores(shares, 0)
        >>> np.allclose(scores.T @ (shares[:, None] * scores), np.eye(2))
        True
    """
    if n_ordered > 1:
        return _rank_scores(shares, n_ordered)
    return _level_scores(shares)


def _rank_scores(
    shares: Float64[Floats, " cells"], n_ordered: int
) -> Float64[Floats, "cells 1"]:
    """Computes a score by mean ranks; 0 for cells without an order."""
    ordered_shares = shares[:n_ordered]
    mean_ranks = np.cumsum(ordered_shares) - ordered_shares / 2
    centred = mean_ranks - ordered_shares @ mean_ranks / ordered_shares.sum()
    variance = float(ordered_shares @ centred**2)
    scores = np.zeros((len(shares), 1))
    scores[:n_ordered, 0] = centred / math.sqrt(max(variance, _TINY))
    return scores


def _level_scores(
    shares: Float64[Floats, " cells"],
) -> Float64[Floats, "cells scores"]:
    """Computes an orthonormal basis over frequent levels; 0 for the others."""
    levels = np.flatnonzero(shares >= _MIN_LEVEL_SHARE)
    scores = np.zeros((len(shares), max(len(levels) - 1, 0)))
    if len(levels) > 1:
        # Orthogonal to the constant score, whose weighted form is √shares.
        roots = np.sqrt(shares[levels])
        vectors = np.column_stack([roots, np.eye(len(levels))[:, :-1]])
        scores[levels] = np.linalg.qr(vectors)[0][:, 1:] / roots[:, None]
    return scores


def measured_moments(released: Measurements, fit: PairwiseFit) -> MeasuredMoments:
    """Computes the moments of every pair of columns that a table has.

    Args:
        released: The released tables.
        fit: A fit to them that has run.
    """
    column_of = {name: column for column, name in enumerate(fit.names)}
    columns = {column_of[name] for pair in released.pairs for name in pair}
    rank_scores = {
        column: rank_or_level_scores(fit.marginal((column,)), fit.n_ordered[column])
        for column in columns
    }
    value_scores = dict(rank_scores)
    for column in columns:
        if fit.n_ordered[column] > 1:
            value_scores[column] = fit.value_scores(column)

    n_records = float(fit.tables.class_counts.sum())
    moments = MeasuredMoments(by_rank=[], by_value=[])
    for names in released.pairs:
        first, second = (column_of[name] for name in names)
        if not (rank_scores[first].size and rank_scores[second].size):
            continue
        table = released.best(names)
        modelled_shares = fit.marginal((first, second))
        for kind, scores in (
            (moments.by_rank, rank_scores),
            (moments.by_value, value_scores),
        ):
            sums, variance = table.contract(
                {names[0]: scores[first], names[1]: scores[second]}
            )
            kind.append(
                PairMoments(
                    columns=(first, second),
                    released=sums / n_records,
                    modelled=scores[first].T @ modelled_shares @ scores[second],
                    variance=variance / n_records**2,
                )
            )
    return moments


def measured_associations(moments: Sequence[PairMoments]) -> list[Association]:
    """Estimates the association of each pair of columns, and what the model has of it.

    Args:
        moments: Moments of all pairs, by rank.
    """
    # One pair exceeds its chance with the probability exp(-chance_exponent).
    chance_exponent = math.log(_CHANCE_RELEASES * max(len(moments), 1))
    return [_association(pair, chance_exponent) for pair in moments]


def _association(pair: PairMoments, chance_exponent: float) -> Association:
    """Estimates the association of one pair of columns.

    Args:
        pair: Its moments.
        chance_exponent: The limit of chance is exceeded with the probability
            exp(-chance_exponent) if the columns are independent.
    """
    variance = pair.variance
    noise_std = math.sqrt(
        float((2 * variance**2 + 4 * variance * np.square(pair.modelled)).sum())
    )
    # Laurent and Massart (2000), lemma 1, of sums of squares of normal variables.
    chance = 2 * math.sqrt(
        chance_exponent * float(np.square(variance).sum())
    ) + 2 * chance_exponent * float(variance.max())
    # The model follows the noise, too: by the part f of what was released that it has,
    # and as f grows with that.
    sum_of_products = (pair.released * pair.modelled).sum()
    sum_of_squares = np.square(pair.released).sum()
    part = min(max(float(sum_of_products / max(sum_of_squares, _TINY)), 0.0), 1.0)
    strength = (np.square(pair.released) - variance).sum()
    shared = part * strength - 2 * part * (1 - part) * variance.mean()
    # The sum of squares is at most the number of scores of the smaller column.
    max_strength = min(pair.released.shape)
    return Association(
        columns=pair.columns,
        released=float(strength) / max_strength,
        noise_std=noise_std / max_strength,
        chance=chance / max_strength,
        shared=float(shared) / max_strength,
    )


def coefficients_kept(
    released: Float64[Floats, "scores scores"],
    modelled: Float64[Floats, "scores scores"],
    variance: Float64[Floats, "scores scores"],
    targets: Sequence[int],
    n_records: float,
) -> float | None:
    """Estimates the part of regression coefficients that the model keeps.

    It is one less their mean relative error, of at most 1 each. With the moments of
    scores that the model has, C, and those of the release, R, whose noise has the
    variances V, let a be a regression in the model: 1 for its target, and the other
    coefficients negated. One Newton step to the release is G (R - C) a, with the
    variances G² V a², where G is the inverse of C without the target. Model and release
    share their noise: so the larger of the step and of its noise is how far the model's
    coefficients are from the truth.

    Args:
        released: Moments of scores in the release, symmetric.
        modelled: Those in the model.
        variance: Variance of the noise on those of the release.
        targets: Indices of the scores that are explained, each by all others.
        n_records: How many records the release has.

    Returns:
        The part, from 0 to 1. None if the model has no coefficient of 0.1 or more.

    Examples:
        >>> import numpy as np
        >>> from noisegate.models.tables.associations import coefficients_kept
        >>> modelled = np.array([[1.0, 0.4], [0.4, 1.0]])
        >>> no_noise = np.zeros((2, 2))
        >>> round(coefficients_kept(modelled, modelled, no_noise, [0], 1e6), 2)
        1.0
        >>> noise = np.full((2, 2), 0.1)
        >>> round(coefficients_kept(modelled, modelled, noise, [0], 1e6), 2)
        0.42
        >>> independent = np.eye(2)
        >>> coefficients_kept(independent, independent, no_noise, [0], 1e6)
    """
    identity = np.eye(len(modelled))
    inverse = np.linalg.inv(modelled + _RIDGE * identity)
    diagonal = inverse.diagonal().copy()
    # A column for each regression: 1 for its target, and the other coefficients
    # negated.
    regressions = inverse / diagonal
    is_other = 1 - identity
    # The inverse without the target is that of all scores, less the part of the target.
    unprojected_step = inverse @ (is_other * ((released - modelled) @ regressions))
    step = unprojected_step - regressions * unprojected_step.diagonal()
    score_variance = is_other * (variance @ regressions**2)
    unprojected_variance = inverse**2 @ score_variance
    step_variance = (
        unprojected_variance
        - 2 * regressions * (inverse @ (inverse * score_variance))
        + regressions**2 * unprojected_variance.diagonal()
    )
    sampling_variance = (
        np.maximum(inverse.diagonal()[:, None] / diagonal - regressions**2, 0.0)
        / n_records
    )
    squared_errors = np.maximum(step**2, step_variance) + sampling_variance
    errors = np.sqrt(squared_errors)[:, targets]
    sizes = np.abs((is_other * regressions)[:, targets])
    is_large = sizes >= _MIN_COEFFICIENT
    if not is_large.any():
        return None
    return _mean_part_kept(sizes[is_large] / np.maximum(errors[is_large], _TINY))


def _mean_part_kept(ratios: Float64[Floats, " coefficients"]) -> float:
    """Computes 1 less the mean of min(|e| / b, 1) for normal errors e.

    Args:
        ratios: Each coefficient b over the standard deviation of its error.
    """
    above_one = np.array([math.erfc(ratio) for ratio in ratios / math.sqrt(2)])
    below_one = math.sqrt(2 / math.pi) * (1 - np.exp(-(ratios**2) / 2)) / ratios
    lost = below_one + above_one
    return float(1 - lost.mean())
