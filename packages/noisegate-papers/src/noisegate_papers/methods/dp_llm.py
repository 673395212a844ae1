"""DP-LLM: an interpretable classifier of locally linear maps, trained with noisy gradients. It makes no records.

Harder, Bauer and Park (AAAI 2020), https://arxiv.org/abs/1906.02004. The model is linear in its one parameter
(`noisegate_papers.models.locally_linear`), so the gate computes its gradients in two factors. For deviations see
[differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from noisegate.gate.per_example.gradients import FactoredLoss, cross_entropy
from noisegate.methods.gradient import GradientMethod, LearnsByGradients, Trainer
from noisegate.methods.method import AUDITED_STEPS
from noisegate.methods.registry import register
from noisegate.privacy.gradient_plan import GradientQuery, steps_of
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.schema import CodedColumn, Schema
from noisegate.settings import Count, Fraction, Positive, Unit, settings
from noisegate_papers.methods.steps import (
    StepSettings,
    TrainsClassifier,
    released_arrays,
)
from noisegate_papers.models.inputs import Inputs, class_label, inputs_of
from noisegate_papers.models.locally_linear import (
    LocallyLinear,
    Projection,
    draw_projection,
    locally_linear_scores,
)

if TYPE_CHECKING:
    pass

if TYPE_CHECKING:
    from jaxtyping import Float, Int64
    from torch import Tensor

WEIGHT = "weight"
"""The event of the steps, and the name of what is released."""


@register("dp-llm")
@settings
class DPLLM(StepSettings, TrainsClassifier, LearnsByGradients, GradientMethod):
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
    """M: number of linear maps of each class."""
    projection: Count | None = None
    """Number of dimensions that the inputs of each map are projected to at random; None for no projection."""
    temperature: Positive = 10.0
    """T: temperature of the softmax over the outputs of the maps. With a larger one, more maps contribute to a
    prediction."""
    steps: Count = 250
    sampling_probability: Fraction = 0.1
    clip_norm: Positive = 0.05
    learning_rate: Positive = 1.0
    """Learning rate of Adam."""
    decay: Fraction = 0.8
    """Factor of the learning rate after every quarter of the steps."""
    init_std: Positive = 0.3
    """Standard deviation of the initial weights."""
    centre: Unit | None = None
    """Position between the bounds that is encoded as 0, such as 0 for ink; None scales the average of the columns to
    the length of one column."""

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientQuery:
        """Returns the steps on the weights of all maps; refuses a schema without a label, or with nothing else."""
        projection = self._projection(self._inputs(schema))
        class_count = _label(schema).size
        # One matrix that is applied to one vector: its gradient is their outer product,
        # which the gate takes in two factors.
        return self.steps_of(
            WEIGHT, {WEIGHT: projection.shape(class_count)}, factored=True
        )

    def loss(self, schema: Schema) -> FactoredLoss:
        """Returns the loss of one record: the cross-entropy of its label.

        It has two parts, because the model is linear in its weights: the projected inputs of a record, and the loss of
        the outputs of all maps for them.
        """
        record_inputs = self._inputs(schema)
        label = schema.layout.label
        projection = self._projection(record_inputs)
        coded_inputs = list(schema.layout.others)

        def projected_inputs(
            numeric: Float[Tensor, " numeric"], codes: Int64[Tensor, " coded"]
        ) -> Float[Tensor, "maps dimensions"]:
            return projection(record_inputs(numeric, codes[..., coded_inputs]))

        def loss_of_answers(
            answers: Float[Tensor, " answers"],
            numeric: Float[Tensor, " numeric"],
            codes: Int64[Tensor, " coded"],
        ) -> Float[Tensor, ""]:
            by_map = answers.reshape(self.maps, -1)  # (maps, classes)
            scores = locally_linear_scores(by_map, self.temperature)
            return cross_entropy(scores, codes[label])

        return FactoredLoss(inputs=projected_inputs, loss=loss_of_answers)

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> Trainer:
        """Returns the training of the maps' weights by Adam."""
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
        """Returns the classifier in a release.

        Raises:
            ModelError: if the release is of another method, schema or settings.
        """
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
