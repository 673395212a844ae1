"""Precision and recall for distributions, by clusters: Sajjadi and others (NeurIPS 2018), arxiv.org/abs/1806.00035."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from noisegate.errors import DataError, OptionError
from noisegate.seeds import MOST_EVALUATION_SEED, check_seed
from noisegate_evaluate.metrics.result import MetricResult, check_features, metric

CLUSTERS, RUNS, BETA = 20, 10, 8.0  # the authors': clusters, clusterings that are averaged, and the β of the two scores

_ANGLES = 1001
_TINY = 1e-10  # away from the ends of the angles, and from 0 in quotients


@metric("prd")
@dataclass(frozen=True, kw_only=True)
class DistributionScores(MetricResult):
    """What stands for the curve."""

    PRINTED: ClassVar = {"{name} precision": "{it.precision:.3f}", "{name} recall": "{it.recall:.3f}"}
    precision: float
    """The largest F_{1/8} of the curve, in [0, 1]."""
    recall: float
    """The largest F_8, in [0, 1]."""
    clusters: int
    """K."""
    runs: int
    """Clusterings whose curves were averaged."""
    size: int
    """Images of either set."""

    @classmethod
    def measured(cls, synthetic: np.ndarray, real: np.ndarray, *, seed: int, **_: Any) -> DistributionScores | None:
        """Returns the scores by the authors' numbers of clusters and clusterings."""
        enough = 2 * min(len(synthetic), len(real)) >= CLUSTERS
        return distribution_scores(synthetic, real, seed=seed) if enough else None

    def to_json(self) -> dict[str, object]:
        """Returns the figures as JSON values; each score under the name that says what it is."""
        figures = asdict(self)
        return {"precision_f_1/8": figures.pop("precision"), "recall_f_8": figures.pop("recall"), **figures}


def distribution_scores(
    synthetic: np.ndarray, real: np.ndarray, *, clusters: int = CLUSTERS, runs: int = RUNS, seed: int = 0
) -> DistributionScores:
    """Returns precision and recall of the distribution of the synthetic features.

    Features are (rows, dim), (other rows, dim), of which equal numbers are drawn, as in the authors' code. ``clusters``
    is k, and ``runs`` are clusterings, each from other starts; ``seed`` is of the draw and of the starts, and public.

    Raises:
        OptionError: ``clusters`` is below 2 or ``runs`` below 1.
        DataError: the features are no matrices of finite numbers with the same columns, or fewer than clusters.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    if clusters < 2 or runs < 1:
        raise OptionError(f"clusters is {clusters} and runs is {runs}; expected at least 2 clusters and 1 run")
    check_features(synthetic, real, least=2)
    size = min(len(synthetic), len(real))
    if 2 * size < clusters:
        raise DataError(f"two sets of {size} image(s) cannot be cut into {clusters} clusters; take more images")
    random = np.random.default_rng(seed)
    ours, theirs = (rows[np.sort(random.choice(len(rows), size, replace=False))] for rows in (synthetic, real))
    starts = random.integers(2**31, size=runs)
    curves = [prd_curve(*_histograms(ours, theirs, clusters, int(start))) for start in starts]
    precision, recall = np.mean(curves, axis=0)
    # The largest F_β of the pairs, 0 where both are.
    best = {
        name: float(((1 + beta**2) * precision * recall / (beta**2 * precision + recall + _TINY)).max())
        for name, beta in (("precision", 1 / BETA), ("recall", BETA))
    }
    return DistributionScores(**best, clusters=clusters, runs=runs, size=size)


def prd_curve(synthetic: np.ndarray, real: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns precisions and recalls of two histograms at angles arctan λ, (1001,) each (theorem 3)."""
    slopes = np.tan(np.linspace(_TINY, np.pi / 2 - _TINY, _ANGLES))
    precision = np.minimum(slopes[:, None] * real, synthetic).sum(axis=1)
    return np.clip(precision, 0, 1), np.clip(precision / slopes, 0, 1)


def _histograms(synthetic: np.ndarray, real: np.ndarray, clusters: int, start: int) -> tuple[np.ndarray, np.ndarray]:
    """The share of either set in each cluster of both."""
    from sklearn.cluster import MiniBatchKMeans

    both = np.concatenate([synthetic, real]).astype(np.float64)
    both = both[np.random.default_rng(start).permutation(len(both))]
    means = MiniBatchKMeans(clusters, n_init=10, random_state=start).fit(both)
    found = [np.bincount(means.predict(rows.astype(np.float64)), minlength=clusters) for rows in (synthetic, real)]
    return found[0] / len(synthetic), found[1] / len(real)
