"""Bases of methods that fit a generator to an expected embedding, or see images through a frozen public network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

from noisegate.errors import OptionError
from noisegate.methods.embedding import COUNTS, MeanEmbeddingMethod
from noisegate.methods.fitted import fitted_synthesizer
from noisegate.methods.method import Method
from noisegate.models.checkpoint import Fit
from noisegate.privacy.release import Release
from noisegate.queries.feature_map import CountingMap, FeatureMap, torch_forms
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape
from noisegate.settings import (
    Count,
    ImageSize,
    Names,
    Options,
    Settings,
    Widths,
    derived,
    settings,
)
from noisegate_images.models.image_network import IMAGE_KINDS, ImageKind, ImageNetwork
from noisegate_images.queries.perceptual import (
    Activations,
    Perceptual,
    chosen_activations,
)
from noisegate_images.training.fit import FitSettings

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from noisegate.models.record_model import RecordModel
    from noisegate.models.synthesizer import Synthesizer
    from noisegate_images.models.generator import Generator as Network
    from noisegate_images.networks.decoder import LoadedDecoder
    from noisegate_images.networks.named import FrozenNetwork

Generator: TypeAlias = Literal[
    "mixture",
    "table",
    "convolutional",
    "fully-connected",
    "sub-pixel",
    "residual",
    "drawing",
]
TABLES: tuple[Generator, ...] = (
    "mixture",
    "table",
)  # the generators that make tables; the others make images
IMAGE_FIT: Mapping[str, Any] = {
    "ema_decay": 0.998,
    "stop_at_noise": False,
    "check_every": 500,
}
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
        >>> from noisegate.queries.feature_map import Levels
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
            raise OptionError(
                f"image={self.image!r} needs a generator of images; add generator='convolutional'."
            )
        self.generator_network()

    @classmethod
    def for_images(cls, shape: ImageShape, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the shape, and a generator that can make such images; nothing if one of tables is asked for."""
        if given.get("generator") in TABLES:
            return {}
        return {"image": astuple(shape)} | (
            {"generator": "convolutional"} if cls.generator in TABLES else {}
        )

    def generator_network(self) -> ImageNetwork | None:
        """Returns the design of the image generator; None for a table."""
        if self.generator in TABLES:
            return None
        kind, hidden, channels = (
            cast(ImageKind, self.generator),
            self.hidden,
            self.channels,
        )
        return ImageNetwork(
            shape=self.shape,
            kind=kind,
            latent=self.latent,
            hidden=hidden,
            channels=channels,
        )

    def initial_generator(self, release: Release, classes: int) -> Network:
        """Returns the generator with its initial weights."""
        from noisegate_images.models.generator import (
            build_component_generator,
            build_table_generator,
        )
        from noisegate_images.models.image import build_image_generator, with_prior

        layout, design = release.schema.layout, self.generator_network()
        if design:
            return with_prior(build_image_generator(design, classes, seed=self.seed))
        if self.generator == "mixture":
            return build_component_generator(
                layout, components=self.components, seed=self.seed
            )
        return build_table_generator(
            layout, latent=self.latent, hidden=self.hidden, seed=self.seed
        )

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> Fit:
        """Returns the fit of a release, ready to run, to save and to restore."""
        from noisegate.devices import choose_device
        from noisegate_images.training.moment_matching import read_target

        schema = release.schema
        maps = plan.maps if plan else self.maps(schema)
        target = read_target(release, counts=COUNTS, counters=self.counters(maps))
        forms = torch_forms(maps, schema.layout if self.generator in TABLES else None)
        generator, where = (
            self.initial_generator(release, len(target.weights)),
            choose_device(device),
        )
        return self.matching()(
            generator, target, forms, self.fit_settings(), seed=self.seed, device=where
        )

    def counters(
        self, maps: Mapping[str, FeatureMap]
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Returns what counts the records of each class in the sums of a query, by query; see `CountingMap`."""
        found = {
            name: one.count_functional
            for name, one in maps.items()
            if isinstance(one, CountingMap)
        }
        return {name: counter for name, counter in found.items() if counter is not None}

    def matching(self) -> Callable[..., Fit]:
        """Returns what makes the fit of a generator to a target."""
        from noisegate_images.training.moment_matching import HalvesMatching

        return HalvesMatching

    def model(self, release: Release, fitting: Any) -> RecordModel:
        """Returns the generator, averaged over steps, with the released shares of the labels."""
        generator: Network = fitting.average.cpu().eval()
        return generator.record_model(fitting.target.weights, release.schema.layout)

    def synthesizer(self, release: Release, fitting: Any) -> Synthesizer:
        """Returns the synthesizer of the generator that a fit has reached."""
        return fitted_synthesizer(release, fitting, self.model(release, fitting))


@settings
class PublicNetwork(Method):
    """Base of methods with a frozen public network."""

    network: str = "encoder"
    """"encoder", the one of the package, "strokes", the package's of drawings, "torchvision:NAME" or "timm:NAME"."""
    weights: str | None = None
    """File of its weights; never downloaded. See `noisegate_images.networks.named.load_network`."""
    sha256: str | None = None
    """What that file hashes to."""

    def encoder(self) -> FrozenNetwork:
        """Returns the network; a UserError if it is not here."""
        from noisegate_images.networks.named import load_network

        return load_network(self.network, self.weights, self.sha256)


@settings
class EncodedImages(PublicNetwork):
    """Base of methods that know an image by an encoder's feature of it, and make images of features by a decoder."""

    image: ImageSize | None = None
    """Height, width and channels of the images."""
    decoder: str = "cifar10"
    """A decoder, by its name or its file (`noisegate pretrain decoder`), trained with the same encoder; by default the
    one in the package, of 32 x 32 pixels in colour."""
    decoder_sha256: str | None = None
    """What that file hashes to."""
    layer: str | None = None
    """Module of the encoder whose channels are averaged over the picture; None for the last."""

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a JSON object; a public table in memory is not in it."""
        public: Any = getattr(self, "public", None)
        if isinstance(public, str | None):
            return super().to_json()
        return super(EncodedImages, replace(self, **{"public": None})).to_json()  # type: ignore[arg-type]

    def encoding(self) -> Perceptual:
        """Returns the map from images to features of length 1; each is a function of its image alone, bit for bit."""
        network = self.encoder()
        layers = (self.layer or network.layers[-1],)
        return Perceptual(
            activations=chosen_activations(network, layers, self.shape, pool=True),
            moment=1,
        )

    def checked_decoder(self) -> LoadedDecoder:
        """Returns the decoder."""
        from noisegate_images.networks.decoder import load_decoder

        encoding, encoder = self.encoding(), self.encoder().sha256
        decoder = load_decoder(self.decoder, self.decoder_sha256)
        if decoder.encoder != encoder:
            raise OptionError(
                f"decoder={self.decoder!r} was trained with the encoder {decoder.encoder}, the features are of "
                f"{encoder}; use the decoder and the encoder that belong together."
            )
        if decoder.shape != self.shape or decoder.features != encoding.dim:
            raise OptionError(
                f"decoder={self.decoder!r} makes images of {decoder.shape} from {decoder.features} numbers, asked for "
                f"are images of {self.shape} from {encoding.dim}. Train one on public images of this size with "
                "`noisegate pretrain decoder PUBLIC_IMAGES --out FILE`, and give it as decoder=FILE."
            )
        (layer,) = encoding.activations.layers.layers
        if decoder.layer != layer:
            raise OptionError(
                f"decoder={self.decoder!r} was trained with the layer {decoder.layer!r} of the encoder, asked for is "
                f"{layer!r}; set layer={decoder.layer!r}."
            )
        return decoder

    def stored_with_digests(self) -> dict[str, Any]:
        """Returns the settings as JSON with the digests of encoder and decoder, whichever they are."""
        return self.to_json() | {
            "sha256": self.encoder().sha256,
            "decoder_sha256": self.checked_decoder().digest,
        }


@settings
class NetworkMethod(PublicNetwork, MeanEmbeddingMethod):
    """Base of methods whose vectors are activations of a frozen public network."""

    layers: Names = ()
    """Modules of it; empty for the encoder's four, or all convolutions of another network but 1 x 1 shortcuts."""

    def public_network(self) -> FrozenNetwork | None:
        """Returns the network, or None if it is not asked for; a UserError if it is not here."""
        return self.encoder()

    def activations(self, *, pool: bool) -> Activations:
        """Returns the map from images to activations, or with `pool` to the mean of each channel over the picture."""
        network = self.public_network()
        assert network is not None
        return chosen_activations(network, self.layers, self.shape, pool=pool)

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns the settings, with the digest of the network that was used, whichever it is."""
        network = self.public_network()
        return {
            "settings": self.to_json() | ({"sha256": network.sha256} if network else {})
        }

    def check_fit(self, device: str) -> None:
        """Finds what would stop the fit, before any budget is spent; see `Method`."""
        super().check_fit(device)
        self.public_network()
