"""Methods that fit a generator, of tables or of images, whose expected embedding matches what was released."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

from noisegate.errors import OptionError
from noisegate.features.feature_map import CountingMap, FeatureMap
from noisegate.methods.embedding import COUNTS, MeanEmbeddingMethod
from noisegate.models.checkpoint import Fit
from noisegate.privacy.release import Release
from noisegate.schema.pixels import ImageShape
from noisegate.settings import Count, Options, Settings, Widths, derived, settings
from noisegate_images.models.image_network import IMAGE_KINDS, ImageKind, ImageNetwork
from noisegate_images.training.fit import FitSettings

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from noisegate.models.record_model import RecordModel
    from noisegate_images.models.generator import Generator as Network

Generator: TypeAlias = Literal[
    "mixture", "table", "convolutional", "fully-connected", "sub-pixel", "residual", "drawing"
]
TABLES: tuple[Generator, ...] = ("mixture", "table")
"""The generators that make tables; the others make images."""
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
        >>> from noisegate.features.feature_map import Levels
        >>> from noisegate.methods.embedding import Embedding
        >>> from noisegate_images.methods.matched import MatchedMethod
        >>> from noisegate.schema import Boolean
        >>> from noisegate.testing import FakeGate
        >>> class Shares(MatchedMethod):
        ...     def embeddings(self, schema):
        ...         return {"levels": Embedding(Levels(columns=(0,), sizes=(2,)), share=1.0)}
        >>> model = Shares(hidden=(8,), fit_options={"steps": 5}).fit(FakeGate(Schema([Boolean(name="ill")])))
        >>> model.sample(3).shape
        (3, 1)
    """

    fit_class: ClassVar[type[Settings] | None] = FitSettings

    generator: Generator = "table"
    """For tables "table" (a network) or "mixture" (of products); for images "convolutional", "fully-connected",
    "sub-pixel", "residual" or "drawing"."""
    components: Count = 100
    """Of a mixture, for each label value."""
    latent: Count = 32
    """Length of the noise vector of a network."""
    hidden: Widths = by_generator(table=(256, 256), images=(200,))
    """Widths of its hidden layers."""
    channels: Widths = (16, 8)
    """Of its convolutions; see `noisegate_images.models.image_network.ImageNetwork`."""
    fit_options: Options = field(default_factory=dict)
    """Changes to `noisegate_images.training.fit.FitSettings`; they cannot change the privacy."""

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
        return {"image": astuple(shape)} | ({"generator": "convolutional"} if cls.generator in TABLES else {})

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

    def initial_generator(self, release: Release, classes: int) -> Network:
        """Returns the generator with its initial weights."""
        from noisegate_images.models.image import build_image_generator, with_prior
        from noisegate_images.models.table import build_component_generator, build_table_generator

        layout, design = release.schema.layout, self.generator_network()
        if design:
            return with_prior(build_image_generator(design, classes, seed=self.seed))
        if self.generator == "mixture":
            return build_component_generator(layout, components=self.components, seed=self.seed)
        return build_table_generator(layout, latent=self.latent, hidden=self.hidden, seed=self.seed)

    def fitting(self, release: Release, *, device: str = "auto", plan: Any = None) -> Fit:
        """Returns the fit of a release, ready to run, to save and to restore."""
        from noisegate.devices import choose_device
        from noisegate.features.feature_map import torch_forms
        from noisegate_images.training.moment_matching import read_target

        schema = release.schema
        maps = plan.maps if plan else self.maps(schema)
        target = read_target(release, counts=COUNTS, counters=self.counters(maps))
        forms = torch_forms(maps, schema.layout if self.generator in TABLES else None)
        generator = self.initial_generator(release, len(target.weights))
        return self.matching()(
            generator, target, forms, self.fit_settings(), seed=self.seed, device=choose_device(device)
        )

    def counters(self, maps: Mapping[str, FeatureMap]) -> dict[str, npt.NDArray[np.float64]]:
        """Returns what counts the records of each class in the sums of a query, by query; see `CountingMap`."""
        found = {name: one.counter for name, one in maps.items() if isinstance(one, CountingMap)}
        return {name: counter for name, counter in found.items() if counter is not None}

    def matching(self) -> Callable[..., Fit]:
        """Returns what makes the fit of a generator to a target."""
        from noisegate_images.training.moment_matching import HalvesMatching

        return HalvesMatching

    def model(self, release: Release, fitting: Any) -> RecordModel:
        """Returns the generator, averaged over steps, with the released shares of the labels."""
        generator: Network = fitting.average.cpu().eval()
        return generator.record_model(fitting.target.weights, release.schema.layout)
