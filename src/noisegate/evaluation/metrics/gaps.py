"""How far consecutive children of one parent are apart in time, or in whatever number orders them."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class GapDistance:
    """Distances between consecutive children in two tables.

    Attributes:
        largest: the largest difference between the cumulative shares of gaps (Kolmogorov and Smirnov), in [0, 1].
        synthetic_median: of the synthetic gaps, as a share of the range between the bounds.
        real_median: of the real ones.
    """

    largest: float
    synthetic_median: float
    real_median: float

    def to_json(self) -> dict[str, float]:
        """The figures as JSON values."""
        return asdict(self)


def gap_distance(synthetic: np.ndarray, real: np.ndarray) -> GapDistance | None:
    """Compare two samples of gaps on the same scale; None where one of them is empty.

    Examples:
        >>> import numpy as np
        >>> gap_distance(np.array([0.1, 0.1, 0.3]), np.array([0.1, 0.3, 0.3])).largest
        0.3333333333333333
    """
    # Differences of positions that are equal as numbers of days must be equal here.
    ours, theirs = (np.sort(gaps[np.isfinite(gaps)].round(9)) for gaps in (synthetic, real))
    if not len(ours) or not len(theirs):
        return None
    at = np.concatenate([ours, theirs])
    shares = (np.searchsorted(gaps, at, side="right") / len(gaps) for gaps in (ours, theirs))
    return GapDistance(
        largest=float(np.abs(np.subtract(*shares)).max()),
        synthetic_median=float(np.median(ours)),
        real_median=float(np.median(theirs)),
    )
