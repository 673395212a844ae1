"""Settings of methods that fit a generator of images to an expected embedding, and the fit itself.

The fit only sees released sums: nothing here can change the privacy of a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from noisegate.methods.embedding import COUNTS
from noisegate.methods.fitted import fitted_synthesizer
from noisegate.models.checkpoint import Fit
from noisegate.privacy.release import Release
from noisegate.queries.feature_map import CountingMap, FeatureMap, torch_forms
from noisegate.schema import Layout
from noisegate.schema.pixels import ImageShape
from noisegate.settings import Count, Options, Widths, settings
from noisegate_images.models.image_network import ImageKind, ImageNetwork

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from noisegate.models.record_model import RecordModel
    from noisegate.models.synthesizer import Synthesizer
    from noisegate_images.models.generator import DrawsRecords, Generator
    from noisegate_images.models.image import ImageGenerator
    from noisegate_images.training.target import Target

IMAGE_FIT: Mapping[str, Any] = MappingProxyType(
    {"ema_decay": 0.998, "stop_at_noise": False, "check_every": 500}
)
"""What fits to images have in common."""


@settings
class ImageGeneratorSettings:
    """Settings of the generator of images, and of its fit."""

    generator: ImageKind = "convolutional"
    """"convolutional", "residual", "sub-pixel" or "fully-connected"."""
    latent: Count = 32
    """Length of the generator's noise vector."""
    hidden: Widths = (200,)
    """Widths of the generator's fully connected layers."""
    channels: Widths = ()
    """Channels of the generator's convolutions; empty for those of the papers."""
    fit_options: Options = field(default_factory=dict)
    """Changes to the settings of the fit; they cannot change the privacy."""

    def generator_network(
        self, shape: ImageShape, *, pose: float = 0.0
    ) -> ImageNetwork:
        """Returns the design of the generator.

        Args:
            shape: Shape of the images.
            pose: How far images are turned, slanted and moved at random; 0 for not.
        """
        return ImageNetwork(
            shape=shape,
            kind=self.generator,
            latent=self.latent,
            hidden=self.hidden,
            channels=self.channels,
            pose=pose,
        )


def initial_image_generator(
    network: ImageNetwork, class_count: int, *, seed: int
) -> ImageGenerator:
    """Returns a generator of images with its weights before the fit.

    Args:
        network: Its design.
        class_count: Number of labels; 1 if the images have no label.
        seed: Seed of the weights.
    """
    from noisegate_images.models.image import build_image_generator, with_prior

    return with_prior(build_image_generator(network, class_count, seed=seed))


def released_target(release: Release, maps: Mapping[str, FeatureMap]) -> Target:
    """Returns the noisy means of a release, of which some queries count records too.

    Args:
        release: The release.
        maps: The feature map of each query whose sums may serve as counts.
    """
    from noisegate_images.training.target import read_target

    return read_target(release, counts=COUNTS, counters=count_functionals(maps))


def count_functionals(
    maps: Mapping[str, FeatureMap],
) -> dict[str, npt.NDArray[np.float64]]:
    """Returns what counts records in the sums of a query, by query; see `CountingMap`."""
    functionals = {
        name: feature_map.count_functional
        for name, feature_map in maps.items()
        if isinstance(feature_map, CountingMap)
    }
    return {
        name: functional
        for name, functional in functionals.items()
        if functional is not None
    }


def generator_fit(
    generator: Generator,
    target: Target,
    maps: Mapping[str, FeatureMap],
    fit_settings: Any,
    *,
    seed: int,
    device: str,
    layout: Layout | None = None,
    matching: Callable[..., Fit] | None = None,
) -> Fit:
    """Returns the fit of a generator to noisy means, ready to run.

    Args:
        generator: The generator with its weights before the fit.
        target: The noisy means, of each class.
        maps: The feature map of each query.
        fit_settings: Settings of the fit.
        seed: Seed of the noise vectors.
        device: "auto", "cpu", "cuda" or "mps".
        layout: Columns of a table; None for images.
        matching: What makes the fit; None for `HalvesMatching`.
    """
    from noisegate.devices import choose_device
    from noisegate_images.training.moment_matching import HalvesMatching

    make_fit = HalvesMatching if matching is None else matching
    return make_fit(
        generator,
        target,
        torch_forms(maps, layout),
        fit_settings,
        seed=seed,
        device=choose_device(device),
    )


def fitted_generator(release: Release, fitting: Any) -> RecordModel:
    """Returns the generator of a fit, averaged over steps, with the released shares of the labels.

    Args:
        release: The release that was fitted.
        fitting: Its fit.
    """
    generator: DrawsRecords = fitting.average.cpu().eval()
    return generator.record_model(fitting.target.weights, release.schema.layout)


class FitsGenerator:
    """Ability to fit a generator, which then replaces the records.

    It comes before `Method` and its subclasses among the bases of a method.
    """

    def synthesizer(self, release: Release, fitting: Any) -> Synthesizer:
        """Returns the synthesizer of the generator that a fit has reached; see `Method`."""
        return fitted_synthesizer(release, fitting, fitted_generator(release, fitting))
