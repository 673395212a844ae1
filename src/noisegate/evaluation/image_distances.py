"""How far synthetic images are from real ones, in features of both: distance, kernel distance, and the four shares."""

from __future__ import annotations

from dataclasses import dataclass

from noisegate.evaluation.frechet import frechet_distance, frechet_name
from noisegate.evaluation.image_features import ImageFeatures
from noisegate.evaluation.image_reading import ImageSet
from noisegate.evaluation.kid import KernelDistance, kernel_distance, kernel_name
from noisegate.evaluation.manifold import NEIGHBOURS, Manifold, manifold_figures

IMAGES = 10_000
"""Of either set, unless more are asked for."""


@dataclass(frozen=True, kw_only=True)
class ImageDistances:
    """Figures between two sets of images, all in the same features.

    Attributes:
        features: name of the features.
        synthetic: how many synthetic images were measured.
        real: how many real ones.
        frechet: the Fréchet distance.
        kernel: the kernel distance.
        manifold: precision, recall, density and coverage; None with too few images for them.
    """

    features: str
    synthetic: int
    real: int
    frechet: float
    kernel: KernelDistance
    manifold: Manifold | None

    def to_json(self) -> dict[str, object]:
        """The figures as JSON values; the distances under names that say the features."""
        return {
            "features": self.features,
            "synthetic_images": self.synthetic,
            "real_images": self.real,
            frechet_name(self.features): self.frechet,
            kernel_name(self.features): self.kernel.to_json(),
            "manifold": self.manifold.to_json() if self.manifold else None,
        }


def image_distances(
    synthetic: ImageSet, real: ImageSet, features: ImageFeatures, *, images: int = IMAGES, seed: int = 0
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
    ours, theirs = (features(several.first(images, seed=seed)) for several in (synthetic, real))
    enough = min(len(ours), len(theirs)) > NEIGHBOURS
    return ImageDistances(
        features=features.name,
        synthetic=len(ours),
        real=len(theirs),
        frechet=frechet_distance(ours, theirs),
        kernel=kernel_distance(ours, theirs, seed=seed),
        manifold=manifold_figures(ours, theirs) if enough else None,
    )
