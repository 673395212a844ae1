"""Which associations and regressions a fit keeps of those that its release knows, and what it is blind to.

A column has scores of mean 0 and variance 1 over the records of the model: the ranks of cells in an order, or an
orthonormal basis over levels. The association of two columns is the matrix C = X' (T/n) Y of mean products of scores:
a rank correlation, or what the squares of Cramér's V sum. The noise on each of its numbers is known, so that the sum of
squares less their variances is unbiased, however much of it drowns in a single pair; and so is the sum of products with
the matrix of the model, whose ratio to it is the part of the associations that is kept.

What a fit keeps of associations, from the release alone:

A column has scores: the ranks of its cells, or an orthonormal basis over its levels, of
mean 0 and variance 1 in the model. The association of two columns is the matrix of mean
products of scores. The release gives each number with noise of known variance σ² and no
bias, so Σ c² − σ² over all pairs is an unbiased estimate of all association, however
much of it noise hides in single pairs. The part that the model has is estimated without
looking at a record: f · (Σ c² − σ²) − 2 f (1 − f) σ², where f is the part of the
observed that the model has, less what it owes to the noise that both share (Stein's
identity). An association is named where its strength is above .2 and larger than noise
makes any of so many pairs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from noisegate.answers.released import Floats, Table, best_table
from noisegate.models.tables.pairwise_fit import PairwiseFit

WEAKENED = 0.75
"""An association of which a smaller part is kept is weakened."""
# A level with a smaller share of the records has no score of its own.
_LEAST_SHARE = 0.02
_TINY = 1e-12
# Coefficients from here on count; what is added to squares of scores, so that none are collinear.
_LARGE, _RIDGE = 0.1, 1e-3


@dataclass(frozen=True, kw_only=True)
class Association:
    """What a release and a model say of two columns; squares of strengths from 0 to 1.

    Attributes:
        columns: Their numbers.
        released: By the release, unbiased, so that it may be negative.
        deviation: Standard deviation of the noise on that.
        chance: What `released` exceeds by chance in one of ten tables of as many pairs, where nothing goes together.
        shared: The part of `released` that the model has, unbiased where the model is given.
    """

    columns: tuple[int, int]
    released: float
    deviation: float
    chance: float
    shared: float


def scores(shares: Floats, ordered: int) -> Floats:
    """Returns scores of a column's cells, (cells, d): those in an order by rank, or a basis over levels.

    Examples:
        >>> import numpy as np
        >>> shares = np.array([0.2, 0.3, 0.5])
        >>> [x.shape[1] for x in (scores(shares, 3), scores(shares, 0))]
        [1, 2]
        >>> x = scores(shares, 0)
        >>> np.allclose(x.T @ (shares[:, None] * x), np.eye(2))
        True
    """
    if ordered > 1:
        inside = shares[:ordered]
        ranks = np.cumsum(inside) - inside / 2
        ranks = ranks - inside @ ranks / inside.sum()
        found = np.zeros((len(shares), 1))
        found[:ordered, 0] = ranks / math.sqrt(max(float(inside @ ranks**2), 1e-12))
        return found
    kept = np.flatnonzero(shares >= _LEAST_SHARE)
    roots = np.sqrt(shares[kept])
    found = np.zeros((len(shares), max(len(kept) - 1, 0)))
    if len(kept) > 1:
        found[kept] = (
            np.linalg.qr(np.column_stack([roots, np.eye(len(kept))[:, :-1]]))[0][:, 1:]
            / roots[:, None]
        )
    return found


@dataclass(frozen=True, kw_only=True)
class PairMoments:
    """Mean products of the scores of two columns, (scores of one, scores of the other).

    Attributes:
        columns: Their numbers.
        seen: By the release.
        made: Of the model.
        variance: Of the noise on those of the release.
    """

    columns: tuple[int, int]
    seen: Floats
    made: Floats
    variance: Floats


def measured_moments(
    tables: Sequence[Table], fitting: PairwiseFit
) -> tuple[list[PairMoments], list[PairMoments]]:
    """Returns those of every pair of columns that a table holds, by the ranks of numbers and by their values."""
    pairs = sorted(
        {pair for table in tables for pair in combinations(table.columns, 2)}
    )
    expected, ordered = fitting.expected, fitting.ordered
    columns = {column for pair in pairs for column in pair}
    ranks = {column: scores(expected((column,)), ordered[column]) for column in columns}
    values = ranks | {
        column: fitting.values(column) for column in columns if ordered[column] > 1
    }
    records, found = (
        float(fitting.tables.counts.sum()),
        (list[PairMoments](), list[PairMoments]()),
    )
    for pair in pairs:
        best, sizes = (
            best_table(tables, pair),
            tuple(len(ranks[column]) for column in pair),
        )
        if (
            best is None
            or not all(ranks[column].size for column in pair)
            or best[0].shape != sizes
        ):
            continue
        counts, std = best
        model = expected(pair)
        for each, kind in zip(found, (ranks, values), strict=True):
            left, right = (kind[column] for column in pair)
            seen, made = (left.T @ table @ right for table in (counts / records, model))
            variance = (std / records) ** 2 * np.outer(
                np.square(left).sum(axis=0), np.square(right).sum(axis=0)
            )
            each.append(
                PairMoments(columns=pair, seen=seen, made=made, variance=variance)
            )
    return found


def measured_associations(moments: Sequence[PairMoments]) -> list[Association]:
    """Returns the association of each pair of columns, with what the fit's model makes of it."""
    found, tail = [], math.log(10 * max(len(moments), 1))
    for one in moments:
        seen, made, variance, size = (
            one.seen,
            one.made,
            one.variance,
            min(one.seen.shape),
        )
        deviation = math.sqrt(
            float((2 * variance**2 + 4 * variance * np.square(made)).sum())
        )
        # Laurent and Massart (2000), lemma 1, of sums of squares of normal variables.
        chance = 2 * math.sqrt(
            tail * float(np.square(variance).sum())
        ) + 2 * tail * float(variance.max())
        # The model follows the noise, too: by the part f that it has of what was seen, and as f grows with that.
        part = min(
            max(float((seen * made).sum() / max(np.square(seen).sum(), _TINY)), 0.0),
            1.0,
        )
        shared = (
            part * (np.square(seen) - variance).sum()
            - 2 * part * (1 - part) * variance.mean()
        )
        found.append(
            Association(
                columns=one.columns,
                released=float((np.square(seen) - variance).sum()) / size,
                deviation=deviation / size,
                chance=chance / size,
                shared=float(shared) / size,
            )
        )
    return found


def coefficients_kept(
    seen: Floats, made: Floats, variance: Floats, targets: Sequence[int], records: float
) -> float | None:
    """Returns the expected part of coefficients that is kept: 1 less their mean relative error, of at most 1 each.

    With the moments of scores that the model has, C, and those of the release, R, with variances V of its noise, let a
    be a regression in the model: 1 for its target, and the other coefficients negated. One Newton step to the release
    is G (R - C) a, with the variances G² V a², where G is the inverse of C without the target. Model and release
    share their noise: the larger of the step and of its noise is how far the model's coefficients are from the truth.

    Args:
        seen: Moments of scores in the release, symmetric, (scores, scores).
        made: Those of the model.
        variance: Of the noise on those of the release.
        targets: Scores that are explained, each by all others.
        records: How many the release is of.

    Returns:
        The part, from 0 to 1; None where the model has no coefficient of 0.1 or more.

    Examples:
        >>> import numpy as np
        >>> made = np.array([[1.0, 0.4], [0.4, 1.0]])
        >>> exact = coefficients_kept(made, made, np.zeros((2, 2)), [0], 1e6)
        >>> noisy = coefficients_kept(made, made, np.full((2, 2), 0.1), [0], 1e6)
        >>> round(exact, 2), round(noisy, 2), coefficients_kept(np.eye(2), np.eye(2), np.zeros((2, 2)), [0], 1e6)
        (1.0, 0.42, None)
    """
    inverse = np.linalg.inv(made + _RIDGE * np.eye(len(made)))
    own = inverse.diagonal().copy()
    contrast = (
        inverse / own
    )  # a column for each regression: 1, and the other coefficients negated
    others = 1 - np.eye(len(made))
    pull = inverse @ (others * ((seen - made) @ contrast))
    step = pull - contrast * pull.diagonal()
    spread = others * (variance @ contrast**2)
    squared = inverse**2 @ spread
    noise = (
        squared
        - 2 * contrast * (inverse @ (inverse * spread))
        + contrast**2 * squared.diagonal()
    )
    sampling = (
        np.maximum(inverse.diagonal()[:, None] / own - contrast**2, 0.0) / records
    )
    error = np.sqrt(np.maximum(step**2, noise) + sampling)[:, targets]
    sizes = np.abs((others * contrast)[:, targets])
    if not (large := sizes >= _LARGE).any():
        return None
    # The mean of min(|e| / b, 1) for a normal e.
    ratio = sizes[large] / np.maximum(error[large], 1e-12)
    beyond = np.array([math.erfc(one) for one in ratio / math.sqrt(2)])
    lost = math.sqrt(2 / math.pi) * (1 - np.exp(-(ratio**2) / 2)) / ratio + beyond
    return float(1 - lost.mean())
