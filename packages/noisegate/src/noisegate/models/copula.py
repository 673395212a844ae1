"""How numbers go together within their cells: a Gaussian copula on top of a mixture.

A mixture says which cells of two numeric columns go together, and nothing of where in
these two values lie. Drawn independently there, they lose the part of a correlation
that lies within cells: most of it in the wide outer cells of long tails.

So each number gets a *normal score*, of which its cell is an interval: the cell between
the shares 0.2 and 0.4 of a column holds the scores between the normal quantiles of 0.2
and 0.4. The scores of two columns are correlated as strongly as their cells. They are
drawn given all cells of a record, and the values in a cell, whose distribution stays as
it is, take the order of the scores.

Everything is computed from the fitted mixture alone, so that it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from noisegate.seeds import uniform

if TYPE_CHECKING:
    import torch

Floats = npt.NDArray[np.float64]

_SWEEPS = 2  # of the Gibbs sampler over all columns
_MIN_CORRELATION = 0.1  # weaker ones are not followed
_MAX_CORRELATION = 0.95  # stronger ones are taken for this
# Estimated correlations may contradict each other: smaller eigenvalues of their matrix
# are raised to this, so that it can be inverted.
_MIN_EIGENVALUE = 0.03
# Matrices are rounded to multiples of this, so that a sample is the same on every
# processor, whatever the last bits of its linear algebra.
_GRID = 2.0**-20
_MAX_SCORE = 8.0  # normal scores are looked up from -8 to 8
_SCORE_INTERVALS = 2**13
_BELOW_ONE = 1 - 2.0**-53  # the largest float64 below 1
_TINY = 1e-300  # a divisor in place of 0, where the dividend is 0 too
# The same for sums of products, which rounding may leave above 0.
_MIN_DIVISOR = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class Copula:
    """Correlated normal scores for some numeric columns of a mixture."""

    columns: tuple[int, ...]  # the numeric columns that go together with any other
    # For each of these the shares below the ends of its cells, from 0 to 1,
    # (cells + 1,). The cell of missing values is left out.
    ends: tuple[Floats, ...]
    # Inverse of the matrix of correlations of their scores, (columns, columns).
    precision: Floats

    @classmethod
    def of_mixture(cls, weights: Floats, tables: Sequence[Floats]) -> Self | None:
        """Computes the copula that the cells of a mixture imply.

        Args:
            weights: Share of each component, (K,).
            tables: For each numeric column the probabilities of its cells but that of
                missing values, (K, cells).

        Returns:
            The copula, or None if no two columns are correlated strongly enough.
        """
        ends = [_cell_ends(weights, table) for table in tables]
        estimates = _correlations(weights, tables, ends)
        # Weak correlations are taken for none, and very strong ones for less strong.
        is_followed = np.abs(estimates) >= _MIN_CORRELATION
        limited = np.clip(estimates, -_MAX_CORRELATION, _MAX_CORRELATION)
        correlations = limited * is_followed
        np.fill_diagonal(correlations, 1.0)
        columns = np.flatnonzero((correlations != 0).sum(axis=1) > 1)
        if not len(columns):
            return None
        return cls(
            columns=tuple(columns.tolist()),
            ends=tuple(ends[column] for column in columns),
            precision=_inverse(correlations[np.ix_(columns, columns)]),
        )

    def draw(
        self, cells: Sequence[npt.NDArray[np.integer]], random: torch.Generator
    ) -> dict[int, Floats]:
        """Draws where in its cell each number lies, given the cells of its record.

        Scores are drawn by a Gibbs sampler of truncated normals (Geman and Geman,
        1984). It starts from scores that are independent within their cells.

        Args:
            cells: The cell of each record in each numeric column, (rows,) for each.
            random: Public randomness.

        Returns:
            For each of `columns` the part of its cell that lies below each record's
            score, in [0, 1), (rows,). A missing value has a number too.
        """
        low_shares = self._shares_at_ends(cells, upper=False)
        high_shares = self._shares_at_ends(cells, upper=True)
        cell_shares = high_shares - low_shares
        min_scores = normal_quantile(low_shares)
        max_scores = normal_quantile(high_shares)

        uniforms = uniform(random, low_shares.size).reshape(low_shares.shape)
        scores = normal_quantile(low_shares + uniforms * cell_shares)
        for _ in range(_SWEEPS):
            for index, precision in enumerate(np.diag(self.precision).tolist()):
                # Given all others a score is normal, with this mean and the variance
                # 1 / precision.
                mean = scores[index] - self.precision[index] @ scores / precision
                scores[index] = _draw_truncated_normal(
                    mean, precision, min_scores[index], max_scores[index], random
                )

        positions = (normal_cdf(scores) - low_shares) / np.maximum(cell_shares, _TINY)
        return dict(zip(self.columns, np.clip(positions, 0.0, _BELOW_ONE), strict=True))

    def _shares_at_ends(
        self, cells: Sequence[npt.NDArray[np.integer]], *, upper: bool
    ) -> Floats:
        """Returns the share below the lower or upper end of each cell, (columns, rows).

        A missing value may have any score: its cell is from 0 to 1.
        """
        end = 1 if upper else 0
        shares = []
        for column, ends in zip(self.columns, self.ends, strict=True):
            cell_count = len(ends) - 1
            is_present = cells[column] < cell_count
            present_cells = np.minimum(cells[column], cell_count - 1)
            shares.append(np.where(is_present, ends[present_cells + end], float(end)))
        return np.array(shares)


def _draw_truncated_normal(
    mean: Floats,
    precision: float,
    min_scores: Floats,
    max_scores: Floats,
    random: torch.Generator,
) -> Floats:
    """Draws normal scores that lie between bounds, by inverting the distribution.

    Args:
        mean: Mean of each score before truncation, (rows,).
        precision: Inverse of the variance before truncation.
        min_scores: Lower bounds, (rows,).
        max_scores: Upper bounds, (rows,).
        random: Public randomness.

    Returns:
        Scores, (rows,).
    """
    scale = math.sqrt(precision)
    below_min = normal_cdf((min_scores - mean) * scale)
    below_max = normal_cdf((max_scores - mean) * scale)
    below = below_min + uniform(random, len(mean)) * (below_max - below_min)
    scores = normal_quantile(below) / scale + mean
    # The table of quantiles may put a score just outside.
    return np.clip(scores, min_scores, max_scores)


def _cell_ends(weights: Floats, table: Floats) -> Floats:
    """Returns the share of a column's values below each end of a cell, (cells + 1,).

    Args:
        weights: Share of each component, (K,).
        table: Probabilities of the cells but that of missing values, (K, cells).
    """
    below = np.append(0.0, np.cumsum(weights @ table))
    return np.asarray(below / max(below[-1], _TINY))


def _correlations(
    weights: Floats, tables: Sequence[Floats], ends: Sequence[Floats]
) -> Floats:
    """Estimates the correlations of scores from the means of the scores in cells.

    Args:
        weights: Share of each component, (K,).
        tables: For each column the probabilities of its cells, (K, cells).
        ends: For each column the shares below the ends of its cells, (cells + 1,).

    Returns:
        Correlations, over records that have both values, (columns, columns).
    """
    mean_scores = np.array(
        [
            _mean_scores(table, ends_of_column)
            for table, ends_of_column in zip(tables, ends, strict=True)
        ]
    )
    present = np.array([table.sum(axis=1) for table in tables])
    both_present = (present * weights) @ present.T
    return np.asarray(
        (mean_scores * weights) @ mean_scores.T / np.maximum(both_present, _MIN_DIVISOR)
    )


def _mean_scores(table: Floats, ends: Floats) -> Floats:
    """Computes the mean score of each component, in units of its own scatter.

    Of a score only the mean of its cell is known here, which varies less than the score
    itself. Divided by its standard deviation it has variance 1, like the score, so that
    its correlations stand for those of the score.

    Args:
        table: Probabilities of the cells but that of missing values, (K, cells).
        ends: Shares below the ends of the cells, (cells + 1,).

    Returns:
        Means, (K,); a missing value counts as 0.
    """
    shares = np.diff(ends)
    density = np.exp(-(normal_quantile(ends) ** 2) / 2) / math.sqrt(2 * math.pi)
    # The mean of a normal distribution between a and b is its density at a less that
    # at b, over the probability between them.
    cell_means = np.divide(
        density[:-1] - density[1:],
        shares,
        out=np.zeros_like(shares),
        where=shares > 0,
    )
    deviation = math.sqrt(float(shares @ cell_means**2))
    return np.asarray(table @ cell_means / max(deviation, _MIN_DIVISOR))


def _inverse(correlations: Floats) -> Floats:
    """Inverts a matrix of correlations, whose small eigenvalues are raised before.

    Args:
        correlations: Symmetric, with ones on the diagonal, (columns, columns).

    Returns:
        The inverse, positive definite and on the grid, (columns, columns).
    """
    eigenvalues, eigenvectors = np.linalg.eigh(np.round(correlations / _GRID) * _GRID)
    raised = np.maximum(eigenvalues, _MIN_EIGENVALUE)
    precision = np.linalg.inv((eigenvectors * raised) @ eigenvectors.T)
    return np.asarray(np.round(precision / _GRID) * _GRID)


@cache
def _normal_table() -> tuple[Floats, Floats]:
    """Returns scores from -8 to 8, ascending, and the probability below each one."""
    scores = np.linspace(-_MAX_SCORE, _MAX_SCORE, _SCORE_INTERVALS + 1)
    probabilities = np.array(
        [math.erfc(-score / math.sqrt(2)) / 2 for score in scores.tolist()]
    )
    return scores, probabilities


def normal_cdf(scores: Floats) -> Floats:
    """Returns the probability below each score of a standard normal distribution.

    It is interpolated in a table, right to about 1e-6, so that sampling needs no SciPy.

    Examples:
        >>> import numpy as np
        >>> from noisegate.models.copula import normal_cdf, normal_quantile
        >>> normal_cdf(normal_quantile(np.array([0.25, 0.975]))).round(4).tolist()
        [0.25, 0.975]
    """
    table_scores, table_probabilities = _normal_table()
    return np.interp(scores, table_scores, table_probabilities)


def normal_quantile(probabilities: Floats) -> Floats:
    """Returns the score below which a normal value lies with each probability.

    Args:
        probabilities: From 0 to 1, of any shape.

    Returns:
        Scores from -8 to 8, of the same shape; the inverse of `normal_cdf`.
    """
    table_scores, table_probabilities = _normal_table()
    return np.interp(probabilities, table_probabilities, table_scores)
