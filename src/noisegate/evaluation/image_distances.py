"""How far synthetic images are from real ones: distances, shares and scores in features of both, and bins of pixels."""

from __future__ import annotations

from dataclasses import dataclass

from noisegate.evaluation.features import ImageFeatures, Pixels
from noisegate.evaluation.images import drawn
from noisegate.evaluation.metrics.frechet import frechet_distance
from noisegate.evaluation.metrics.kid import KernelDistance, kernel_distance
from noisegate.evaluation.metrics.manifold import NEIGHBOURS, Manifold, manifold_figures
from noisegate.evaluation.metrics.ndb import PER_BIN, DifferentBins, different_bins
from noisegate.evaluation.metrics.prd import CLUSTERS, DistributionScores, distribution_scores
from noisegate.records import Images

IMAGES = 10_000
"""Of either set, unless more are asked for."""


@dataclass(frozen=True, kw_only=True)
class ImageDistances:
    """Figures between two sets of images, all in the same features but the bins, which are of pixels.

    Attributes:
        features: name of the features.
        synthetic: how many synthetic images were measured.
        real: how many real ones.
        frechet: the Fréchet distance.
        kernel: the kernel distance.
        manifold: precision, recall, density and coverage; None with too few images for them.
        distribution: precision and recall of the distribution, by clusters; None with too few images.
        bins: the number of different bins of pixels; None with too few images.
    """

    features: str
    synthetic: int
    real: int
    frechet: float
    kernel: KernelDistance
    manifold: Manifold | None
    distribution: DistributionScores | None
    bins: DifferentBins | None

    def to_json(self) -> dict[str, object]:
        """The figures as JSON values; the distances under names that say the features."""
        return {
            "features": self.features,
            "synthetic_images": self.synthetic,
            "real_images": self.real,
            f"frechet({self.features})": self.frechet,
            KernelDistance.named(self.features): self.kernel.to_json(),
            "manifold": self.manifold.to_json() if self.manifold else None,
            DistributionScores.named(self.features): self.distribution.to_json() if self.distribution else None,
            DifferentBins.named(Pixels.name): self.bins.to_json() if self.bins else None,
        }

    def page(self) -> dict[str, str]:
        """The figures as they are printed, by name."""
        found = {f"frechet({self.features})": f"{self.frechet:.3f}"}
        for result, features in (
            (self.kernel, self.features),
            (self.manifold, self.features),
            (self.distribution, self.features),
            (self.bins, Pixels.name),
        ):
            found |= result.page(features) if result else {}
        return {**found, "images": f"{self.synthetic:,} vs {self.real:,}"}


def image_distances(
    synthetic: Images, real: Images, features: ImageFeatures, *, images: int = IMAGES, seed: int = 0
) -> ImageDistances:
    """Measure the distances on at most so many images of either set.

    Args:
        synthetic: at least two images.
        real: at least two.
        features: what the distances are measured in.
        images: the most of either set that are used; more take time with their square.
        seed: of the draw of images and of the subsets; public.

    Raises:
        DataError: a set has fewer than two images, or the features are not finite.
    """
    some = [drawn(several, images, seed=seed) for several in (synthetic, real)]
    ours, theirs = map(features, some)
    fewer = min(len(ours), len(theirs))
    return ImageDistances(
        features=features.name,
        synthetic=len(ours),
        real=len(theirs),
        frechet=frechet_distance(ours, theirs),
        kernel=kernel_distance(ours, theirs, seed=seed),
        manifold=manifold_figures(ours, theirs) if fewer > NEIGHBOURS else None,
        distribution=distribution_scores(ours, theirs, seed=seed) if 2 * fewer >= CLUSTERS else None,
        bins=different_bins(*map(Pixels(), some), seed=seed) if len(theirs) >= 2 * PER_BIN else None,
    )
