"""Methods that fit a generator, of tables or of images, whose expected embedding matches what was released."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, field
from typing import TYPE_CHECKING, Any, cast

from noisegate.errors import OptionError
from noisegate.methods.embedding import COUNTS, MeanEmbeddingMethod
from noisegate.methods.fit import Fit
from noisegate.methods.images import TABLES, Generator, doubles
from noisegate.models.image_network import IMAGE_KINDS, ImageKind, ImageNetwork
from noisegate.privacy.release import Release
from noisegate.schema.pixels import ImageShape
from noisegate.settings import Count, Options, Widths, derived, settings

if TYPE_CHECKING:
    from noisegate.models.generator import Generator as Network
    from noisegate.models.neural import NeuralTable
    from noisegate.models.neural_image import NeuralImage
    from noisegate.training.fit import FitOptions

IMAGE_FIT: Mapping[str, Any] = {"ema_decay": 0.998, "stop_at_noise": False, "check_every": 500}
"""What fits to images have in common."""


def by_generator(*, table: Any, images: Any, **kinds: Any) -> Any:
    """Returns a field whose default depends on the generator: of tables, of images, or one kind of these."""
    defaults = {**dict.fromkeys(TABLES, table), **dict.fromkeys(IMAGE_KINDS, images)}
    defaults |= {name.replace("_", "-"): value for name, value in kinds.items()}
    return derived(lambda given: defaults.get(given["generator"], table))


@settings
class MatchedMethod(MeanEmbeddingMethod):
    """Base of methods that fit a generator, of tables or of images, by its expected embedding.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate.features.categorical import Levels
        >>> from noisegate.methods.embedding import Embedding
        >>> from noisegate.methods.matched import MatchedMethod
        >>> from noisegate.schema import Boolean
        >>> from noisegate.testing import FakeGate
        >>> class Shares(MatchedMethod):
        ...     def embeddings(self, schema):
        ...         return {"levels": Embedding(Levels(columns=(0,), sizes=(2,)), share=1.0)}
        >>> model = Shares(hidden=(8,), fit_options={"steps": 5}).fit(FakeGate(Schema([Boolean(name="ill")])))
        >>> model.sample(3).shape
        (3, 1)
    """

    generator: Generator = "table"
    """For tables "table" (a network) or "mixture" (of products); for images "convolutional", "fully-connected",
    "sub-pixel" or "residual"."""
    components: Count = 100
    """Of a mixture, for each label value."""
    latent: Count = 32
    """Length of the noise vector of a network."""
    hidden: Widths = by_generator(table=(256, 256), images=(200,))
    """Widths of its hidden layers."""
    channels: Widths = (16, 8)
    """Of its convolutions; see `noisegate.models.image_network.ImageNetwork`."""
    fit_options: Options = field(default_factory=dict)
    """Changes to `noisegate.training.fit.FitSettings`; they cannot change the privacy."""

    def __post_init__(self) -> None:
        if self.generator not in TABLES:
            object.__setattr__(self, "image", astuple(self.shape))
        elif self.image is not None:
            raise OptionError(f"image={self.image!r} needs a generator of images; add generator='convolutional'.")
        self.generator_network()

    @classmethod
    def for_images(cls, shape: ImageShape, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the shape, and a generator that can make such images; nothing if one of tables is asked for."""
        if given.get("generator") in TABLES:
            return {}
        found: dict[str, Any] = {"image": astuple(shape)}
        if not doubles(shape, given.get("channels") or cls.usual_channels(shape)):
            return found | {"generator": "fully-connected"}
        return found | ({"generator": "convolutional"} if cls.generator in TABLES else {})

    @classmethod
    def usual_channels(cls, shape: ImageShape) -> tuple[int, ...]:
        """Returns the channels of the generator of images that the method has by default."""
        return (16, 8)

    def generator_network(self) -> ImageNetwork | None:
        """Returns the design of the image generator; None for a table."""
        if self.generator in TABLES:
            return None
        return ImageNetwork(
            shape=self.shape,
            kind=cast(ImageKind, self.generator),
            latent=self.latent,
            hidden=self.hidden,
            channels=self.channels,
        )

    def default_fit(self) -> type[FitOptions]:
        """Returns the class of the settings of a fit."""
        from noisegate.training.fit import FitSettings

        return FitSettings

    def fitting(self, release: Release, *, device: str = "auto", plan: Any = None) -> Fit:
        """Returns the fit of a release, ready to run, to save and to restore."""
        from noisegate.devices import choose_device
        from noisegate.features.feature_map import torch_forms
        from noisegate.models.image import build_image_generator
        from noisegate.models.table import build_component_generator, build_table_generator
        from noisegate.training.moment_matching import HalvesMatching
        from noisegate.training.target import read_target

        layout, network, target = release.schema.layout, self.generator_network(), read_target(release, counts=COUNTS)
        maps = self.maps(release.schema) if plan is None else plan.maps
        generator: Network
        if network:
            generator = build_image_generator(network, len(target.weights), seed=self.seed)
        elif self.generator == "mixture":
            generator = build_component_generator(layout, components=self.components, seed=self.seed)
        else:
            generator = build_table_generator(layout, latent=self.latent, hidden=self.hidden, seed=self.seed)
        forms, settings = torch_forms(maps, None if network else layout), self.fit_settings()
        return HalvesMatching(generator, target, forms, settings, seed=self.seed, device=choose_device(device))

    def model(self, release: Release, fitting: Any) -> NeuralImage | NeuralTable:
        """Returns the generator, averaged over steps, with the released shares of the labels."""
        from noisegate.models.image import ImageGenerator
        from noisegate.models.neural import NeuralTable
        from noisegate.models.neural_image import NeuralImage
        from noisegate.training.target import read_target

        generator, weights = fitting.average.cpu().eval(), read_target(release, counts=COUNTS).weights
        layout = release.schema.layout
        if isinstance(generator, ImageGenerator):
            return NeuralImage(generator=generator, weights=weights, labelled=layout.label is not None)
        return NeuralTable(generator=generator, weights=weights, layout=layout)
