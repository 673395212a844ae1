"""DP-MEPF: mean embeddings of perceptual features, by a public network or by one that is trained on the private images.

Harder, Jalali Asadabadi, Sutherland and Park (TMLR 2023), https://openreview.net/forum?id=R6W7zkMz0P; without public
images appendix F. What differs is in docs/differences.md.

Harder, Jalali Asadabadi, Sutherland and Park (TMLR 2023),
https://openreview.net/forum?id=R6W7zkMz0P. One plan releases class-wise sums of the
activations of a public network (φ₁), of their squares (φ₂), and counts, which a
generator is then fitted to. For early stopping, a second, unlabelled mean embedding is
released with ten times the noise, and the generator that comes closest to it is kept.
What differs is in [differences](../../docs/differences.md).

Without public images (appendix F, and the dissertation's) the plan has noisy gradients
of a ConvNet classifier first, then the queries, whose maps, activations after each
ReLU, hold what was trained; it is released with the embedding.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from noisegate.errors import ModelError, OptionError, SchemaError
from noisegate.gate.per_example.gradients import RecordLoss, label_loss
from noisegate.methods.abilities import BoundsErrors
from noisegate.methods.embedding import COUNTS, Embedding
from noisegate.methods.gradient import GradientMethod, Trainer
from noisegate.methods.method import Method
from noisegate.methods.registry import register
from noisegate.privacy.gradient_plan import GradientQuery
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.queries.feature_map import FeatureMap, torch_forms
from noisegate.schema import Schema
from noisegate.settings import Count, Fraction, Share, Widths, by_preset, settings
from noisegate_images.methods.matched import MatchedMethod, NetworkMethod
from noisegate_images.models.image_network import (
    ImageKind,
    check_image_schema,
    residual_channels,
)
from noisegate_images.queries.perceptual import (
    Activations,
    Perceptual,
    chosen_activations,
)
from noisegate_papers.methods.generative import (
    DescentMethod,
    released_arrays,
    weight_shapes,
)
from noisegate_papers.queries.error_bounds import ErrorBound, NoiseBounds, noise_bounds
from noisegate_papers.training.schedules import PerceptualFitSettings

if TYPE_CHECKING:
    from jaxtyping import Float, Int64
    from torch import Tensor, nn

    from noisegate_images.networks.named import FrozenNetwork
    from noisegate_papers.training.perceptual_matching import PerceptualMatching

Preset: TypeAlias = Literal["default", "paper", "paper-grey"]
"""This library's settings, and the paper's for CIFAR-10 and CelebA, and for MNIST and FashionMNIST: section 6, Tables 7
and 8, and the authors' program, at one learning rate; benchmarks/dp_mepf/mepf_rates.py has those of Table 7."""

RESNET18 = "torchvision:resnet18"
BLOCKS = tuple(f"layer{stage}.{block}" for stage in range(1, 5) for block in range(2))
"""The eight residual blocks of a ResNet18, whose outputs, after their ReLU, are the features of grey images."""

_LOSS: Mapping[str, Any] = {
    **{
        "schedule": "constant",
        "loss": "moving-average",
        "average_eps": 1e-8,
        "average_reduction": "mean",
    },
    **{"ema_decay": 0.0, "class_power": 0.0, "check_every": 5000, "check_images": 5000},
}

FIT: Mapping[Preset, Mapping[str, Any]] = {
    "default": {},
    # Labelled CIFAR-10, φ₁ alone, ε of 5 or more.
    "paper": {
        **_LOSS,
        "steps": 200_000,
        "batch": 128,
        "learning_rate": 1e-3,
        "average_rate": 1e-4,
    },
    # MNIST, any ε.
    "paper-grey": {
        **_LOSS,
        "steps": 100_000,
        "batch": 100,
        "learning_rate": 1e-5,
        "average_rate": 1e-4,
    },
}
"""Changes to the fit, by preset."""


FIRST, SECOND = "first-moments", "second-moments"
STOPPING = {FIRST: "stopping-first", SECOND: "stopping-second"}
"""The query for early stopping that belongs to each moment."""


@register("dp-mepf", "mepf")
@settings
class DPMEPF(NetworkMethod, MatchedMethod, BoundsErrors):
    """DP-MEPF: mean embeddings by a public network, for photographs (Harder et al. 2023).

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
    audit_settings: ClassVar[Mapping[str, Any]] = {
        "latent": 4,
        "hidden": (8,),
        "channels": (4, 2),
    }

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
    stopping: Literal["private", "none", "discrepancy"] = by_preset(
        "none", paper="private"
    )
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
        return {
            name: value
            for name, value in given.items()
            if value is not None or not name.startswith("stopping_")
        }

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
        return load_network(
            self.stopping_network, self.stopping_weights, self.stopping_sha256
        )

    def __post_init__(self) -> None:
        if self.preset == "paper-grey" and self.network == RESNET18 and not self.layers:
            object.__setattr__(self, "layers", BLOCKS)
        default = (
            residual_channels(self.shape) if self.generator == "residual" else (16, 8)
        )
        object.__setattr__(self, "channels", self.channels or default)
        super().__post_init__()

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the sums of each moment, and of all records together where these say when to stop."""
        check_image_schema(schema, self.shape, labelled=False)
        shares = {FIRST: self.first_share} | (
            {SECOND: self.second_share} if self.moments == 2 else {}
        )
        embeddings: dict[str, Embedding] = {}
        # Those for stopping are of means of channels: few numbers, as they have much more noise.
        for pool in (False, True)[: 1 + (self.stopping == "private")]:
            activations = self.compared() if pool else self.activations(pool=False)
            moments: tuple[Literal[1, 2], ...] = (1, 2)
            for (name, share), moment in zip(shares.items(), moments, strict=False):
                perceptual = Perceptual(activations=activations, moment=moment)
                if pool:
                    embeddings[STOPPING[name]] = Embedding(
                        perceptual, self.stopping_share * share, per_class=False
                    )
                else:
                    embeddings[name] = Embedding(perceptual, share)
        return embeddings

    @property
    def fit_defaults(self) -> Mapping[str, Any]:
        """What the fit has otherwise."""
        return {**FIT[self.preset], "stop_at_noise": self.stopping == "discrepancy"}

    def error_bounds(
        self, schema: Schema, budget: Budget, records: int
    ) -> tuple[ErrorBound | NoiseBounds, ...]:
        """Returns what the noise on the moments costs the generator; the queries for stopping change nothing in it."""
        plan = self.plan(schema, budget)
        return (
            noise_bounds(
                [plan.release(name) for name in (FIRST, SECOND)[: self.moments]],
                records=records,
            ),
        )

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> PerceptualMatching:
        """Returns the fit of a release, ready to run, to save and to restore."""
        from noisegate.devices import choose_device
        from noisegate_images.training.moment_matching import read_target
        from noisegate_papers.training.perceptual_matching import (
            PerceptualMatching,
            Validation,
        )

        target, maps = (
            read_target(release, counts=COUNTS),
            plan.maps if plan else self.maps(release.schema),
        )
        pooled = {name: maps[name] for name in STOPPING.values() if name in maps}
        # Candidates are compared with released sums over all records, by their released number.
        validation = Validation(
            means={
                name: release.values[name][:, 0] / target.records for name in pooled
            },
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


ENCODER = "encoder"  # the event of the training, and what is released of it

_OWN = "trained"
_MEAN, _STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)


@register("dp-mepf-trained")
@settings
class DPMEPFTrained(GradientMethod, DPMEPF):
    """DP-MEPF with an encoder of its own, trained by DP-SGD.

    They are those of `DPMEPF` but for `network`, `weights`, `sha256` and `stopping_network`, and those of the encoder.

    Examples:
        >>> from noisegate import Budget, DPMEPFTrained
        >>> from noisegate.schema import pixel_schema
        >>> schema = pixel_schema(8, 8, labels=range(2))
        >>> plan = DPMEPFTrained.for_schema(schema).plan(schema, Budget(epsilon=1.0))
        >>> [event.name for event in plan.events]
        ['first-moments', 'counts', 'encoder']
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {
        **DPMEPF.audit_settings,
        **{
            "encoder_width": 4,
            "encoder_depth": 2,
            "encoder_steps": 20,
            "encoder_sampling_probability": 0.2,
        },
    }

    renamed: ClassVar[Mapping[str, str]] = {
        f"encoder_{old}": f"encoder_{name}"
        for old, name in DescentMethod.renamed.items()
    }

    network: str = _OWN
    """The encoder."""
    encoder_width: Count = 32
    """Channels of each block of the encoder."""
    encoder_depth: Count = 3
    """Its blocks."""
    encoder_steps: Count = 300
    """How many noisy gradients it is trained with."""
    encoder_sampling_probability: Fraction = 0.02
    """Poisson sampling probability per step."""
    encoder_clip_norm: Share = 1.0
    """L2 norm that the gradient of each record is clipped to."""
    encoder_learning_rate: Share = 2e-3
    """Of Adam."""
    encoder_share: Share = 1.0
    """Budget share of the training, beside those of the queries."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.network != _OWN or self.weights or self.sha256 or self.stopping_network:
            cure = "leave out network, its file and stopping_network."
            raise OptionError(f"{self.name} trains its network itself; {cure}")

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientQuery:
        """Returns the steps of the encoder and the queries after them; refuses images without a label."""
        module = self._fresh(schema)
        queries = self._with(module).sum_queries(schema, budget)
        return GradientQuery(
            name=ENCODER,
            steps=self.encoder_steps,
            sampling_probability=self.encoder_sampling_probability,
            clip_norm=self.encoder_clip_norm,
            parameters=weight_shapes(module),
            queries=tuple(replace(one, feature_map=None) for one in queries),
            share=self.encoder_share,
        )

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the loss of one image: the cross-entropy of its label."""
        shape = self.shape

        def image(
            numeric: Float[Tensor, " pixels"], codes: Int64[Tensor, " coded"]
        ) -> Float[Tensor, "..."]:
            rows = numeric.reshape(shape.height, shape.width, shape.channels).permute(
                2, 0, 1
            )
            return (rows.expand(3, -1, -1) - _MEAN[0]) / _STD[0]

        return label_loss(self._fresh(schema), image, schema)

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> Trainer:
        """Returns Adam on the encoder's weights; see `GradientMethod`."""
        from noisegate_images.training.adam import NoisyDescent

        start = dict(self._fresh(schema).named_parameters())
        return NoisyDescent(
            start, learning_rate=self.encoder_learning_rate, batch=batch, device=device
        )

    def queries(
        self, schema: Schema, budget: Budget, trained: Mapping[str, Tensor]
    ) -> Mapping[str, FeatureMap]:
        """Returns the maps by the encoder that was trained."""
        module = self._fresh(schema)
        module.load_state_dict({name: value.cpu() for name, value in trained.items()})
        return {
            query.name: query.feature_map
            for query in self._with(module).sum_queries(schema, budget)
        }

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> PerceptualMatching:
        """Returns the fit of a release, with the encoder that is in it."""
        module = self._fresh(release.schema)
        module.load_state_dict(
            released_arrays(
                release, ENCODER, weight_shapes(module), what="encoder of this size"
            )
        )
        return DPMEPF.fitting(self._with(module), release, device=device)

    def _fresh(self, schema: Schema) -> nn.Module:
        """Returns the encoder with its weights at the start."""
        from noisegate_images.networks.classifiers import build_convnet

        if schema.layout.label is None:
            raise SchemaError(
                f"{self.name} trains its encoder to tell labels apart; name a label, or take dp-mepf."
            )
        colour, classes = replace(self.shape, channels=3), schema.layout.classes
        return build_convnet(
            colour,
            classes,
            width=self.encoder_width,
            depth=self.encoder_depth,
            seed=self.seed,
        )

    def _with(self, module: nn.Module) -> DPMEPFTrained:
        from noisegate_images.networks.classifiers import frozen_convnet

        result = copy.copy(self)
        object.__setattr__(
            result, "_encoder", frozen_convnet(module, mean=_MEAN, std=_STD)
        )
        return result

    def public_network(self) -> FrozenNetwork:
        """Returns the encoder, once it is trained."""
        network: FrozenNetwork | None = getattr(self, "_encoder", None)
        if network is None:
            raise ModelError(
                f"the feature maps of {self.name} are known once its encoder is trained."
            )
        return network

    # Not those of a network that is here before the training.
    public_facts, check_fit = Method.public_facts, Method.check_fit

    def error_bounds(self, schema: Schema, budget: Budget, records: int) -> tuple[()]:
        """Returns none: what is known of the error is of a generator that is matched."""
        return ()
