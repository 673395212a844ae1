"""Metrics of image sets by bins and clusters: NDB, and precision and recall for distributions.

**NDB** is the number of statistically different bins. Real images are divided into K bins by k-means of their pixels. A
synthetic image belongs to the bin of the nearest centre. In each bin, a two-sided z-test of two proportions at level
0.05 compares the shares of the two sets. Two samples of one distribution differ in about 5% of the bins, and in more if
an image has many pixels. So compare the figure with that of two real sets. Richardson and Weiss (NeurIPS 2018),
https://arxiv.org/abs/1805.12462.

**Precision and recall for distributions** use clusters. Both sets together are divided into k clusters, and each set
becomes a histogram: P of the real images, Q of the synthetic ones. For each λ > 0, α(λ) = Σ min(λP, Q) is a precision,
and α(λ)/λ its recall. The scores are the largest F_{1/8} and the largest F_8 of this curve. Their names always contain
"prd", because `noisegate_evaluate.metrics.frechet` has another precision and recall. Sajjadi and others (NeurIPS 2018),
https://arxiv.org/abs/1806.00035.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

from noisegate.errors import DataError, OptionError
from noisegate.seeds import MOST_EVALUATION_SEED, check_seed
from noisegate_evaluate.metrics.result import MetricResult, check_features, metric

# The authors': K, and the level of the tests.
BINS = 100
LEVEL = 0.05
PER_BIN = 10
"""Real images that a bin has on average, at least: the test is that of many. Fewer images are cut into fewer bins."""
_STEPS = 100
# Pixels up to which all are used; of images with more a random sixth is, as in the authors' code.
_WIDE = 1000


@metric("ndb", "pixels")
@dataclass(frozen=True, kw_only=True)
class DifferentBins(MetricResult):
    """Number of bins whose share of synthetic images differs significantly from that of real images."""

    PRINTED: ClassVar = {"{name} / K": "{it.share:.3f} ({it.different} of {it.bins})"}
    JSON: ClassVar = {
        name: name for name in ("different", "bins", "divergence", "share")
    }
    different: int
    """NDB: number of bins with different shares."""
    bins: int
    """K: number of bins."""
    divergence: float
    """Jensen-Shannon divergence of the two histograms in nats, in [0, log 2]."""

    @classmethod
    def measured(
        cls, synthetic: np.ndarray, real: np.ndarray, *, seed: int, **_: Any
    ) -> DifferentBins | None:
        """Returns the figures with the number of bins of Richardson and Weiss (2018); with fewer for few images."""
        if len(real) < 2 * PER_BIN:
            return None
        return different_bins(synthetic, real, seed=seed)

    @property
    def share(self) -> float:
        """NDB/K, in [0, 1]."""
        return self.different / self.bins


def different_bins(
    synthetic: np.ndarray,
    real: np.ndarray,
    *,
    bins: int = BINS,
    level: float = LEVEL,
    seed: int = 0,
) -> DifferentBins:
    """Counts the bins whose share of synthetic rows differs significantly from their share of real rows (NDB).

    Args:
        synthetic: Intensities or other features, (rows, dim).
        real: Intensities or other features, (other rows, dim). The bins are clusters of them.
        bins: Number K of bins; a tenth of the real rows, if that is less.
        level: Level of each two-sided test.
        seed: Public seed of the clustering.

    Raises:
        OptionError: ``bins`` is below 2, or ``level`` is not between 0 and 1.
        DataError: the rows are not matrices of finite numbers with the same columns, or too few for two bins.
    """
    from scipy.special import rel_entr

    check_seed(seed, most=MOST_EVALUATION_SEED)
    if bins < 2 or not 0 < level < 1:
        raise OptionError(
            f"bins is {bins} and level is {level}; expected at least 2, and a level between 0 and 1"
        )
    check_features(synthetic, real, least=2)
    count = min(bins, len(real) // PER_BIN)
    if count < 2:
        raise DataError(
            f"{len(real)} real image(s) cannot be cut into bins of {PER_BIN}; this figure needs 20 or more"
        )
    synthetic_counts, real_counts = _counts(synthetic, real, count, seed)
    shares = np.stack([synthetic_counts / len(synthetic), real_counts / len(real)])
    is_different = np.abs(
        share_scores(synthetic_counts, real_counts)
    ) > NormalDist().inv_cdf(1 - level / 2)
    return DifferentBins(
        different=int(is_different.sum()),
        bins=count,
        divergence=float(rel_entr(shares, shares.mean(axis=0)).sum()) / 2,
    )


def share_scores(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns z of the two-proportion test on two counts, (bins,), with the pooled share; 0 for none or all of both."""
    first_total = int(first.sum())
    second_total = int(second.sum())
    pooled = (first + second) / (first_total + second_total)
    error = np.sqrt(pooled * (1 - pooled) * (1 / first_total + 1 / second_total))
    difference = first / first_total - second / second_total
    no_scores = np.zeros_like(difference)
    return np.asarray(np.divide(difference, error, out=no_scores, where=error > 0))


def _counts(
    synthetic: np.ndarray, real: np.ndarray, count: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns how many synthetic and how many real rows are in each bin of the real ones, (bins,) each."""
    from sklearn.cluster import KMeans

    width = real.shape[1]
    pixels = np.arange(width)
    if width > _WIDE:
        random = np.random.default_rng(seed)
        pixels = np.sort(random.choice(width, width // 6, replace=False))
    means = KMeans(count, n_init=1, max_iter=_STEPS, random_state=seed)
    real_bins = means.fit_predict(real[:, pixels].astype(np.float64))
    synthetic_bins = means.predict(synthetic[:, pixels].astype(np.float64))
    return np.bincount(synthetic_bins, minlength=count), np.bincount(
        real_bins, minlength=count
    )


# The authors': clusters, clusterings that are averaged, and the β of the two scores.
CLUSTERS = 20
RUNS = 10
BETA = 8.0
_ANGLES = 1001
# Away from the ends of the angles, and from 0 in quotients.
_TINY = 1e-10


@metric("prd")
@dataclass(frozen=True, kw_only=True)
class DistributionScores(MetricResult):
    """Precision and recall of the distribution of synthetic images, by clusters."""

    PRINTED: ClassVar = {
        "{name} precision": "{it.precision:.3f}",
        "{name} recall": "{it.recall:.3f}",
    }
    JSON: ClassVar = {
        "precision_f_1/8": "precision",
        "recall_f_8": "recall",
        "clusters": "clusters",
        "runs": "runs",
        "size": "size",
    }
    precision: float
    """The largest F_{1/8} of the precision-recall curve of the distributions, in [0, 1]."""
    recall: float
    """The largest F_8 of this curve, in [0, 1]."""
    clusters: int
    """k: number of clusters."""
    runs: int
    """Number of clusterings whose curves were averaged."""
    size: int
    """Number of images in each set."""

    @classmethod
    def measured(
        cls, synthetic: np.ndarray, real: np.ndarray, *, seed: int, **_: Any
    ) -> DistributionScores | None:
        """Returns the scores with the numbers of clusters and clusterings of Sajjadi and others (2018)."""
        if 2 * min(len(synthetic), len(real)) < CLUSTERS:
            return None
        return distribution_scores(synthetic, real, seed=seed)


def distribution_scores(
    synthetic: np.ndarray,
    real: np.ndarray,
    *,
    clusters: int = CLUSTERS,
    runs: int = RUNS,
    seed: int = 0,
) -> DistributionScores:
    """Computes precision and recall of the distribution of the synthetic features.

    Equal numbers of rows are drawn from both sets, as in the code of the paper.

    Args:
        synthetic: Features, (rows, dim).
        real: Features, (other rows, dim).
        clusters: Number k of clusters.
        runs: Number of clusterings, each from other starting points.
        seed: Public seed of the draw and of the starting points.

    Raises:
        OptionError: ``clusters`` is below 2 or ``runs`` below 1.
        DataError: the features are not matrices of finite numbers with the same columns, or fewer than clusters.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    if clusters < 2 or runs < 1:
        raise OptionError(
            f"clusters is {clusters} and runs is {runs}; expected at least 2 clusters and 1 run"
        )
    check_features(synthetic, real, least=2)
    size = min(len(synthetic), len(real))
    if 2 * size < clusters:
        raise DataError(
            f"two sets of {size} image(s) cannot be cut into {clusters} clusters; take more images"
        )
    random = np.random.default_rng(seed)
    synthetic, real = (
        rows[np.sort(random.choice(len(rows), size, replace=False))]
        for rows in (synthetic, real)
    )
    starts = random.integers(2**31, size=runs)
    curves = [
        prd_curve(*_histograms(synthetic, real, clusters, int(start)))
        for start in starts
    ]
    precisions, recalls = np.mean(curves, axis=0)

    def largest_score(beta: float) -> float:
        """Returns the largest F_β of the curve, 0 where precision and recall are."""
        divisors = beta**2 * precisions + recalls + _TINY
        return float(((1 + beta**2) * precisions * recalls / divisors).max())

    return DistributionScores(
        precision=largest_score(1 / BETA),
        recall=largest_score(BETA),
        clusters=clusters,
        runs=runs,
        size=size,
    )


def prd_curve(synthetic: np.ndarray, real: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns precisions and recalls of two histograms at angles arctan λ, (1001,) each (theorem 3)."""
    slopes = np.tan(np.linspace(_TINY, np.pi / 2 - _TINY, _ANGLES))
    precision = np.minimum(slopes[:, None] * real, synthetic).sum(axis=1)
    return np.clip(precision, 0, 1), np.clip(precision / slopes, 0, 1)


def _histograms(
    synthetic: np.ndarray, real: np.ndarray, clusters: int, start: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the share of either set in each cluster of both."""
    from sklearn.cluster import MiniBatchKMeans

    both = np.concatenate([synthetic, real]).astype(np.float64)
    both = both[np.random.default_rng(start).permutation(len(both))]
    means = MiniBatchKMeans(clusters, n_init=10, random_state=start).fit(both)
    synthetic_shares, real_shares = (
        np.bincount(means.predict(rows.astype(np.float64)), minlength=clusters)
        / len(rows)
        for rows in (synthetic, real)
    )
    return synthetic_shares, real_shares
