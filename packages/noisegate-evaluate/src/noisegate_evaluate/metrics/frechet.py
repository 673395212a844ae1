"""The Fréchet distance between two sets of features, as if each were Gaussian: the "FID" in those of Inception-v3."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from noisegate_evaluate.metrics.result import MetricResult, check_features, metric


@metric("frechet")
@dataclass(frozen=True, kw_only=True)
class FrechetDistance(MetricResult):
    """The distance; see `frechet_distance`."""

    PRINTED: ClassVar = {"{name}": "{it.distance:.3f}"}
    distance: float

    @classmethod
    def measured(cls, synthetic: np.ndarray, real: np.ndarray, **_: Any) -> Self:
        """Returns the distance."""
        return cls(distance=frechet_distance(synthetic, real))

    def to_json(self) -> float:
        """Returns the distance."""
        return self.distance


def frechet_distance(synthetic: np.ndarray, real: np.ndarray) -> float:
    """Returns ‖m₁ − m₂‖² + tr(C₁ + C₂ − 2 (C₁C₂)^½), with means m and covariances C (Heusel et al., 2017, eq. 6).

    It is biased: two samples of the same distribution are apart, the more so the fewer they are. Compare figures of
    equal numbers of images only. Features are (rows, dim), (other rows, dim).

    Raises:
        DataError: the features are no matrices of finite numbers with the same columns and at least two rows each.

    Examples:
        >>> import numpy as np
        >>> from noisegate_evaluate import frechet_distance
        >>> rows = np.random.default_rng(0).normal(size=(50, 3))
        >>> round(frechet_distance(rows + 2, rows), 6)
        12.0
    """
    check_features(synthetic, real, least=2)
    exact = [rows.astype(np.float64) for rows in (synthetic, real)]
    first, second = ((rows.mean(axis=0), np.atleast_2d(np.cov(rows, rowvar=False))) for rows in exact)
    return moments_distance(first, second)


def moments_distance(first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]) -> float:
    """Returns the same between moments: mean, (dim,), and covariance, (dim, dim), of either set."""
    # tr (C₁C₂)^½ is the sum of the square roots of the eigenvalues of C₁^½ C₂ C₁^½. Unlike the root of C₁C₂ itself,
    # which is not symmetric, that needs no more images than features and is never complex.
    values, vectors = np.linalg.eigh(first[1])
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    shared = np.linalg.eigvalsh(root @ second[1] @ root)
    between = float(np.square(first[0] - second[0]).sum())
    spread = float(np.trace(first[1]) + np.trace(second[1]))
    # Rounding can leave a distance of 0 a little below it.
    return max(between + spread - 2 * float(np.sqrt(np.maximum(shared, 0)).sum()), 0.0)
