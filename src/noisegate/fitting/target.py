"""A release, read as what a generator must match: class-wise mean embeddings, their noise, and label shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisegate.privacy.release import Release


@dataclass(frozen=True, kw_only=True)
class Target:
    """Noisy class-wise mean embeddings.

    Attributes:
        means: For each block of features, (classes, dim).
        noise_std: For each block, the standard deviation of the noise on each coordinate of a class's mean, (classes,).
        weights: Estimated share of each class, non-negative, summing to 1.
        records: Estimated number of records, at least 1.
    """

    means: Mapping[str, npt.NDArray[np.float64]]
    noise_std: Mapping[str, npt.NDArray[np.float64]]
    weights: npt.NDArray[np.float64]
    records: float

    @property
    def present(self) -> npt.NDArray[np.int64]:
        """Classes with any weight, which alone are sampled and fitted."""
        return np.flatnonzero(self.weights > 0)


def read_target(release: Release, *, counts: str) -> Target:
    """Returns the target that a release describes.

    A class's noisy sum is divided by its noisy count (DP-MERF, equation 18). Counts are kept at one noise standard
    deviation or more, so that a class lost in the noise stays harmless instead of being blown up.

    Args:
        release: With one block of class-wise sums for each feature map.
        counts: Name of the question that holds the noisy class counts. When it was not asked, the number of records is
            public and stands in the certificate.
    """
    records = release.certificate.public.get("records")
    if counts in release.values:
        noisy = release.values[counts][0]
        floor = max(release.noise_std[counts], 1.0)
    else:
        noisy, floor = np.asarray([float(records or 1)]), 1.0
    safe = np.maximum(noisy, floor)
    positive = np.maximum(noisy, 0)
    weights = positive / positive.sum() if positive.sum() > 0 else np.full(len(noisy), 1 / len(noisy))
    blocks = [name for name in release.values if name != counts]
    return Target(
        means={name: release.values[name].T / safe[:, None] for name in blocks},
        noise_std={name: release.noise_std[name] / safe for name in blocks},
        weights=weights,
        records=float(max(noisy.sum(), 1.0)),
    )
