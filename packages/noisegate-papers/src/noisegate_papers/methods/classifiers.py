"""Classifiers trained on noisy gradients; no record is made. What differs is in docs/differences.md.

DP-SGD: Abadi et al. (CCS 2016), https://arxiv.org/abs/1607.00133. DP-LLM: Harder, Bauer and Park (AAAI 2020),
https://arxiv.org/abs/1906.02004, linear in one parameter, so that the gate takes its gradients in two factors.

DP-SGD, Abadi et al. (CCS 2016), https://arxiv.org/abs/1607.00133, is for images PSG's
ConvNet, for a table its perceptron. A sum of gradients is divided by the public number
of records, never by the size of the sample.

DP-LLM, Harder, Bauer and Park (AAAI 2020), https://arxiv.org/abs/1906.02004, is linear
in one parameter (`noisegate_papers.models.locally_linear`), so the gate takes its
gradients in two factors. What differs is in [differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from noisegate.errors import OptionError
from noisegate.gate.per_example.gradients import (
    FactoredLoss,
    RecordLoss,
    cross_entropy,
    label_loss,
)
from noisegate.methods.gradient import Trainer
from noisegate.methods.method import AUDITED_STEPS
from noisegate.methods.registry import register
from noisegate.privacy.gradient_plan import GradientQuery, steps_of
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.schema import CodedColumn, Schema
from noisegate.settings import (
    Count,
    Fraction,
    ImageSize,
    Positive,
    Unit,
    Widths,
    settings,
)
from noisegate_images.models.image_network import check_image_schema
from noisegate_papers.methods.generative import (
    ClassifierMethod,
    released_arrays,
    weight_shapes,
)
from noisegate_papers.models.inputs import Inputs, class_label, inputs_of, scaled_inputs
from noisegate_papers.models.locally_linear import (
    LocallyLinear,
    Projection,
    draw_projection,
    locally_linear_scores,
)
from noisegate_papers.models.released_classifier import (
    ClassifierDesign,
    NetworkClassifier,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

NETWORK = "network"  # the event


@register("dp-sgd")
@settings
class DPSGD(ClassifierMethod):
    """DP-SGD: a neural network classifier with clipped, noisy gradients (Abadi et al. 2016).

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate_papers.methods.classifiers import DPSGD
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
    """Its blocks."""
    hidden: Widths = (64,)
    """Widths of the perceptron's hidden layers; for tables."""
    learning_rate: Positive = 0.2
    """Of the mean of the clipped gradients."""
    momentum: Unit = 0.9
    """What is kept of the velocity in a step."""
    ema_decay: Unit = 0.95
    """Of the average of the weights over the steps, which is what is kept; 0 keeps the weights after the last step."""
    centre: Unit = 0.5
    """Position between the bounds of a numeric column that counts as nothing: 0.5 if unknown, 0 for ink on a page."""
    start: str | None = None
    """Folder of a classifier of this method to go on from, which is taken as public; None for fresh weights."""

    def __post_init__(self) -> None:
        if self.momentum == 1:
            raise OptionError(
                "momentum=1 forgets no gradient, so that steps grow for ever; give less, such as 0.9."
            )

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientQuery:
        """Returns the steps; refuses a schema without a label of two levels, or with nothing beside it."""
        return self.steps_of(NETWORK, weight_shapes(self._network(schema)))

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the cross-entropy of a record's label, by the network."""
        return label_loss(
            self._network(schema), scaled_inputs(self._inputs(schema), schema), schema
        )

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> Trainer:
        """Returns the network's weights at their start, to be moved by noisy gradients."""
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
        """Returns the classifier in a release; a ModelError if that is of another method, schema or settings."""
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

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns what is taken as public: the settings, and the certificate of the classifier at the start."""
        start = (
            None
            if self.start is None
            else NetworkClassifier.load(self.start).certificate.digest()
        )
        return super().public_facts(schema) | (
            {} if start is None else {"start_certificate": start}
        )

    def _start(self, schema: Schema) -> dict[str, Tensor]:
        import torch

        fresh: dict[str, Tensor] = dict(self._network(schema).named_parameters())
        if self.start is None:
            return fresh
        before, classes = (
            NetworkClassifier.load(self.start),
            class_label(schema, _NETWORK_LABEL).levels,
        )
        if (before.design, before.inputs, before.classes) != (
            self._design,
            self._inputs(schema),
            classes,
        ):
            raise OptionError(
                f"start={self.start!r} holds {before.design} of other columns or classes than are asked for, or of "
                f"another centre: {self._design} is to be trained; give its settings, or leave start out."
            )
        return {name: torch.from_numpy(before.weights[name].copy()) for name in fresh}

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


WEIGHT = "weight"


@register("dp-llm")
@settings
class DPLLM(ClassifierMethod):
    """DP-LLM: an interpretable classifier of locally linear maps, trained by DP-SGD (Harder et al. 2020).

    Examples:
        >>> from noisegate import Budget, DPLLM, Schema
        >>> from noisegate.schema import Boolean
        >>> schema = Schema([Boolean(name="ill"), Boolean(name="old")], label="ill")
        >>> [event.name for event in DPLLM().plan(schema, Budget(epsilon=1.0)).events]
        ['weight']
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {**AUDITED_STEPS, "maps": 2}

    renamed: ClassVar[Mapping[str, str]] = {"spread": "init_std"}

    maps: Count = 10
    """M: linear maps of each class."""
    projection: Count | None = None
    """Dimensions that each map's inputs are projected to at random; None, or as many as there are inputs, for none."""
    temperature: Positive = 10.0
    """T: how many maps have a say; the softmax over maps is of their answers over T."""
    steps: Count = 250
    sampling_probability: Fraction = 0.1
    clip_norm: Positive = 0.05
    learning_rate: Positive = 1.0
    """Of Adam."""
    decay: Fraction = 0.8
    """What the learning rate is multiplied by after every quarter of the steps."""
    init_std: Positive = 0.3
    """Standard deviation of the initial weights."""
    centre: Unit | None = None
    """Position between the bounds that counts as nothing, 0 for ink; None to make the columns' mean as short as one."""

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientQuery:
        """Returns the steps on the weights of all maps; refuses a schema without a label or anything beside it."""
        classes = _label(schema).size
        return self.steps_of(
            WEIGHT,
            {WEIGHT: self._projection(self._inputs(schema)).shape(classes)},
            factored=True,
        )

    def loss(self, schema: Schema) -> FactoredLoss:
        """Returns the loss of one record: the cross-entropy of its label."""
        inputs, label = self._inputs(schema), schema.layout.label
        projection, others = self._projection(inputs), list(schema.layout.others)
        return FactoredLoss(
            inputs=lambda numeric, codes: projection(
                inputs(numeric, codes[..., others])
            ),
            loss=lambda answers, numeric, codes: cross_entropy(
                locally_linear_scores(answers.reshape(self.maps, -1), self.temperature),
                codes[label],
            ),
        )

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> Trainer:
        """Returns Adam on the maps' weights."""
        import torch

        from noisegate_images.training.adam import NoisyDescent

        # Another stream than that of the projection, from the same seed.
        random = np.random.Generator(np.random.Philox(self.seed).jumped())
        start = random.standard_normal(
            steps_of(plan).query.parameters[WEIGHT], dtype=np.float32
        ) * np.float32(self.init_std)
        start[..., -1] = 0
        return NoisyDescent(
            {WEIGHT: torch.from_numpy(start)},
            learning_rate=self.learning_rate,
            batch=batch,
            device=device,
            schedule=lambda step: self.decay ** (4 * step // self.steps),
        )

    def classifier(self, release: Release) -> LocallyLinear:
        """Returns the classifier in a release; a ModelError if that is of another method, schema or settings."""
        inputs, label = self._inputs(release.schema), _label(release.schema)
        projection = self._projection(inputs)
        shape = projection.shape(label.size)
        arrays = released_arrays(
            release, WEIGHT, {WEIGHT: shape}, what=f"weights of shape {shape}"
        )
        weights, bias = projection.unfold(arrays[WEIGHT].numpy())
        return LocallyLinear(
            weights=weights,
            bias=bias,
            temperature=self.temperature,
            classes=label.levels,
            inputs=inputs,
            release=release,
        )

    def _inputs(self, schema: Schema) -> Inputs:
        centre = 0.5 if self.centre is None else self.centre
        return inputs_of(
            schema, centre=centre, otherwise="there is nothing to predict it from"
        )

    def _projection(self, inputs: Inputs) -> Projection:
        # The constant is as long as one column at its bound: it should not take the clipped gradient from the rest.
        drawn = draw_projection(
            inputs=len(inputs.names),
            maps=self.maps,
            dimensions=self.projection,
            constant=inputs.scale,
            seed=self.seed,
        )
        return replace(drawn, level=inputs.numeric if self.centre is None else 0)


def _label(schema: Schema) -> CodedColumn:
    return class_label(
        schema,
        "dp-llm predicts a label: name a column with levels as the label of the schema.",
    )
