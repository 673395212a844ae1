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


MISFIT = 0.03
"""Part of the signal's energy that a generator is taken to miss; chosen on simulated tables, see docs/choosing.md."""


def class_weights(target: Target, power: float | None) -> npt.NDArray[np.float64]:
    """Returns the weight of each present class's squared residual in noise standard deviations, 1 for the largest.

    A residual of a class's released mean has two sources: noise, and what the generator never comes to match. In noise
    standard deviations the first has variance 1, and the second grows with the class's signal: its variance is a part
    of the signal-to-noise ratio. Weights are the inverse of their sum, so

    - classes that stand out of the noise weigh alike in their means, whatever their share (DP-MERF, section 4.2; noise
      standard deviations alone would weigh them by their squared share, and forget the small ones), and
    - a class that the noise drowns weighs by its noise alone, and cannot drag the others along.

    The ratio comes from released values alone: what all classes' means hold above their expected noise, squared.

    Args:
        target: What is matched.
        power: None for the weights above; a number for the class's share to this power. As a residual in noise standard
            deviations grows with the share, 0 weighs classes by the squares of their shares, and -2 weighs them alike.

    Returns:
        Of shape (present classes,).
    """
    if power is not None:
        shares = target.weights[target.present]
        return np.asarray((shares / (shares.max() if power > 0 else shares.min())) ** power)
    dim = sum(means.shape[1] for means in target.means.values())
    # Sums over coordinates, of a class's squared mean and of the precision that its size gives it.
    energy, precision = np.zeros(len(target.present)), np.zeros(len(target.present))
    for name, means in target.means.items():
        of_block = target.noise_std[name][target.present] ** -2.0
        energy += np.square(means[target.present]).sum(axis=1) * of_block
        precision += means.shape[1] * of_block
    signal = max(float((energy - dim).sum() / precision.sum()), 0.0)
    variance = 1 + MISFIT * signal * precision / dim
    return np.asarray(variance.min() / variance)
