"""The unbiased squared MMD under (xᵀy / dim + 1)³, KID: Bińkowski and others (ICLR 2018), arxiv.org/abs/1801.01401."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noisegate.errors import OptionError
from noisegate.seeds import MOST_EVALUATION_SEED, check_seed
from noisegate_evaluate.metrics.result import MetricResult, check_features, metric


@metric("kid")
@dataclass(frozen=True, kw_only=True)
class KernelDistance(MetricResult):
    """The mean over subsets."""

    mean: float
    """Of the squared discrepancies."""
    deviation: float | None
    """Over the subsets, with n - 1; None for one. They overlap: it is no standard error of the mean."""
    subsets: int
    """How many."""
    size: int
    """Images of either set in each."""

    @classmethod
    def measured(cls, synthetic: np.ndarray, real: np.ndarray, *, seed: int, **_: Any) -> KernelDistance:
        """Returns the distance on 100 subsets of 1,000."""
        return kernel_distance(synthetic, real, seed=seed)

    def page(self, name: str) -> dict[str, str]:
        """Returns the mean and its deviation."""
        return {name: f"{self.mean:.4f}" + ("" if self.deviation is None else f" ± {self.deviation:.4f}")}


def kernel_distance(
    synthetic: np.ndarray, real: np.ndarray, *, subsets: int = 100, size: int = 1000, seed: int = 0
) -> KernelDistance:
    """Returns the distance on random subsets of equal size, drawn without replacement.

    Features are (rows, dim), (other rows, dim). There are so many ``subsets``, one where a subset is all there is, of
    ``size`` images of either set, at most as many as the smaller set has; ``seed`` is of the draw, and public.

    Raises:
        OptionError: ``subsets`` is below 1 or ``size`` below 2.
        DataError: the features are no matrices of finite numbers with the same columns and at least two rows each.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    if subsets < 1 or size < 2:
        raise OptionError(f"subsets is {subsets} and size is {size}; expected at least 1 subset of at least 2 images")
    check_features(synthetic, real, least=2)
    size = min(size, len(synthetic), len(real))
    subsets = 1 if size == len(synthetic) == len(real) else subsets
    random = np.random.default_rng(seed)
    values = [
        discrepancy(*(rows[random.choice(len(rows), size, replace=False)] for rows in (synthetic, real)))
        for _ in range(subsets)
    ]
    deviation = float(np.std(values, ddof=1)) if subsets > 1 else None
    return KernelDistance(mean=float(np.mean(values)), deviation=deviation, subsets=subsets, size=size)


def discrepancy(first: np.ndarray, second: np.ndarray) -> float:
    """The unbiased squared discrepancy of all rows: no row is paired with itself (Gretton et al., 2012, eq. 3)."""
    first, second = first.astype(np.float64), second.astype(np.float64)

    def kernel(ours: np.ndarray, theirs: np.ndarray) -> Any:
        return (ours @ theirs.T / ours.shape[1] + 1) ** 3

    own = [(len(rows), kernel(rows, rows)) for rows in (first, second)]
    within = sum((each.sum() - np.trace(each)) / (n * (n - 1)) for n, each in own)
    return float(within - 2 * kernel(first, second).mean())
