"""How numbers go together within their cells: a Gaussian copula with the correlations that the cells show.

A mixture says which cells go together, and nothing of where in them two values lie. Drawn independently there, they
lose what of a correlation lies within cells: most of it in the outer cells of long tails. So each number has a normal
score, its cell an interval of scores; two columns' scores correlate as the means of cells do, over the part of a
score's variance that these have. Scores are drawn given all cells, by sweeps of truncated normals (Geman and Geman
1984), and the values of a cell, whose distribution stays, take their order. Computed from a model alone, it costs no
privacy.
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

_SWEEPS = 2
# Of correlations of scores: smaller ones are not followed, larger ones taken for this.
_LEAST, _MOST = 0.1, 0.95
_RIDGE = 0.03  # the smallest eigenvalue of their matrix
_GRID = 2.0**-20  # what matrices are rounded to, so that a sample is the same on every processor
_FAR = 8.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Copula:
    """Normal scores of some columns of a model."""

    columns: tuple[int, ...]
    ends: tuple[Floats, ...]  # for each of these the share below each end of a cell, (cells + 1,); missing left out
    precision: Floats  # of their scores, (columns, columns)

    @classmethod
    def of(cls, weights: Floats, tables: Sequence[Floats]) -> Self | None:
        """Returns that of a mixture's numeric columns, or None where no two of them go together."""
        # `weights` are shares of components, (K,); `tables` for each numeric column the probabilities of its cells but
        # that of missing values, (K, cells).
        ends, means, present = [], [], np.array([table.sum(axis=1) for table in tables])
        for table in tables:
            below = np.append(0.0, np.cumsum(weights @ table))
            ends.append(below / max(below[-1], 1e-300))
            shares, density = np.diff(ends[-1]), np.exp(-(quantiles(ends[-1]) ** 2) / 2) / math.sqrt(2 * math.pi)
            mean = np.divide(density[:-1] - density[1:], shares, out=np.zeros_like(shares), where=shares > 0)
            means.append(table @ mean / max(math.sqrt(float(shares @ mean**2)), 1e-6))
        scores = np.array(means).reshape(-1, len(weights))
        found = (scores * weights) @ scores.T / np.maximum((present * weights) @ present.T, 1e-6)
        found = np.clip(found, -_MOST, _MOST) * (np.abs(found) >= _LEAST)
        np.fill_diagonal(found, 1.0)
        columns = np.flatnonzero((found != 0).sum(axis=1) > 1)
        if not len(columns):
            return None
        values, vectors = np.linalg.eigh(np.round(found[np.ix_(columns, columns)] / _GRID) * _GRID)
        precision = np.linalg.inv((vectors * np.maximum(values, _RIDGE)) @ vectors.T)
        return cls(
            columns=tuple(columns.tolist()),
            ends=tuple(ends[column] for column in columns),
            precision=np.round(precision / _GRID) * _GRID,
        )

    def draw(self, cells: Sequence[npt.NDArray[np.integer]], random: torch.Generator) -> dict[int, Floats]:
        """Returns for each of `columns` where in its cell each record's score lies, (rows,), from 0 to below 1."""
        rows = len(cells[0])
        held = [cells[column] < len(ends) - 1 for column, ends in zip(self.columns, self.ends, strict=True)]
        low, high = (
            np.array([np.where(there, ends[np.minimum(cells[column], len(ends) - 2) + side], float(side))
                      for column, ends, there in zip(self.columns, self.ends, held, strict=True)])
            for side in (0, 1)
        )  # fmt: skip
        least, most = quantiles(low), quantiles(high)
        scores = quantiles(low + uniform(random, low.size).reshape(low.shape) * (high - low))
        for _ in range(_SWEEPS):
            for at, own in enumerate(np.diag(self.precision).tolist()):
                mean = scores[at] - self.precision[at] @ scores / own
                first, last = (shares((end[at] - mean) * math.sqrt(own)) for end in (least, most))
                drawn = quantiles(first + uniform(random, rows) * (last - first)) / math.sqrt(own) + mean
                scores[at] = np.clip(drawn, least[at], most[at])
        within = (shares(scores) - low) / np.maximum(high - low, 1e-300)
        return dict(zip(self.columns, np.clip(within, 0.0, 1 - 2.0**-53), strict=True))


@cache
def _normal() -> tuple[Floats, Floats]:
    """Returns scores and the shares below them."""
    scores = np.linspace(-_FAR, _FAR, 2**13 + 1)
    return scores, np.array([math.erfc(-score / math.sqrt(2)) / 2 for score in scores.tolist()])


def shares(scores: Floats) -> Floats:
    """Returns the share of a normal distribution below each score, to about 1e-6.

    Examples:
        >>> import numpy as np
        >>> from noisegate.models.copula import quantiles, shares
        >>> shares(quantiles(np.array([0.25, 0.975]))).round(4).tolist()
        [0.25, 0.975]
    """
    at, below = _normal()
    return np.interp(scores, at, below)


def quantiles(shares: Floats) -> Floats:
    """Returns the score below which each share of a normal distribution lies, from -8 to 8."""
    at, below = _normal()
    return np.interp(shares, below, at)
