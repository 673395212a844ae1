"""DP-SGD: a classifier trained on clipped, noisy gradients; no record is made.

Abadi et al. (CCS 2016), https://arxiv.org/abs/1607.00133. It is for images PSG's ConvNet, for a table its perceptron. A
sum of gradients is divided by the public number of records, never by the size of the sample. What differs is in
[differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.errors import OptionError
from noisegate.gate.per_example.gradients import RecordLoss, label_loss
from noisegate.methods.abilities import StatesPublicFacts
from noisegate.methods.gradient import GradientMethod, LearnsByGradients, Trainer
from noisegate.methods.method import AUDITED_STEPS
from noisegate.methods.registry import register
from noisegate.privacy.gradient_plan import GradientQuery
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.settings import Count, ImageSize, Positive, Unit, Widths, settings
from noisegate_images.models.image_network import check_image_schema
from noisegate_papers.methods.steps import (
    StepSettings,
    TrainsClassifier,
    released_arrays,
    weight_shapes,
)
from noisegate_papers.models.inputs import Inputs, class_label, inputs_of, scaled_inputs
from noisegate_papers.models.released_classifier import (
    ClassifierDesign,
    NetworkClassifier,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

NETWORK = "network"
"""The event of the steps, and the name of what is released."""


@register("dp-sgd")
@settings
class DPSGD(
    StepSettings,
    TrainsClassifier,
    LearnsByGradients,
    GradientMethod,
    StatesPublicFacts,
):
    """DP-SGD: a neural network classifier with clipped, noisy gradients (Abadi et al. 2016).

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate_papers.methods.dp_sgd import DPSGD
        >>> from noisegate.schema import Boolean, Integer
        >>> from noisegate.testing import FakeGate
        >>> schema = Schema((Integer(name="age", lower=0, upper=99), Boolean(name="ill")), label="ill")
        >>> classifier = DPSGD(hidden=(4,), steps=3).fit(FakeGate(schema, rows=50))
        >>> classifier.classes, round(classifier.certificate.epsilon)
        ((False, True), 1000)
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {
        **AUDITED_STEPS,
        "hidden": (8,),
        "clip_norm": 0.01,
    }

    image: ImageSize | None = None
    """Height, width and channels of the images; None for a table."""
    width: Count = 32
    """Channels of each block of the ConvNet; for images."""
    depth: Count = 3
    """Number of blocks of the ConvNet."""
    hidden: Widths = (64,)
    """Widths of the perceptron's hidden layers; for tables."""
    learning_rate: Positive = 0.2
    """Learning rate of the average of the clipped gradients."""
    momentum: Unit = 0.9
    """Share of the velocity that is preserved in a step."""
    ema_decay: Unit = 0.95
    """Decay of the moving average of the weights over the steps, which is released; 0 releases the weights of the last
    step."""
    centre: Unit = 0.5
    """Position between the bounds of a numeric column that is encoded as 0: 0.5 if unknown, 0 for ink on a page."""
    start: str | None = None
    """Folder of a classifier of this method to continue from, which must be public; None for new initial weights."""

    def __post_init__(self) -> None:
        if self.momentum == 1:
            raise OptionError(
                "momentum=1 forgets no gradient, so that steps grow for ever; give less, such as 0.9."
            )

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientQuery:
        """Returns the steps; refuses a schema without a label of two levels, or with no other column."""
        return self.steps_of(NETWORK, weight_shapes(self._network(schema)))

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the loss of a record: the cross-entropy of its label by the network."""
        return label_loss(
            self._network(schema), scaled_inputs(self._inputs(schema), schema), schema
        )

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> Trainer:
        """Returns the training of the network's weights in its initial state."""
        from noisegate_images.training.adam import NoisyMomentum

        return NoisyMomentum(
            self._start(schema),
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            ema_decay=self.ema_decay,
            batch=batch,
            device=device,
        )

    def classifier(self, release: Release) -> NetworkClassifier:
        """Returns the classifier in a release.

        Raises:
            ModelError: if the release is of another method, schema or settings.
        """
        schema = release.schema
        inputs, shapes = self._inputs(schema), weight_shapes(self._network(schema))
        arrays = released_arrays(
            release, NETWORK, shapes, what=f"weights of {self._design}"
        )
        return NetworkClassifier(
            weights={name: value.numpy() for name, value in arrays.items()},
            design=self._design,
            classes=class_label(schema, _NETWORK_LABEL).levels,
            inputs=inputs,
            release=release,
        )

    def facts_beside_settings(self, schema: Schema) -> dict[str, Any]:
        """Returns the digest of the certificate of the classifier `start`, if there is one."""
        if self.start is None:
            return {}
        start_certificate = NetworkClassifier.load(self.start).certificate
        return {"start_certificate": start_certificate.digest()}

    def _start(self, schema: Schema) -> dict[str, Tensor]:
        """Returns the weights before the first step: fresh ones, or those of a classifier.

        Raises:
            OptionError: if the classifier has other inputs, classes or layers.
        """
        import torch

        fresh: dict[str, Tensor] = dict(self._network(schema).named_parameters())
        if self.start is None:
            return fresh
        start = NetworkClassifier.load(self.start)
        classes = class_label(schema, _NETWORK_LABEL).levels
        is_same = (
            start.design == self._design
            and start.inputs == self._inputs(schema)
            and start.classes == classes
        )
        if not is_same:
            raise OptionError(
                f"start={self.start!r} holds {start.design} of other columns or classes "
                f"than are asked for, or of another centre: {self._design} is to be "
                "trained; give its settings, or leave start out."
            )
        return {name: torch.from_numpy(start.weights[name].copy()) for name in fresh}

    @property
    def _design(self) -> ClassifierDesign:
        return ClassifierDesign(
            image=self.image, width=self.width, depth=self.depth, hidden=self.hidden
        )

    def _network(self, schema: Schema) -> nn.Module:
        inputs = len(self._inputs(schema).names)
        return self._design.build(inputs, schema.layout.classes, seed=self.seed)

    def _inputs(self, schema: Schema) -> Inputs:
        if self.image is not None:
            check_image_schema(schema, self.shape)
        class_label(schema, _NETWORK_LABEL)
        return inputs_of(
            schema, centre=self.centre, otherwise="there is nothing to predict it from"
        )


_NETWORK_LABEL = (
    "dp-sgd predicts a label: name a column with levels as the label of the schema."
)
