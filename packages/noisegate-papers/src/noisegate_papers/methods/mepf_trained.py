"""DP-MEPF without public images: the encoder is trained on the private ones, by DP-SGD, at the same gate.

Harder, Jalali Asadabadi, Sutherland and Park (TMLR 2023), https://openreview.net/forum?id=R6W7zkMz0P, appendix F, and
the dissertation's. One plan has noisy gradients of a ConvNet classifier first, then the queries, whose maps,
activations after each ReLU, hold what was trained. They depend on earlier answers alone, and their vectors have norm 1
whatever the weights are, so nothing but the events of the plan is paid for. The classifier is released with the
embedding.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.errors import ModelError, OptionError, SchemaError
from noisegate.gate.per_example.gradients import RecordLoss, label_loss
from noisegate.methods.gradient import GradientMethod, Trainer
from noisegate.methods.method import Method
from noisegate.methods.registry import register
from noisegate.privacy.gradient_plan import CalibratedGradientPlan, GradientPlan
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.settings import Count, Fraction, Share, settings
from noisegate_papers.methods.generative import DescentMethod, released_arrays, weight_shapes
from noisegate_papers.methods.mepf import DPMEPF

if TYPE_CHECKING:
    from jaxtyping import Float, Int64
    from torch import Tensor, nn

    from noisegate.features.feature_map import FeatureMap
    from noisegate_images.networks.named import FrozenNetwork
    from noisegate_papers.training.perceptual_matching import PerceptualMatching

ENCODER = "encoder"
"""The event of the training, and what is released of it."""

_OWN = "trained"
_MEAN, _STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)


@register("dp-mepf-trained")
@settings
class DPMEPFTrained(GradientMethod, DPMEPF):  # type: ignore[misc]
    """Settings of DP-MEPF with an encoder of its own; none of them depends on private data.

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
        **{"encoder_width": 4, "encoder_depth": 2, "encoder_steps": 20, "encoder_sampling_probability": 0.2},
    }

    renamed: ClassVar[Mapping[str, str]] = {
        f"encoder_{old}": f"encoder_{name}" for old, name in DescentMethod.renamed.items()
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
            raise OptionError(
                f"{self.name} trains its network itself; leave out network, its file and stopping_network."
            )

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientPlan:
        """Returns the steps of the encoder and the queries after them; refuses images without a label."""
        module = self._fresh(schema)
        queries = self._with(module).sum_queries(schema, budget)
        return GradientPlan(
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

        def image(numeric: Float[Tensor, " pixels"], codes: Int64[Tensor, " coded"]) -> Float[Tensor, "..."]:
            rows = numeric.reshape(shape.height, shape.width, shape.channels).permute(2, 0, 1)
            return (rows.expand(3, -1, -1) - _MEAN[0]) / _STD[0]

        return label_loss(self._fresh(schema), image, schema)

    def training(self, schema: Schema, plan: CalibratedGradientPlan, batch: float, device: str) -> Trainer:
        """Returns Adam on the encoder's weights; see `GradientMethod`."""
        from noisegate_images.training.adam import NoisyDescent

        start = dict(self._fresh(schema).named_parameters())
        return NoisyDescent(start, learning_rate=self.encoder_learning_rate, batch=batch, device=device)

    def queries(self, schema: Schema, budget: Budget, trained: Mapping[str, Tensor]) -> Mapping[str, FeatureMap]:
        """Returns the maps by the encoder that was trained."""
        module = self._fresh(schema)
        module.load_state_dict({name: value.cpu() for name, value in trained.items()})
        return {query.name: query.feature_map for query in self._with(module).sum_queries(schema, budget)}

    def fitting(self, release: Release, *, device: str = "auto", plan: Any = None) -> PerceptualMatching:
        """Returns the fit of a release, with the encoder that is in it."""
        module = self._fresh(release.schema)
        module.load_state_dict(released_arrays(release, ENCODER, weight_shapes(module), what="encoder of this size"))
        return super(DPMEPFTrained, self._with(module)).fitting(release, device=device)

    def _fresh(self, schema: Schema) -> nn.Module:
        """Returns the encoder with its weights at the start."""
        from noisegate_images.networks.classifiers import build_convnet

        if schema.layout.label is None:
            raise SchemaError(f"{self.name} trains its encoder to tell labels apart; name a label, or take dp-mepf.")
        colour, classes = replace(self.shape, channels=3), schema.layout.classes
        return build_convnet(colour, classes, width=self.encoder_width, depth=self.encoder_depth, seed=self.seed)

    def _with(self, module: nn.Module) -> DPMEPFTrained:
        """Returns the same method with an encoder."""
        from noisegate_images.networks.classifiers import frozen_convnet

        result = copy.copy(self)
        object.__setattr__(result, "_encoder", frozen_convnet(module, mean=_MEAN, std=_STD))
        return result

    def public_network(self) -> FrozenNetwork:
        """Returns the encoder, once it is trained."""
        network: FrozenNetwork | None = getattr(self, "_encoder", None)
        if network is None:
            raise ModelError(f"the feature maps of {self.name} are known once its encoder is trained.")
        return network

    # Not those of a network that is here before the training.
    public_facts, check_fit = Method.public_facts, Method.check_fit

    def error_bounds(self, schema: Schema, budget: Budget, records: int) -> tuple[()]:
        """Returns none: what is known of the error is of a generator that is matched."""
        return ()
