"""How much a fit keeps of the associations and regressions of its release.

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

**Verdicts.** An association is named if it is strong and exceeds what noise makes of so
many pairs. A pair is *not known* if even an association of 1 would not exceed that,
and counts as not kept. A number and another column are *too close to be distinguished*
if the copy cannot show how they differ: with r² of means of cells, if ::

    1 - r² of the model + variance within cells + noise on r²  >  2 (1 - r² of release)

where the noise is its standard deviation. How a number and levels go together within
cells is not known, so that the variance within cells is taken off their 1 - r². Two
examples. Of 15,000 admissions and discharges in three years, 8 days apart on average,
a copy at ε = 3 makes 23 days, whatever the ward, while a column of the days keeps all
three wards to a tenth. The longitudes of two towns spread three to ten times as far
inside each, as the cell between them takes the ends of both. Such a copy is usable at
best.

Coefficients of regressions are expected by ranks and by values, and the lower part
counts: at ε = 1 the towns' fit kept .93 by ranks, .39 to .84 by values, and .05 to .17
in truth. On 13 tables with 8,000 records at ε 1 and 10, values change what is expected
by .03 at most, upwards on `diamonds` and `randhie`, where ranks decide, and no word but
one of `diamonds`, from rough to usable as is found. What did not help: a cut where an
empty run of fine cells begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.answers.findings import Answer, VerdictFinding
from noisegate.answers.measurements import Measurements
from noisegate.answers.verdict import (
    KEPT_SCALE,
    WORDS,
    Verdict,
    Word,
    in_percent,
    of_coefficients,
    word_of_kept,
)
from noisegate.models.tables.mixture_fit import PairwiseFit, UnresolvedCell

if TYPE_CHECKING:
    from jaxtyping import Float64

    from noisegate.answers.noisy_table import NoisyTable

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
# A named association has at least this strength, a correlation or Cramér's V.
_MIN_NAMED_STRENGTH = 0.2
# All associations together stand out if they exceed so many standard deviations of
# their noise.
_CLEAR_STDS = 3.0
# Of the total of unclear associations, an upper bound of about 98 % is taken.
_UPPER_BOUND_STDS = 2
# With a larger share of pairs that are not known, a fit is rough at best; with any, it
# is usable at best.
_MAX_UNKNOWN_SHARE = 0.25
# Associations that may be hidden do not matter up to this strength, as the root of the
# mean square.
_HARMLESS_STRENGTH = 0.1
# Of two close columns, one leaves less than this part of the variance of the other.
_MAX_CLOSE_VARIANCE = 0.2
# Texts name so many of a list at most.
_MAX_NAMED = 5
# Regressions on more scores take too long.
_MAX_SCORES = 2000
# The expected part of coefficients is that much too low at times: evaluations of twelve
# tables found some .1 more of a small part.
_COEFFICIENT_DOUBT = 0.1


@dataclass(frozen=True, kw_only=True)
class Association:
    """How strongly two columns are associated in a release, and in the model of a fit.

    Strengths are squares, from 0 to 1: r² of ranks, or Cramér's V².

    Attributes:
        columns: The two columns.
        released: The strength in the release, Σ C² of the true moments C of the scores,
            estimated without bias, so that it may be negative.
        noise_std: Standard deviation of its noise.
        chance: What `released` exceeds by chance in one of ten releases of as many
            pairs, if no pair is associated.
        shared: The part of it that the model has, Σ C M with the moments M of the
            model, estimated without the noise that M took over from the release.
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
    """Computes a score by mean ranks; 0 for cells without an order.

    The mean rank of a cell is the share of the cells below and half of its own. It is
    centred over the ordered cells, and scaled to variance 1 over all cells, of which
    those without an order add nothing.

    Args:
        shares: Share of each cell.
        n_ordered: How many cells, the first ones, have an order; 2 or more.
    """
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
    """Computes an orthonormal basis over frequent levels; 0 for the others.

    With q the shares of the levels that have at least `_MIN_LEVEL_SHARE`, the scores Z
    satisfy Zᵀ diag(q) Z = 1 and qᵀ Z = 0: √q times them are orthonormal vectors, also
    to √q, from a QR decomposition.

    Args:
        shares: Share of each level.

    Returns:
        One score less than there are such levels, and none if there is one at most.
    """
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

    With scores X and Y of two columns, T their table of n records and P the shares of
    its cells in the model, they are Xᵀ T Y / n in the release and Xᵀ P Y in the model.
    Scores are by the shares of the model, so that both are on one scale. Pairs are left
    out of which a column has no score.

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
        table = released.least_noisy(names)
        modelled_shares = fit.marginal((first, second))
        for kind, scores in (
            (moments.by_rank, rank_scores),
            (moments.by_value, value_scores),
        ):
            kind.append(
                _pair_moments(
                    table,
                    modelled_shares,
                    columns=(first, second),
                    scores=(scores[first], scores[second]),
                    n_records=n_records,
                )
            )
    return moments


def _pair_moments(
    table: NoisyTable,
    modelled_shares: Floats,
    *,
    columns: tuple[int, int],
    scores: tuple[Floats, Floats],
    n_records: float,
) -> PairMoments:
    """Computes the mean products of the scores of two columns.

    Args:
        table: The released counts of both columns.
        modelled_shares: Shares of the same cells in the model.
        columns: The columns.
        scores: Scores of the cells of each, (cells, scores).
        n_records: Number of records.
    """
    sums, variance = table.contract(dict(zip(table.domain.names, scores, strict=True)))
    return PairMoments(
        columns=columns,
        released=sums / n_records,
        modelled=scores[0].T @ modelled_shares @ scores[1],
        variance=variance / n_records**2,
    )


def missing_moments(released: Measurements, fit: PairwiseFit) -> list[PairMoments]:
    """Computes the moments of values being missing, of every pair that a table has.

    A column has one score then: the indicator of a missing value, less its share in the
    model and over its standard deviation, so that moments are correlations. Columns are
    left out of which too few records, or nearly all, lack a value.

    Args:
        released: The released tables.
        fit: A fit to them that has run.
    """
    scores: dict[int, Floats] = {}
    for column, name in enumerate(fit.names):
        if None not in released.domain.by_name[name]:
            continue
        cell = released.domain.position(name, None)
        shares = fit.marginal((column,))
        missing_share = float(shares[cell])
        if _MIN_LEVEL_SHARE <= missing_share <= 1 - _MIN_LEVEL_SHARE:
            indicator = np.zeros((len(shares), 1))
            indicator[cell] = 1
            variance = missing_share * (1 - missing_share)
            scores[column] = (indicator - missing_share) / math.sqrt(variance)

    column_of = {name: column for column, name in enumerate(fit.names)}
    n_records = float(fit.tables.class_counts.sum())
    moments = []
    for names in released.pairs:
        first, second = (column_of[name] for name in names)
        if first in scores and second in scores:
            moments.append(
                _pair_moments(
                    released.least_noisy(names),
                    fit.marginal((first, second)),
                    columns=(first, second),
                    scores=(scores[first], scores[second]),
                    n_records=n_records,
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

    The moments R that were released are C + noise, with C the true moments of the
    scores and independent normal noise of variances V; M are the moments of the model.
    All are matrices, (scores of the first column, scores of the second). ::

        strength   Σ (R² - V), an unbiased estimate of Σ C²
        noise      (R² - V) has the variance 2 V² + 4 V C²; M takes the place of C,
                   which is not known
        shared     an estimate of Σ C M, see `_shared_strength`

    Sums of squares are divided by their largest possible value, the number of scores of
    the smaller column, so that strengths are from 0 to 1.

    Args:
        pair: Its moments.
        chance_exponent: The limit of chance is exceeded with the probability
            exp(-chance_exponent) at most if the columns are independent.
    """
    variance = pair.variance
    strength = float((np.square(pair.released) - variance).sum())
    noise_std = math.sqrt(
        float((2 * variance**2 + 4 * variance * np.square(pair.modelled)).sum())
    )
    max_strength = min(pair.released.shape)
    return Association(
        columns=pair.columns,
        released=strength / max_strength,
        noise_std=noise_std / max_strength,
        chance=_chance_limit(variance, chance_exponent) / max_strength,
        shared=_shared_strength(pair, strength) / max_strength,
    )


def _chance_limit(
    variance: Float64[Floats, "first_scores second_scores"], chance_exponent: float
) -> float:
    """Computes a limit that Σ (R² - V) hardly exceeds if R is nothing but noise.

    With z standard normal it is Σ V (z² - 1), which exceeds 2 √(x Σ V²) + 2 x max V
    with the probability exp(-x) at most (Laurent and Massart, 2000, lemma 1).

    Args:
        variance: Variances V of the noise on released moments.
        chance_exponent: The exponent x.
    """
    return 2 * math.sqrt(
        chance_exponent * float(np.square(variance).sum())
    ) + 2 * chance_exponent * float(variance.max())


def _shared_strength(pair: PairMoments, strength: float) -> float:
    """Estimates Σ C M, what true moments C and those of the model M have in common.

    Released moments R = C + noise are known and C is not. But M was fitted to R, so
    that Σ R M also holds noise that both have. Stein's identity says how much::

        E[Σ C M] = E[Σ R M - Σ V ∂M/∂R]

    The model is taken as a shrinkage of R, M = f R with f = Σ R² / (Σ R² + c) for some
    constant c. Then f = Σ R M / Σ R², and ∂M/∂R = f + 2 f (1 - f) R² / Σ R². So ::

        Σ R M - Σ V ∂M/∂R = f Σ (R² - V) - 2 f (1 - f) Σ V R² / Σ R²

    The last quotient is the mean of V weighted by R². V is nearly the same for all
    scores of a pair, and the plain mean takes its place: it has less noise.

    Args:
        pair: R, M and V.
        strength: Σ (R² - V).
    """
    sum_of_products = (pair.released * pair.modelled).sum()
    sum_of_squares = np.square(pair.released).sum()
    part = min(max(float(sum_of_products / max(sum_of_squares, _TINY)), 0.0), 1.0)
    return float(part * strength - 2 * part * (1 - part) * pair.variance.mean())


@dataclass(frozen=True, kw_only=True)
class _Regressions:
    """The regressions of each score on all others, for given moments of scores.

    All are done at once, each in a column of a matrix. With P the inverse of the
    moments C and t the score that is explained, the target, ::

        a = P_·t / P_tt         r = 1 / P_tt         G = P - a P_t·

    are the coefficients, the variance that the regression leaves, and the inverse of C
    without the row and the column of the target.

    Attributes:
        inverse: P, symmetric.
        coefficients: a, in the column of its target: 1 for the target itself, and the
            coefficients of the others negated.
    """

    inverse: Float64[Floats, "scores scores"]
    coefficients: Float64[Floats, "scores scores"]

    @classmethod
    def of_moments(cls, moments: Float64[Floats, "scores scores"]) -> _Regressions:
        """Computes the regressions, with `_RIDGE` so that no scores are collinear."""
        ridge = _RIDGE * np.eye(len(moments))
        inverse = np.asarray(np.linalg.inv(moments + ridge), dtype=np.float64)
        return cls(inverse=inverse, coefficients=inverse / inverse.diagonal())

    def solve(
        self, right_sides: Float64[Floats, "scores scores"]
    ) -> Float64[Floats, "scores scores"]:
        """Computes G y for the right side y of each target.

        With y_t taken as 0, G y = P y - a (P y)_t.
        """
        products = self.inverse @ _without_targets(right_sides)
        return products - self.coefficients * products.diagonal()

    def solved_variance(
        self, variance: Float64[Floats, "scores scores"]
    ) -> Float64[Floats, "scores scores"]:
        """Computes the variance of G y, if the elements of y have independent noise.

        With v the variances of y, and v_t taken as 0, that of the element i is ::

            Σ_j (P_ij - a_i P_tj)² v_j
                = Σ_j P_ij² v_j  -  2 a_i Σ_j P_ij P_tj v_j  +  a_i² Σ_j P_tj² v_j
        """
        others = _without_targets(variance)
        of_products = self.inverse**2 @ others
        covariance_with_target = self.inverse @ (self.inverse * others)
        return np.asarray(
            of_products
            - 2 * self.coefficients * covariance_with_target
            + self.coefficients**2 * of_products.diagonal()
        )

    def sampling_variance(self, n_records: float) -> Float64[Floats, "scores scores"]:
        """Computes the variance G_ii r / n of each coefficient over samples.

        As P_ti = a_i P_tt, it is (P_ii / P_tt - a_i²) / n.
        """
        diagonal = self.inverse.diagonal()
        ratios = diagonal[:, None] / diagonal
        return np.maximum(ratios - self.coefficients**2, 0.0) / n_records


def _without_targets(
    values: Float64[Floats, "scores scores"],
) -> Float64[Floats, "scores scores"]:
    """Returns values with 0 for the target of each column."""
    return values * (1 - np.eye(len(values)))


def coefficients_kept(
    released: Float64[Floats, "scores scores"],
    modelled: Float64[Floats, "scores scores"],
    variance: Float64[Floats, "scores scores"],
    targets: Sequence[int],
    n_records: float,
) -> float | None:
    """Estimates the part of regression coefficients that the model keeps.

    It is 1 less the mean of their relative errors, each of 1 at most. Let a be a
    regression in the model, with moments C of scores. The release has moments R, with
    independent noise of variances V. One step of Newton's method towards the regression
    in the release is G (R - C) a, in the terms of `_Regressions`, and its noise has the
    variance that V a² gives it, squares element by element. That R is symmetric, so
    that two elements of (R - C) a may share noise, is left out.

    The model was fitted to the noise too. So the step does not show what of it the
    model took over, and a small step may be luck: the error of a coefficient is taken
    as the larger of the step and its noise. That of sampling is independent, and its
    variance is added.

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

        Noise of the standard deviation √0.1 is nearly as large as the coefficient, 0.4:

        >>> noise = np.full((2, 2), 0.1)
        >>> round(coefficients_kept(modelled, modelled, noise, [0], 1e6), 2)
        0.42
        >>> independent = np.eye(2)
        >>> coefficients_kept(independent, independent, no_noise, [0], 1e6)
    """
    regressions = _Regressions.of_moments(modelled)
    step = regressions.solve((released - modelled) @ regressions.coefficients)
    step_variance = regressions.solved_variance(variance @ regressions.coefficients**2)
    squared_errors = np.maximum(step**2, step_variance)
    squared_errors += regressions.sampling_variance(n_records)
    errors = np.sqrt(squared_errors)[:, targets]
    sizes = np.abs(_without_targets(regressions.coefficients)[:, targets])
    is_large = sizes >= _MIN_COEFFICIENT
    if not is_large.any():
        return None
    return _mean_part_kept(sizes[is_large] / np.maximum(errors[is_large], _TINY))


def _mean_part_kept(ratios: Float64[Floats, " coefficients"]) -> float:
    """Computes 1 less the mean relative error of coefficients, each of 1 at most.

    The error e of a coefficient of size b is normal, of mean 0, and r is the ratio of b
    to its standard deviation. The mean of min(|e| / b, 1) is that of |e| / b over
    errors below b, √(2 / π) (1 - exp(-r² / 2)) / r, and the probability of larger ones,
    which count as 1, erfc(r / √2).

    Args:
        ratios: The ratio r of each coefficient, positive.
    """
    from_small_errors = math.sqrt(2 / math.pi) * (1 - np.exp(-(ratios**2) / 2)) / ratios
    from_large_errors = np.array([math.erfc(ratio) for ratio in ratios / math.sqrt(2)])
    relative_errors = from_small_errors + from_large_errors
    return float(1 - relative_errors.mean())


def fit_verdicts(fit: PairwiseFit) -> Iterator[Verdict]:
    """Yields what a fit loses of associations, and which columns lie in one cell.

    Args:
        fit: A fit that has run.
    """
    if len(fit.names) > 1:
        moments = measured_moments(fit.released, fit)
        associations = measured_associations(moments.by_rank)
        verdict = _verdict_on_associations(fit, associations)
        yield verdict
        if "associations_kept" in verdict.figures:
            yield from _verdict_on_regressions(fit, moments)
        yield from _verdict_on_close_columns(fit, moments.by_value)
        yield from _verdict_on_missing(fit)
    for cell in fit.unresolved_cells():
        yield _verdict_on_cell(cell)


def _verdict_on_cell(cell: UnresolvedCell) -> Verdict:
    """Says that most records of a numeric column lie in one fine cell."""
    name = cell.column.name
    reason = (
        f"{in_percent(cell.share)} of records have {name!r} between {cell.low:g} and "
        f"{cell.high:g}: nothing finer was measured"
    )
    cure = f"bounds of {name!r} that are nearer to its values"
    finding = VerdictFinding(
        question="means and tails",
        answer="lost",
        detail=f"one cell has {in_percent(cell.share)} of {name!r}",
    )
    return Verdict(
        word="rough",
        source="fit",
        reasons=(reason,),
        cures=(cure,),
        findings=(finding,),
    )


def _verdict_on_regressions(
    fit: PairwiseFit, moments: MeasuredMoments
) -> Iterator[Verdict]:
    """Yields what is expected of the coefficients of regressions of numbers, if known.

    Coefficients are expected twice, of regressions by rank and by value, and the
    smaller part counts: an analyst runs them by value, and values that lie in two far
    groups look well kept by rank while little of their variance within a group is.

    A regression needs the moments of all pairs. By rank and by value, the pairs are the
    same and only the scores differ: so both are known or neither is. Regressions on
    more than `_MAX_SCORES` scores are not expected either.

    Args:
        fit: The fit.
        moments: Moments of the pairs that are measured.
    """
    n_scores = _scores_of_columns(fit, moments.by_rank)
    n_columns = np.count_nonzero(n_scores)
    is_complete = len(moments.by_rank) >= math.comb(n_columns, 2)
    if not is_complete or sum(n_scores) > _MAX_SCORES:
        return
    by_kind = [
        _coefficients_kept(fit, pairs, n_scores)
        for pairs in (moments.by_rank, moments.by_value)
    ]
    parts_kept = [part for part in by_kind if part is not None]
    if parts_kept:
        yield of_coefficients(min(parts_kept), "fit", doubt=_COEFFICIENT_DOUBT)


def _scores_of_columns(fit: PairwiseFit, moments: Sequence[PairMoments]) -> list[int]:
    """Returns the number of scores of each column; 0 for columns without moments."""
    n_scores = [0] * len(fit.names)
    for pair in moments:
        for column, count in zip(pair.columns, pair.released.shape, strict=True):
            n_scores[column] = count
    return n_scores


def _coefficients_kept(
    fit: PairwiseFit, moments: Sequence[PairMoments], n_scores: Sequence[int]
) -> float | None:
    """Estimates which part is kept of the coefficients of all regressions of numbers.

    The part is 1 less their mean relative error, see `coefficients_kept`. The moments
    of the pairs become blocks of one matrix over all scores, the identity within each
    column, since the scores of a column are orthonormal. Each number is explained by
    all other columns once: a number has one score, by its rank or its value.

    Args:
        fit: The fit.
        moments: Moments of all pairs of columns that have scores.
        n_scores: Number of scores of each column.

    Returns:
        The part; None if no coefficient is large enough to count.
    """
    offsets = np.cumsum([0, *n_scores]).tolist()
    slices = [slice(start, stop) for start, stop in pairwise(offsets)]
    size = offsets[-1]
    released = np.eye(size)
    modelled = np.eye(size)
    variance = np.zeros((size, size))
    for pair in moments:
        first, second = (slices[column] for column in pair.columns)
        for matrix, block in (
            (released, pair.released),
            (modelled, pair.modelled),
            (variance, pair.variance),
        ):
            matrix[first, second] = block
            matrix[second, first] = block.T
    targets = [
        offsets[column]
        for column, n_ordered in enumerate(fit.n_ordered)
        if n_ordered > 1 and n_scores[column]
    ]
    n_records = float(fit.tables.class_counts.sum())
    return coefficients_kept(released, modelled, variance, targets, n_records)


def _verdict_on_missing(fit: PairwiseFit) -> Iterator[Verdict]:
    """Yields whether values stay missing together, where they are in the release.

    No word rests on it: words were chosen without. Pairs that are too noisy to show
    even values that are always missing together are not known.

    Args:
        fit: The fit.
    """
    associations = measured_associations(missing_moments(fit.released, fit))
    if not associations:
        return
    n_unknown = sum(association.chance >= 1 for association in associations)
    answer: Answer
    if n_unknown / len(associations) > _MAX_UNKNOWN_SHARE:
        answer = "not known"
        detail = f"{n_unknown:,} of {len(associations):,} pairs too noisy"
    elif _is_total_clear(associations):
        part_kept = _part_kept(associations)
        answer = KEPT_SCALE.answer(part_kept)
        detail = f"{part_kept:.0%} kept of what the release shows"
    elif _may_hide_associations(associations):
        answer = "not known"
        detail = "too noisy to know whether they are"
    else:
        answer = "kept"
        detail = "they are independent of each other in the release"
    finding = VerdictFinding(
        question="values missing together", answer=answer, detail=detail
    )
    yield Verdict(word=None, source="fit", reasons=(), findings=(finding,))


def _verdict_on_close_columns(
    fit: PairwiseFit, moments: Sequence[PairMoments]
) -> Iterator[Verdict]:
    """Yields the pairs of columns that are too close to be distinguished, if any.

    Args:
        fit: The fit.
        moments: Moments by values.
    """
    close_pairs = [
        " and ".join(repr(fit.names[column]) for column in pair.columns)
        for pair in moments
        if _is_too_close(fit, pair)
    ]
    if not close_pairs:
        return
    n_more = len(close_pairs) - _MAX_NAMED
    more = f"; and {n_more} more pairs" if n_more > 0 else ""
    reason = (
        "the difference of these nearly equal columns is wrong in this copy: "
        f"{'; '.join(close_pairs[:_MAX_NAMED])}{more}"
    )
    cure = "a column of the difference, in place of one of the two columns"
    yield Verdict(
        word="usable",
        source="fit",
        reasons=(reason,),
        cures=(cure,),
        figures={"too_close": close_pairs},
        findings=(_on_pairs("weakened", f"too close: {_listed(close_pairs)}"),),
    )


def _is_too_close(fit: PairwiseFit, pair: PairMoments) -> bool:
    """Returns whether a number and another column cannot be distinguished.

    How they differ is the variance of the number that the other column leaves, 1 - r²,
    with r² the sum of squared moments, released without bias. The copy blurs that by
    1 - r² of the model, the variance within cells and the standard deviation of the
    noise on r². They cannot be distinguished if 1 - r² is less than half of the blur,
    and it is below `_MAX_CLOSE_VARIANCE` with its noise. If the other column has
    levels, the variance within cells is taken off 1 - r² first: nothing says how a
    number and levels go together inside a cell, and two numbers go by their order.

    Args:
        fit: The fit.
        pair: Moments of the columns, by values.
    """
    unexplained = 1 - float((np.square(pair.released) - pair.variance).sum())
    noise_variance = 4 * np.square(pair.released) * pair.variance + 2 * pair.variance**2
    noise_std = math.sqrt(float(noise_variance.sum()))
    numbers = [column for column in pair.columns if fit.n_ordered[column] > 1]
    if not numbers or unexplained + noise_std >= _MAX_CLOSE_VARIANCE:
        return False
    within_cells = [fit.variance_within_cells(column) for column in numbers]
    unexplained_by_model = 1 - float(np.square(pair.modelled).sum())
    unknown = within_cells[0] if len(numbers) == 1 else 0.0
    blurred = unexplained_by_model + sum(within_cells) + noise_std
    return unexplained - unknown < blurred / 2


def _verdict_on_associations(
    fit: PairwiseFit, associations: Sequence[Association]
) -> Verdict:
    """Says how much of all associations is kept, and which are weakened or missing.

    Strong associations are those above `_MIN_NAMED_STRENGTH` and above what noise makes
    of so many pairs; they are named. What is kept is judged by all associations where
    their total exceed the noise, and otherwise by the strong ones. If there are
    none of these either, associations may still hide: the word is "rough" then. Pairs
    that were not measured lower the word.

    Args:
        fit: The fit.
        associations: Associations of all measured pairs.
    """
    n_measured = len(fit.released.pairs)
    n_missing = math.comb(len(fit.names), 2) - n_measured
    figures: dict[str, object] = {
        "pairs_measured": n_measured,
        "pairs_not_measured": n_missing,
    }
    findings: list[VerdictFinding] = []
    reasons: list[str] = []
    word: Word | None = None

    strong = [
        association
        for association in associations
        if association.released > max(_MIN_NAMED_STRENGTH**2, association.chance)
    ]
    strong.sort(key=lambda association: -association.released)
    clear = associations if _is_total_clear(associations) else strong
    if clear:
        part_kept = _part_kept(clear)
        word = word_of_kept(part_kept)
        figures["associations_kept"] = part_kept
        detail = f"{part_kept:.0%} of clear associations kept"
        findings.append(_on_pairs(KEPT_SCALE.answer(part_kept), detail))
        reasons.append(f"{part_kept:.0%} of the clear associations are kept")
    elif associations and _may_hide_associations(associations):
        word = "rough"
        reasons.append(
            "associations between columns cannot be distinguished from noise: "
            "rely on single columns only"
        )
        detail = "associations cannot be distinguished from noise"
        findings.append(_on_pairs("not known", detail))

    unknown = [
        _pair_name(fit, association)
        for association in associations
        if association.chance >= 1
    ]
    if unknown:
        word = _word_of_unknown(word, len(unknown) / len(associations))
        figures["pairs_not_known"] = len(unknown)
        findings.append(_on_unknown_pairs(len(unknown), len(associations)))
        reasons.append(
            f"too noisy to show any association, so not known: {_listed(unknown)}"
        )
    parts_kept = {
        _pair_name(fit, association): association.shared / association.released
        for association in strong
    }
    figures["associations"] = parts_kept
    for reason in _reason_of_weakened(parts_kept):
        reasons.append(reason)
        findings.append(_on_pairs("weakened", reason))
    if n_missing:
        word = _word_of_missing_pairs(word, was_screened=fit.design.screens_pairs)
        n_pairs = n_missing + n_measured
        reasons.append(
            f"{n_missing:,} of {n_pairs:,} pairs of columns were not measured: "
            "independent in this copy, except for what the others imply"
        )
        # Pairs that a look at all has chosen are those that stand out.
        answer: Answer = "weakened" if fit.design.screens_pairs else "lost"
        detail = f"{n_missing:,} of {n_pairs:,} not measured"
        findings.append(_on_pairs(answer, detail))
    return Verdict(
        # Single columns are right even if no association is.
        word="rough" if word == "noise" else word,
        source="fit",
        reasons=tuple(reasons),
        figures=figures,
        findings=tuple(findings),
    )


def _on_pairs(answer: Answer, detail: str) -> VerdictFinding:
    """Returns a finding on pairs of columns."""
    return VerdictFinding(question="pairs of columns", answer=answer, detail=detail)


def _on_unknown_pairs(n_unknown: int, n_pairs: int) -> VerdictFinding:
    """Returns a finding on pairs of which some are too noisy to be known.

    Their share decides as it does for the word.
    """
    is_many = n_unknown / n_pairs > _MAX_UNKNOWN_SHARE
    answer: Answer = "not known" if is_many else "weakened"
    return _on_pairs(answer, f"{n_unknown:,} of {n_pairs:,} too noisy to be known")


def _is_total_clear(associations: Sequence[Association]) -> bool:
    """Returns whether all associations together stand out and are not harmless."""
    if not associations:
        return False
    total = sum(association.released for association in associations)
    noise_std = _noise_on_total(associations)
    harmless = len(associations) * _HARMLESS_STRENGTH**2
    return total > max(_CLEAR_STDS * noise_std, harmless)


def _may_hide_associations(associations: Sequence[Association]) -> bool:
    """Returns whether associations may be there unseen that are not harmless."""
    total = sum(association.released for association in associations)
    bound = total + _UPPER_BOUND_STDS * _noise_on_total(associations)
    return math.sqrt(max(bound, 0) / len(associations)) > _HARMLESS_STRENGTH


def _noise_on_total(associations: Sequence[Association]) -> float:
    """Returns the standard deviation of the noise on the sum of associations."""
    return math.sqrt(sum(association.noise_std**2 for association in associations))


def _part_kept(associations: Sequence[Association]) -> float:
    """Returns the part of associations that the model has, from 0 to 1."""
    shared = sum(association.shared for association in associations)
    released = sum(association.released for association in associations)
    return min(max(shared / released, 0.0), 1.0)


def _reason_of_weakened(parts_kept: Mapping[str, float]) -> Iterator[str]:
    """Yields a reason that names the weakened associations, if there are any.

    Args:
        parts_kept: Part of each strong association that is kept, by its name.
    """
    weakened = [name for name, part in parts_kept.items() if part < WEAKENED]
    if weakened:
        yield f"weakened: {_listed(weakened)}"


def _pair_name(fit: PairwiseFit, association: Association) -> str:
    """Returns the names of the two columns of an association."""
    return " × ".join(fit.names[column] for column in association.columns)


def _listed(names: Sequence[str]) -> str:
    """Lists names, the first ones of many, and says how many more there are."""
    n_more = len(names) - _MAX_NAMED
    more = f" and {n_more} more" if n_more > 0 else ""
    return f"{', '.join(names[:_MAX_NAMED])}{more}"


def _word_of_unknown(word: Word | None, unknown_share: float) -> Word:
    """Returns the word of a fit of which some pairs are not known.

    Args:
        word: The word so far; None where nothing is known of associations.
        unknown_share: Share of the measured pairs that are not known, above 0.
    """
    most: Word = "rough" if unknown_share > _MAX_UNKNOWN_SHARE else "usable"
    return most if word is None else min(word, most, key=WORDS.index)


def _word_of_missing_pairs(word: Word | None, *, was_screened: bool) -> Word | None:
    """Returns the word of a fit that has not all pairs, from that without this.

    Args:
        word: The word so far.
        was_screened: Whether the pairs that stand out were chosen from a look at all,
            in which some are lost.
    """
    if not was_screened:
        return "rough"
    if word == "good":
        return "usable"
    return word
