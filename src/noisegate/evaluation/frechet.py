"""The Fréchet distance between two sets of features, as if each were Gaussian.

With Inception-v3 as the features it is the "FID" (Heusel et al., NeurIPS 2017). With any other features it is another
figure, so a distance is only ever named together with its features: ``frechet(inception-v3)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisegate.evaluation.feature_rows import check_features


def frechet_name(features: str) -> str:
    """Name the distance in some features: the name of the features is always in it.

    Args:
        features: the name that the features have, see :class:`~noisegate.evaluation.image_features.ImageFeatures`.
    """
    return f"frechet({features})"


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """What the distance needs of a set of features.

    Attributes:
        mean: float64, (dim,).
        covariance: float64, (dim, dim), with n - 1 in the denominator as in the published code.
    """

    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray) -> Moments:
        """Measure the mean and the covariance.

        Args:
            features: one row per image, at least two.

        Raises:
            DataError: the features are no matrix of finite numbers with two rows.
        """
        check_features(features, least=2)
        exact = features.astype(np.float64)
        return cls(mean=exact.mean(axis=0), covariance=np.atleast_2d(np.cov(exact, rowvar=False)))


def frechet_distance(synthetic: np.ndarray, real: np.ndarray) -> float:
    """Measure ‖m₁ − m₂‖² + tr(C₁ + C₂ − 2 (C₁C₂)^½), with means m and covariances C (Heusel et al. 2017, eq. 6).

    It is biased: two samples of the same distribution are apart, the more so the fewer they are. Compare figures of
    equal numbers of images only, and read them beside the distance of two real sets.

    Args:
        synthetic: features, (rows, dim).
        real: features of the same dim, (other rows, dim).

    Returns:
        The squared distance, as it is usually printed; 0 for equal moments.

    Raises:
        DataError: the features are no matrices of finite numbers with the same columns and at least two rows each.
    """
    check_features(synthetic, real, least=2)
    return moments_distance(Moments.of(synthetic), Moments.of(real))


def moments_distance(first: Moments, second: Moments) -> float:
    """Measure the same between moments.

    Args:
        first: of one set.
        second: of another, with the same dim.
    """
    # tr (C₁C₂)^½ is the sum of the square roots of the eigenvalues of C₁^½ C₂ C₁^½. Unlike the root of C₁C₂ itself,
    # which is not symmetric, that needs no more images than features and is never complex.
    root = _root(first.covariance)
    shared = np.linalg.eigvalsh(root @ second.covariance @ root)
    between = float(np.square(first.mean - second.mean).sum())
    spread = float(np.trace(first.covariance) + np.trace(second.covariance))
    # Rounding can leave a distance of 0 a little below it.
    return max(between + spread - 2 * float(np.sqrt(np.maximum(shared, 0)).sum()), 0.0)


def _root(covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    root: np.ndarray = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return root
