"""Distances between two sets of features: Fréchet and kernel distance, and precision and recall.

- The Fréchet distance treats each set as Gaussian. In features of Inception-v3 it is the "FID".
- The kernel distance ("KID") is the squared maximum mean discrepancy under (xᵀy / dim + 1)³, unbiased. It can be used
  with few images, and may be slightly below 0. Bińkowski and others (ICLR 2018), https://arxiv.org/abs/1801.01401.
- Precision, recall, density and coverage compare the regions of the two sets. A set is described by a ball around each
  row, whose radius is the distance to the k-th nearest neighbour in the same set. Precision is the share of synthetic
  images inside any ball of a real image; recall is the share of real images inside any ball of a synthetic image:
  Kynkäänniemi and others (NeurIPS 2019), https://arxiv.org/abs/1904.06991. Density is the average number of balls of
  real images around a synthetic image, divided by k; coverage is the share of real images whose ball contains a
  synthetic image: Naeem and others (ICML 2020), https://arxiv.org/abs/2002.09797.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from noisegate.errors import OptionError
from noisegate.seeds import MOST_EVALUATION_SEED, check_seed
from noisegate_evaluate.metrics.result import MetricResult, check_features, metric


@metric("frechet")
@dataclass(frozen=True, kw_only=True)
class FrechetDistance(MetricResult):
    """The distance; see `frechet_distance`."""

    PRINTED: ClassVar = {"{name}": "{it.distance:.3f}"}
    JSON: ClassVar = "distance"
    distance: float

    @classmethod
    def measured(cls, synthetic: np.ndarray, real: np.ndarray, **_: Any) -> Self:
        """Returns the distance."""
        return cls(distance=frechet_distance(synthetic, real))


def frechet_distance(synthetic: np.ndarray, real: np.ndarray) -> float:
    """Computes ‖m₁ − m₂‖² + tr(C₁ + C₂ − 2 (C₁C₂)^½), with means m and covariances C (Heusel et al., 2017, eq. 6).

    The estimate is biased: it is positive for two samples of the same distribution, and larger for smaller samples.
    Compare only figures of equal numbers of images.

    Args:
        synthetic: Features, (rows, dim).
        real: Features, (other rows, dim).

    Raises:
        DataError: the features are not matrices of finite numbers with the same columns and at least two rows each.

    Examples:
        >>> import numpy as np
        >>> from noisegate_evaluate import frechet_distance
        >>> rows = np.random.default_rng(0).normal(size=(50, 3))
        >>> round(frechet_distance(rows + 2, rows), 6)
        12.0
    """
    check_features(synthetic, real, least=2)
    exact = [rows.astype(np.float64) for rows in (synthetic, real)]
    first, second = (
        (rows.mean(axis=0), np.atleast_2d(np.cov(rows, rowvar=False))) for rows in exact
    )
    return moments_distance(first, second)


def moments_distance(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]
) -> float:
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


@metric("kid")
@dataclass(frozen=True, kw_only=True)
class KernelDistance(MetricResult):
    """The kernel distance (KID): an average over random subsets of images."""

    PRINTED: ClassVar = {"{name}": "{it.mean:.4f}{it.deviation_text}"}
    mean: float
    """Average squared maximum mean discrepancy of the subsets."""
    deviation: float | None
    """Standard deviation over the subsets, with n - 1; None for one subset. It is not a standard error of the mean,
    because the subsets overlap.
    """
    subsets: int
    """Number of subsets."""
    size: int
    """Number of images of each set in a subset."""

    @classmethod
    def measured(
        cls, synthetic: np.ndarray, real: np.ndarray, *, seed: int, **_: Any
    ) -> KernelDistance:
        """Returns the distance with 100 subsets of 1,000 images."""
        return kernel_distance(synthetic, real, seed=seed)

    @property
    def deviation_text(self) -> str:
        """The standard deviation as text, printed after the mean; "" for one subset."""
        return "" if self.deviation is None else f" ± {self.deviation:.4f}"


def kernel_distance(
    synthetic: np.ndarray,
    real: np.ndarray,
    *,
    subsets: int = 100,
    size: int = 1000,
    seed: int = 0,
) -> KernelDistance:
    """Computes the kernel distance (KID) on random subsets of equal size, drawn without replacement.

    Args:
        synthetic: Features, (rows, dim).
        real: Features, (other rows, dim).
        subsets: Number of subsets; one, if a subset is the complete set.
        size: Number of images of each set in a subset, at most the size of the smaller set.
        seed: Public seed of the draw.

    Raises:
        OptionError: ``subsets`` is below 1 or ``size`` below 2.
        DataError: the features are not matrices of finite numbers with the same columns and at least two rows each.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    if subsets < 1 or size < 2:
        raise OptionError(
            f"subsets is {subsets} and size is {size}; expected at least 1 subset of at least 2 images"
        )
    check_features(synthetic, real, least=2)
    size = min(size, len(synthetic), len(real))
    subsets = 1 if size == len(synthetic) == len(real) else subsets
    random = np.random.default_rng(seed)
    values = [
        discrepancy(
            *(
                rows[random.choice(len(rows), size, replace=False)]
                for rows in (synthetic, real)
            )
        )
        for _ in range(subsets)
    ]
    deviation = float(np.std(values, ddof=1)) if subsets > 1 else None
    return KernelDistance(
        mean=float(np.mean(values)), deviation=deviation, subsets=subsets, size=size
    )


def discrepancy(first: np.ndarray, second: np.ndarray) -> float:
    """The unbiased squared discrepancy of all rows: no row is paired with itself (Gretton et al., 2012, eq. 3)."""
    from sklearn.metrics.pairwise import polynomial_kernel

    means = []
    for rows in (first, second):
        kernel = polynomial_kernel(rows.astype(np.float64))
        means.append((kernel.sum() - np.trace(kernel)) / (len(rows) * (len(rows) - 1)))
    between = polynomial_kernel(first.astype(np.float64), second.astype(np.float64))
    return float(sum(means) - 2 * between.mean())


NEIGHBOURS = 5

_ROWS_AT_ONCE = 1000
# Of the squared length of a centred row: what float64 may lose in ‖a‖² + ‖b‖² − 2ab. A point on the edge is inside.
_ROUNDING = 1e-12


@metric("manifold")
@dataclass(frozen=True, kw_only=True)
class Manifold(MetricResult):
    """Precision, recall and coverage, in [0, 1], and density, 0 or more, for k nearest neighbours."""

    PRINTED: ClassVar = {
        name: f"{{it.{name}:.3f}}"
        for name in ("precision", "recall", "density", "coverage")
    }
    NAMES_FIGURES: ClassVar = True
    precision: float
    recall: float
    density: float
    coverage: float
    neighbours: int

    @classmethod
    def measured(
        cls, synthetic: np.ndarray, real: np.ndarray, **_: Any
    ) -> Manifold | None:
        """Returns the figures for five neighbours."""
        if min(len(synthetic), len(real)) <= NEIGHBOURS:
            return None
        return manifold_figures(synthetic, real)


def manifold_figures(
    synthetic: np.ndarray, real: np.ndarray, *, neighbours: int = NEIGHBOURS
) -> Manifold:
    """Computes precision, recall, density and coverage.

    All four depend on the number of rows: compare only figures of equal numbers. Time grows with the square of the
    number of rows; memory does not.

    Args:
        synthetic: Features, (rows, dim).
        real: Features, (other rows, dim).
        neighbours: Number k of nearest neighbours; 5 in the code of Kynkäänniemi and others (2019) and of Naeem and
            others (2020).

    Raises:
        OptionError: ``neighbours`` is below 1.
        DataError: the features are not matrices of finite numbers with the same columns and more than k rows each.
    """
    from sklearn.metrics.pairwise import euclidean_distances
    from sklearn.utils import gen_batches

    if (
        isinstance(neighbours, bool)
        or not isinstance(neighbours, int)
        or neighbours < 1
    ):
        raise OptionError(
            f"neighbours is {neighbours!r}; expected a whole number, at least 1"
        )
    check_features(synthetic, real, least=neighbours + 1)
    # Distances do not change, and rounding is smallest around the mean.
    centre = real.astype(np.float64).mean(axis=0)
    synthetic = synthetic.astype(np.float64) - centre
    real = real.astype(np.float64) - centre
    synthetic_balls = _balls(synthetic, neighbours)
    real_balls = _balls(real, neighbours)
    # In how many balls of the other set each row is, and whether each real row's ball has a synthetic one in it.
    real_balls_around = np.zeros(len(synthetic), dtype=np.int64)
    synthetic_balls_around = np.zeros(len(real), dtype=np.int64)
    is_covered = np.zeros(len(real), dtype=bool)
    for part in gen_batches(len(synthetic), _ROWS_AT_ONCE):
        squares = euclidean_distances(synthetic[part], real, squared=True)
        is_inside = squares <= real_balls
        real_balls_around[part] = is_inside.sum(axis=1)
        is_covered |= is_inside.any(axis=0)
        synthetic_balls_around += (squares <= synthetic_balls[part, None]).sum(axis=0)
    return Manifold(
        precision=float((real_balls_around > 0).mean()),
        recall=float((synthetic_balls_around > 0).mean()),
        density=float(real_balls_around.mean()) / neighbours,
        coverage=float(is_covered.mean()),
        neighbours=neighbours,
    )


def _balls(rows: np.ndarray, neighbours: int) -> np.ndarray:
    """Squared distance of each row to its k-th nearest neighbour, which is not itself; rounded up."""
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=neighbours, algorithm="brute").fit(rows)
    distances, _ = search.kneighbors()
    longest_square = float(np.square(rows).sum(axis=1).max())
    return np.asarray(np.square(distances[:, -1]) + _ROUNDING * longest_square)
