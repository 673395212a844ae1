"""DP-MEPF: mean embeddings of perceptual features (Harder, Jalali Asadabadi, Sutherland and Park, TMLR 2023).

One pass over the images releases, in one plan, class-wise sums of the activations of a public network (φ₁), of their
squares (φ₂), and counts. A generator is then fitted so that its mean features match. For early stopping, a second,
unlabelled mean embedding is released with ten times the noise, and the generator that comes closest to it is kept.

Where the public code claims more than it gives, this does not follow it: the second embedding is noised like the first,
a sum of φ₂ moves by √2 under replace-one and not by 1, and the number of images of each label is released with noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from noisegate.errors import OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.features.labels import Counts
from noisegate.generators.image_network import ImageKind, ImageNetwork
from noisegate.methods.fitted import Fitted
from noisegate.methods.from_json import method_from_json
from noisegate.methods.generator_choice import check_image_schema, read_shape
from noisegate.methods.matched import COUNTS
from noisegate.methods.mepf.settings import (
    VALIDATION_SHARE,
    Preset,
    Stopping,
    check_settings,
    default_channels,
    fit_of,
    settings_of,
)
from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.plan import Budget, CalibratedPlan, Plan, Question
from noisegate.privacy.release import Release
from noisegate.schema import Schema

if TYPE_CHECKING:
    from noisegate.features.perceptual import Activations, Perceptual
    from noisegate.fitting.moments import MomentFitting, MomentSettings
    from noisegate.fitting.stopping import Validation
    from noisegate.fitting.target import Target
    from noisegate.gate.gate import Gate
    from noisegate.networks.named import FrozenNetwork
    from noisegate.synthesizer import Synthesizer

FIRST, SECOND = "first-moments", "second-moments"
STOPPING = {FIRST: "stopping-first", SECOND: "stopping-second"}
"""The question for early stopping that belongs to each moment."""

# Stands for the value of the preset until a method is made.
_OF_PRESET: Any = None


@dataclass(frozen=True, kw_only=True)
class DPMEPF(Fitted):
    """Settings of DP-MEPF; none of them depends on private data.

    Where a default is not given, it is that of the preset, in `noisegate.methods.mepf.settings`.

    Attributes:
        preset: "default", or "paper": VGG-19, both moments, private early stopping, residual generator, 200,000 steps.
        image: Height, width and channels of the images.
        network: "encoder", the one of the package, "torchvision:NAME" or "timm:NAME".
        weights: File of the network's weights; never downloaded. See `noisegate.networks.named.load_network`.
        sha256: What that file hashes to.
        layers: Modules of the network; empty for the encoder's four, or all convolutions of another network.
        moments: 1, or 2 for the squares of activations too.
        stopping: "private", "none", or "discrepancy": when the distance is what the noise alone would leave.
        first_share: Budget share of φ₁.
        second_share: Budget share of φ₂.
        counts_share: Budget share of the counts.
        stopping_share: Budget share of each embedding for early stopping, as a part of its moment's.
        generator: "convolutional", "residual", "sub-pixel" or "fully-connected".
        latent: Length of its noise vector.
        hidden: Widths of its fully connected layers.
        channels: Of its convolutions; empty for the papers'.
        fit_options: Changes to `noisegate.fitting.moments.MomentSettings`; they cannot change the privacy.
        seed: Of the public randomness: initial weights, fitting. Never of the private noise.
    """

    preset: Preset = "default"
    image: tuple[int, int, int] | None = None
    network: str = _OF_PRESET
    weights: str | None = None
    sha256: str | None = None
    layers: tuple[str, ...] = ()
    moments: Literal[1, 2] = _OF_PRESET
    stopping: Stopping = _OF_PRESET
    first_share: float = 1.0
    second_share: float = 1.0
    counts_share: float = 0.01
    stopping_share: float = VALIDATION_SHARE
    generator: ImageKind = _OF_PRESET
    latent: int = _OF_PRESET
    hidden: tuple[int, ...] = _OF_PRESET
    channels: tuple[int, ...] = ()
    fit_options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    name: str = field(default="dp-mepf", init=False)

    def __post_init__(self) -> None:
        for option, value in settings_of(self.preset).items():
            if getattr(self, option) is _OF_PRESET:
                object.__setattr__(self, option, value)
        shape = read_shape(self.image)
        object.__setattr__(self, "image", astuple(shape))
        check_settings(vars(self))
        # JSON, on the command line and in certificates, knows lists only.
        for option in ("layers", "hidden", "channels"):
            object.__setattr__(self, option, tuple(getattr(self, option)))
        object.__setattr__(self, "channels", self.channels or default_channels(shape, self.generator))
        self.generator_network()

    def generator_network(self) -> ImageNetwork:
        """Returns the design of the generator."""
        return ImageNetwork(
            shape=read_shape(self.image),
            kind=self.generator,
            latent=self.latent,
            hidden=self.hidden,
            channels=self.channels,
        )

    def maps(self, schema: Schema) -> dict[str, FeatureMap]:
        """Returns the feature map of each question, in the order of the plan."""
        check_image_schema(schema, read_shape(self.image), labelled=False)
        maps: dict[str, FeatureMap] = dict(self._perceptual(pool=False))
        if self.stopping == "private":
            # The means of channels: few numbers, as this embedding has much more noise.
            maps |= {STOPPING[name]: pooled for name, pooled in self._perceptual(pool=True).items()}
        return maps | {COUNTS: Counts()}

    def plan(self, schema: Schema, budget: Budget) -> CalibratedPlan:
        """Returns the calibrated plan: what will be asked, and with what noise. Reads no data."""
        return Plan(questions=self.questions(schema, budget)).calibrate(budget)

    def questions(self, schema: Schema, budget: Budget) -> tuple[Question, ...]:
        """Returns what will be asked, before it is known with what noise."""
        return tuple(
            Question(
                name=name,
                dim=feature_map.dim,
                columns=self._columns(name, schema),
                norm=feature_map.norm,
                share=self._share(name),
                nonnegative=feature_map.nonnegative,
            )
            for name, feature_map in self.asked(schema, budget).items()
        )

    def ask(self, gate: Gate) -> Release:
        """Returns the release: the one time that private records are used."""
        plan, maps = self.plan(gate.schema, gate.budget), self.asked(gate.schema, gate.budget)
        # With the digest of the weights, whichever they are: a certificate names the network that was used.
        settings = self.to_json() | {"sha256": self._network().sha256}
        return gate.sum(plan, maps, method=self.name, public={"settings": settings})

    def check_fit(self, device: str) -> None:
        """Finds what would stop the fit, before any budget is spent.

        Raises:
            UserError: if the device or the network's weights are not here or a fit option is unusable.
        """
        from noisegate.fitting.device import choose_device

        choose_device(device)
        self.fit_settings()
        self._network()

    def fit_settings(self) -> MomentSettings:
        """Returns how to fit: the defaults of the preset with `fit_options` on top."""
        from noisegate.fitting.moments import MomentSettings

        rule = {"stop_at_noise": self.stopping == "discrepancy"}
        try:
            return replace(MomentSettings(), **{**fit_of(self.preset), **rule, **self.fit_options})
        except TypeError as error:
            raise OptionError(f"fit_options={dict(self.fit_options)!r}: {error}") from None

    def fitting(self, release: Release, *, device: str = "auto") -> MomentFitting:
        """Returns the fit of a release, ready to run, to save and to restore."""
        from noisegate.fitting.device import choose_device
        from noisegate.fitting.matching import point_embeddings
        from noisegate.fitting.moments import MomentFitting
        from noisegate.fitting.target import read_target
        from noisegate.generators.image import build_image_generator

        target = read_target(release, counts=COUNTS)
        return MomentFitting(
            build_image_generator(self.generator_network(), len(target.weights), seed=self.seed),
            target,
            point_embeddings(self._perceptual(pool=False)),
            self.fit_settings(),
            validation=self._validation(release, target) if self.stopping == "private" else None,
            seed=self.seed,
            device=choose_device(device),
        )

    def synthesizer(self, release: Release, fitting: MomentFitting) -> Synthesizer:
        """Returns the synthesizer that a fit, made by `fitting`, has reached."""
        from noisegate.fitting.target import read_target
        from noisegate.generators.image import ImageGenerator
        from noisegate.generators.neural_image import NeuralImage
        from noisegate.synthesizer import FitSummary, Synthesizer

        generator = fitting.average.cpu().eval()
        assert isinstance(generator, ImageGenerator)
        weights, labelled = read_target(release, counts=COUNTS).weights, release.schema.layout.label is not None
        return Synthesizer(
            release=release,
            model=NeuralImage(generator=generator, weights=weights, labelled=labelled),
            summary=FitSummary(step=fitting.step, steps=fitting.steps, discrepancy=fitting.discrepancy),
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a JSON object."""
        settings = asdict(self)
        settings.pop("name")
        lists = {name: list(getattr(self, name)) for name in ("image", "layers", "hidden", "channels")}
        return settings | lists | {"fit_options": dict(self.fit_options)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Returns the settings in a JSON object.

        Raises:
            ModelError: if a setting is missing or not known.
        """
        return method_from_json(cls, data)

    def _network(self) -> FrozenNetwork:
        from noisegate.networks.named import load_network

        return load_network(self.network, self.weights, self.sha256)

    def _activations(self, *, pool: bool) -> Activations:
        from noisegate.methods.activations import chosen_activations

        return chosen_activations(self._network(), self.layers, read_shape(self.image), pool=pool)

    def _perceptual(self, *, pool: bool) -> dict[str, Perceptual]:
        from noisegate.features.perceptual import Perceptual

        activations = self._activations(pool=pool)
        moments = {FIRST: Perceptual(activations=activations, moment=1)}
        return moments | ({SECOND: Perceptual(activations=activations, moment=2)} if self.moments == 2 else {})

    def asked(self, schema: Schema, budget: Budget) -> dict[str, FeatureMap]:
        """Returns the feature map of each question that is asked under this adjacency."""
        maps = self.maps(schema)
        # Under replace-one the number of records is public; without a label there is nothing else to count.
        if schema.layout.label is None and budget.adjacency is Adjacency.REPLACE_ONE:
            maps.pop(COUNTS)
        return maps

    def _columns(self, name: str, schema: Schema) -> int:
        label = schema.layout.label
        return 1 if label is None or name in STOPPING.values() else schema.layout.coded[label].size

    def _share(self, name: str) -> float:
        shares = {FIRST: self.first_share, SECOND: self.second_share, COUNTS: self.counts_share}
        shares |= {STOPPING[moment]: self.stopping_share * shares[moment] for moment in STOPPING}
        return shares[name]

    def _validation(self, release: Release, target: Target) -> Validation:
        """Returns what candidates are compared with: released sums over all records, by their released number."""
        from noisegate.fitting.matching import point_embeddings
        from noisegate.fitting.stopping import Validation

        pooled = self._perceptual(pool=True)
        means = {name: np.asarray(release.values[STOPPING[name]][:, 0] / target.records) for name in pooled}
        return Validation(
            means=means,
            embeddings=point_embeddings(pooled),
            weights=target.weights,
            images=self.fit_settings().check_images,
        )
