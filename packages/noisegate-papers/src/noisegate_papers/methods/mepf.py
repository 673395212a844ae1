"""DP-MEPF: mean embeddings of perceptual features.

Harder, Jalali Asadabadi, Sutherland and Park (TMLR 2023), https://openreview.net/forum?id=R6W7zkMz0P. One pass over the
images releases, in one plan, class-wise sums of the activations of a public network (φ₁), of their squares (φ₂), and
counts, which a generator is then fitted to. For early stopping, a second, unlabelled mean embedding is released with
ten times the noise, and the generator that comes closest to it is kept. What differs is in docs/differences.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from noisegate.methods.embedding import COUNTS, Embedding
from noisegate.methods.registry import register
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.settings import Count, Share, Widths, by_preset, settings
from noisegate_images.features.perceptual import chosen_activations
from noisegate_images.methods.matched import MatchedMethod, NetworkMethod
from noisegate_images.models.image_network import ImageKind, check_image_schema, residual_channels
from noisegate_papers.features.error_bounds import ErrorBound
from noisegate_papers.features.noise_bounds import NoiseBounds, noise_bounds
from noisegate_papers.training.schedules import PerceptualFitSettings

if TYPE_CHECKING:
    from noisegate_images.features.perceptual import Activations
    from noisegate_images.networks.named import FrozenNetwork
    from noisegate_papers.training.perceptual_matching import PerceptualMatching


Preset: TypeAlias = Literal["default", "paper", "paper-grey"]
"""This library's settings, and the paper's for CIFAR-10 and CelebA, and for MNIST and FashionMNIST: section 6, Tables 7
and 8, and the authors' program, at one learning rate; benchmarks/dp_mepf/mepf_rates.py has those of Table 7."""

RESNET18 = "torchvision:resnet18"
BLOCKS = tuple(f"layer{stage}.{block}" for stage in range(1, 5) for block in range(2))
"""The eight residual blocks of a ResNet18, whose outputs, after their ReLU, are the features of grey images."""

_LOSS: Mapping[str, Any] = {
    **{"schedule": "constant", "loss": "moving-average", "average_eps": 1e-8, "average_reduction": "mean"},
    **{"ema_decay": 0.0, "class_power": 0.0, "check_every": 5000, "check_images": 5000},
}

FIT: Mapping[Preset, Mapping[str, Any]] = {
    "default": {},
    # Labelled CIFAR-10, φ₁ alone, ε of 5 or more.
    "paper": {**_LOSS, "steps": 200_000, "batch": 128, "learning_rate": 1e-3, "average_rate": 1e-4},
    # MNIST, any ε.
    "paper-grey": {**_LOSS, "steps": 100_000, "batch": 100, "learning_rate": 1e-5, "average_rate": 1e-4},
}
"""Changes to the fit, by preset."""


Stopping: TypeAlias = Literal["private", "none", "discrepancy"]

FIRST, SECOND = "first-moments", "second-moments"
STOPPING = {FIRST: "stopping-first", SECOND: "stopping-second"}
"""The query for early stopping that belongs to each moment."""


@register("dp-mepf", "mepf")
@settings
class DPMEPF(NetworkMethod, MatchedMethod):
    """Settings of DP-MEPF; none of them depends on private data.

    Examples:
        >>> from noisegate import Budget, DPMEPF
        >>> from noisegate.schema import pixel_schema
        >>> schema = pixel_schema(8, 8, labels=("cat", "dog"))
        >>> plan = DPMEPF.for_schema(schema).plan(schema, Budget(epsilon=1.0))
        >>> {event.name: event.coordinates for event in plan.events}
        {'first-moments': 4000, 'counts': 2}
        >>> round(plan.epsilon, 6)
        1.0
    """

    audit_on: ClassVar = "images"
    audit_settings: ClassVar[Mapping[str, Any]] = {"latent": 4, "hidden": (8,), "channels": (4, 2)}

    stopping_network: str | None = None
    """What candidates are compared by for private stopping, "inception:v3" as in the paper; None for the means of the
    channels of `network`."""
    stopping_weights: str | None = None
    """File of its weights; those of pytorch-fid in torch's cache by default, and never downloaded."""
    stopping_sha256: str | None = None
    """What that file hashes to."""
    fit_class = PerceptualFitSettings

    preset: Preset = "default"
    """"default", "paper": VGG-19, both moments, private early stopping, residual generator, 200,000 steps; or
    "paper-grey", for MNIST: blocks of a ResNet18, both moments, a small generator, 100,000 steps."""
    network: str = by_preset("encoder", paper="torchvision:vgg19", paper_grey=RESNET18)
    """"encoder", the one of the package, "torchvision:NAME" or "timm:NAME"."""
    moments: Annotated[Literal[1, 2], "1 or 2"] = by_preset(1, paper=2, paper_grey=2)
    """1, or 2 for the squares of activations too."""
    stopping: Stopping = by_preset("none", paper="private")
    """"private", "none", or "discrepancy": when the distance is what the noise alone would leave."""
    first_share: Share = 1.0
    """Budget share of φ₁."""
    second_share: Share = 1.0
    """Budget share of φ₂."""
    counts_share: Share = 0.01
    """Budget share of the counts."""
    stopping_share: Share = 0.01
    """Budget share of each embedding for early stopping, as a part of its moment's: noise that is ten times larger, as
    in the paper's code."""
    generator: ImageKind = by_preset("convolutional", paper="residual")
    """"convolutional", "residual", "sub-pixel" or "fully-connected"."""
    latent: Count = by_preset(32, paper=90, paper_grey=10)
    """Length of its noise vector. The paper's for grey images has 10 numbers beside the one-hot label, as DP-MERF's."""
    hidden: Widths = by_preset((200,), paper=(), paper_grey=(500,))
    """Widths of its fully connected layers."""
    channels: Widths = ()
    """Of its convolutions; empty for the papers'."""
    components: int = field(default=1, init=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as JSON; those of the second network, which earlier versions had not, where given."""
        given = super().to_json()
        return {name: value for name, value in given.items() if value is not None or not name.startswith("stopping_")}

    def compared(self) -> Activations:
        """Returns the map whose mean embedding says when to stop; a UserError if its network is not here."""
        network = self._stopping_encoder()
        if network is None:
            return self.activations(pool=True)
        return chosen_activations(network, network.layers, self.shape, pool=True)

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns the settings, with the digests of the networks that were used."""
        facts, network = super().public_facts(schema), self._stopping_encoder()
        if network is not None:
            facts["settings"]["stopping_sha256"] = network.sha256
        return facts

    def _stopping_encoder(self) -> FrozenNetwork | None:
        from noisegate_images.networks.named import load_network

        if self.stopping_network is None:
            return None
        return load_network(self.stopping_network, self.stopping_weights, self.stopping_sha256)

    def __post_init__(self) -> None:
        if self.preset == "paper-grey" and self.network == RESNET18 and not self.layers:
            object.__setattr__(self, "layers", BLOCKS)
        default = residual_channels(self.shape) if self.generator == "residual" else (16, 8)
        object.__setattr__(self, "channels", self.channels or default)
        super().__post_init__()

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the sums of each moment, and of all records together where these say when to stop."""
        from noisegate_images.features.perceptual import Perceptual

        check_image_schema(schema, self.shape, labelled=False)
        shares = {FIRST: self.first_share} | ({SECOND: self.second_share} if self.moments == 2 else {})
        embeddings: dict[str, Embedding] = {}
        # Those for stopping are of means of channels: few numbers, as they have much more noise.
        for pool in (False, True)[: 1 + (self.stopping == "private")]:
            activations = self.compared() if pool else self.activations(pool=False)
            moments: tuple[Literal[1, 2], ...] = (1, 2)
            for (name, share), moment in zip(shares.items(), moments, strict=False):
                perceptual = Perceptual(activations=activations, moment=moment)
                if pool:
                    embeddings[STOPPING[name]] = Embedding(perceptual, self.stopping_share * share, per_class=False)
                else:
                    embeddings[name] = Embedding(perceptual, share)
        return embeddings

    @property
    def fit_defaults(self) -> Mapping[str, Any]:
        """What the fit has otherwise."""
        return {**FIT[self.preset], "stop_at_noise": self.stopping == "discrepancy"}

    def error_bounds(self, schema: Schema, budget: Budget, records: int) -> tuple[ErrorBound | NoiseBounds, ...]:
        """Returns what the noise on the moments costs the generator; the queries for stopping change nothing in it."""
        plan = self.plan(schema, budget)
        return (noise_bounds([plan.release(name) for name in (FIRST, SECOND)[: self.moments]], records=records),)

    def fitting(self, release: Release, *, device: str = "auto", plan: Any = None) -> PerceptualMatching:
        """Returns the fit of a release, ready to run, to save and to restore."""
        from noisegate.devices import choose_device
        from noisegate.features.feature_map import torch_forms
        from noisegate_images.training.moment_matching import read_target
        from noisegate_papers.training.perceptual_matching import PerceptualMatching, Validation

        target, maps = read_target(release, counts=COUNTS), plan.maps if plan else self.maps(release.schema)
        pooled = {name: maps[name] for name in STOPPING.values() if name in maps}
        # Candidates are compared with released sums over all records, by their released number.
        validation = Validation(
            means={name: release.values[name][:, 0] / target.records for name in pooled},
            embeddings=torch_forms(pooled),
            weights=target.weights,
            images=self.fit_settings().check_images,
        )
        return PerceptualMatching(
            self.initial_generator(release, len(target.weights)),
            target,
            torch_forms({name: one for name, one in maps.items() if name in STOPPING}),
            self.fit_settings(),
            validation=validation if pooled else None,
            seed=self.seed,
            device=choose_device(device),
        )
