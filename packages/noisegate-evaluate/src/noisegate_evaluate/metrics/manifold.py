"""Precision and recall by balls around rows, and density and coverage: do synthetic images lie among the real ones?

Kynkäänniemi and others (NeurIPS 2019), https://arxiv.org/abs/1904.06991; Naeem and others (ICML 2020),
https://arxiv.org/abs/2002.09797.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from noisegate.errors import OptionError
from noisegate_evaluate.metrics.result import MetricResult, check_features, metric

NEIGHBOURS = 5

_ROWS_AT_ONCE = 1000
# Of the squared length of a centred row: what float64 may lose in ‖a‖² + ‖b‖² − 2ab. A point on the edge is inside.
_ROUNDING = 1e-12


@metric("manifold")
@dataclass(frozen=True, kw_only=True)
class Manifold(MetricResult):
    """The four figures: precision, recall and coverage in [0, 1], density 0 or more; and the number k of neighbours."""

    PRINTED: ClassVar = {name: f"{{it.{name}:.3f}}" for name in ("precision", "recall", "density", "coverage")}
    precision: float
    recall: float
    density: float
    coverage: float
    neighbours: int

    @classmethod
    def measured(cls, synthetic: np.ndarray, real: np.ndarray, **_: Any) -> Manifold | None:
        """Returns the figures of five neighbours."""
        return manifold_figures(synthetic, real) if min(len(synthetic), len(real)) > NEIGHBOURS else None

    @classmethod
    def named(cls, features: str) -> str:
        """Returns "manifold": it has its own figures' names, and the report those of the features."""
        return cls.METRIC


def manifold_figures(synthetic: np.ndarray, real: np.ndarray, *, neighbours: int = NEIGHBOURS) -> Manifold:
    """Returns precision, recall, density and coverage.

    All four depend on how many rows there are: compare figures of equal numbers only. Features are (rows, dim), (other
    rows, dim); ``neighbours`` is k, 5 in both papers' code. Time grows with the square of the rows; memory does not.

    Raises:
        OptionError: ``neighbours`` is below 1.
        DataError: the features are no matrices of finite numbers with the same columns and more than k rows each.
    """
    from sklearn.metrics.pairwise import euclidean_distances
    from sklearn.utils import gen_batches

    if isinstance(neighbours, bool) or not isinstance(neighbours, int) or neighbours < 1:
        raise OptionError(f"neighbours is {neighbours!r}; expected a whole number, at least 1")
    check_features(synthetic, real, least=neighbours + 1)
    # Distances do not change, and rounding is smallest around the mean.
    centre = real.astype(np.float64).mean(axis=0)
    ours, theirs = synthetic.astype(np.float64) - centre, real.astype(np.float64) - centre
    our_balls, their_balls = (_balls(rows, neighbours) for rows in (ours, theirs))
    inside_theirs = np.zeros(len(ours), dtype=np.int64)
    inside_ours = np.zeros(len(theirs), dtype=np.int64)
    visited = np.zeros(len(theirs), dtype=bool)
    for part in gen_batches(len(ours), _ROWS_AT_ONCE):
        apart = euclidean_distances(ours[part], theirs, squared=True)
        within = apart <= their_balls
        inside_theirs[part] = within.sum(axis=1)
        visited |= within.any(axis=0)
        inside_ours += (apart <= our_balls[part, None]).sum(axis=0)
    return Manifold(
        precision=float((inside_theirs > 0).mean()),
        recall=float((inside_ours > 0).mean()),
        density=float(inside_theirs.mean()) / neighbours,
        coverage=float(visited.mean()),
        neighbours=neighbours,
    )


def _balls(rows: np.ndarray, neighbours: int) -> np.ndarray:
    """Squared distance of each row to its k-th nearest neighbour, which is not itself; rounded up."""
    from sklearn.neighbors import NearestNeighbors

    nearest = NearestNeighbors(n_neighbors=neighbours, algorithm="brute").fit(rows).kneighbors()[0]
    return np.asarray(np.square(nearest[:, -1]) + _ROUNDING * float(np.square(rows).sum(axis=1).max()))
