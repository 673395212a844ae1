"""What generators are matched to: noisy class-wise means in a release, and how much each class's residual weighs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.privacy.release import Release

Floats: TypeAlias = npt.NDArray[np.float64]

MISFIT = 0.03
"""Part of the signal's energy that a generator is taken to miss; chosen on simulated tables, see docs/methods.md."""

_NO_COUNTERS: Mapping[str, Floats] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Target:
    """Noisy class-wise mean embeddings."""

    means: Mapping[str, Floats]
    """For each block of features, (classes, dim)."""
    noise_std: Mapping[str, Floats]
    """For each block, the standard deviation of the noise on each coordinate of a class's mean, (classes,)."""
    weights: Floats
    """Estimated share of each class, non-negative, summing to 1."""
    records: float
    """Estimated number of records, at least 1."""

    @property
    def present(self) -> npt.NDArray[np.int64]:
        """Classes with any weight, which alone are sampled and fitted."""
        return np.flatnonzero(self.weights > 0)


def read_target(
    release: Release, *, counts: str, counters: Mapping[str, Floats] = _NO_COUNTERS
) -> Target:
    """Returns the target of a release: noisy sums by class, divided by noisy counts (DP-MERF, equation 18).

    Args:
        release: The release.
        counts: Its query for the number of records of each class. Without it the number
            of records is the certificate's, which is public.
        counters: For queries whose sums count records too, u with u · v(r) = 1 for
            every record r; counts are then means of all estimates, weighted by inverse
            variances.
    """
    if counts in release.values:
        noisy_counts, counts_std = _combined_counts(release, counts, counters)
        # A class that is lost in the noise stays harmless.
        min_count = max(counts_std, 1.0)
    else:
        known_count = float(release.certificate.public.get("records") or 1)
        noisy_counts = np.asarray([known_count])
        min_count = 1.0
    divisors = np.maximum(noisy_counts, min_count)
    positive_counts = np.maximum(noisy_counts, 0)
    total = positive_counts.sum()
    if total > 0:
        weights = positive_counts / total
    else:
        weights = np.full(len(noisy_counts), 1 / len(noisy_counts))
    blocks = [name for name in release.values if name != counts]
    return Target(
        means={name: release.values[name].T / divisors[:, None] for name in blocks},
        noise_std={name: release.noise_std[name] / divisors for name in blocks},
        weights=weights,
        records=float(max(noisy_counts.sum(), 1.0)),
    )


def _combined_counts(
    release: Release, counts: str, counters: Mapping[str, Floats]
) -> tuple[Floats, float]:
    """Returns the noisy number of records of each class, (classes,), and the standard deviation of its noise."""
    functionals = {counts: np.ones(1), **counters}
    precisions = np.asarray(
        [
            (release.noise_std[name] ** 2 * (functional @ functional)) ** -1
            for name, functional in functionals.items()
        ]
    )
    estimates = np.stack(
        [functional @ release.values[name] for name, functional in functionals.items()]
    )
    total_precision = precisions.sum()
    return precisions @ estimates / total_precision, total_precision**-0.5


def missed_part(target: Target, discrepancy: float) -> float:
    """Returns which part of the energy of released means, less their noise's, a generator misses.

    Args:
        target: The released means.
        discrepancy: Squared distance of the generator to them, over what the noise
            alone explains.
    """
    squared_ratios = [
        np.square(means / target.noise_std[name][:, None])[target.present]
        for name, means in target.means.items()
    ]
    coordinate_count = sum(block.size for block in squared_ratios)
    energy = sum(float(block.sum()) for block in squared_ratios)
    signal = energy - coordinate_count
    missed = max(discrepancy - 1, 0.0) * coordinate_count
    return missed / max(signal, 1.0)


def class_weights(target: Target, power: float | None) -> Floats:
    """Returns the weight of each present class's squared residual in noise standard deviations, 1 for the largest.

    It is the inverse of the variance of the noise, 1, and of what the generator never comes to match, a part of the
    class's signal-to-noise ratio. So classes that exceed the noise weigh alike in their means, whatever their
    share (DP-MERF, section 4.2), and one that is below the noise weighs by its noise.

    Args:
        target: The released means.
        power: Where given, weights are the class's share to this power instead. Residuals in noise standard deviations
            grow with shares, so that -2 weighs classes alike.
    """
    if power is not None:
        shares = target.weights[target.present]
        largest_weight_share = shares.max() if power > 0 else shares.min()
        return np.asarray((shares / largest_weight_share) ** power)
    dim = sum(means.shape[1] for means in target.means.values())
    # Sums over coordinates, of a class's squared mean and of the precision that its size
    # gives it.
    energy = np.zeros(len(target.present))
    precision = np.zeros(len(target.present))
    for name, means in target.means.items():
        block_precision = target.noise_std[name][target.present] ** -2.0
        energy += np.square(means[target.present]).sum(axis=1) * block_precision
        precision += means.shape[1] * block_precision
    signal = max(float((energy - dim).sum() / precision.sum()), 0.0)
    variance = 1 + MISFIT * signal * precision / dim
    return np.asarray(variance.min() / variance)
