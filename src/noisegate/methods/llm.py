"""DP-LLM: differentially private locally linear maps (Harder, Bauer, Park, AAAI 2020).

The model (`classifiers.locally_linear`) is linear in one parameter, so the gate takes its gradients in two factors.
What differs from the authors' program: each step draws a true Poisson sample, and is accounted as one; the gradient of
each record is clipped, not that of the mean loss (their 1e-3 there is 0.5 at batches of 500); noise is calibrated for
the ε that is asked. Their projected inputs are about 343 long, ours about 1 at most, so learning rates and norms read
in other units; the model is the same.

Defaults are not the authors' either: on simulated digits at ε = 2, ten maps without a projection did better than thirty
maps with one (benchmarks/dp_llm).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from noisegate.classifiers.inputs import Inputs, inputs_of
from noisegate.classifiers.locally_linear import LocallyLinear, class_scores
from noisegate.classifiers.projection import Projection, draw_projection
from noisegate.errors import ModelError, OptionError, SchemaError
from noisegate.methods.kept_training import Training
from noisegate.methods.numbers import is_number
from noisegate.methods.trained import Trained
from noisegate.privacy.gradient_plan import CalibratedGradientPlan, GradientPlan
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import CodedColumn, Schema
from noisegate.seeds import check_seed

if TYPE_CHECKING:
    from torch import Tensor

    from noisegate.gate.gate import Gate
    from noisegate.gate.losses import FactoredLoss

WEIGHT = "weight"
_POSITIVE = ("temperature", "norm", "learning_rate", "spread")


@dataclass(frozen=True, kw_only=True)
class DPLLM(Trained):
    """Settings of DP-LLM; none of them depends on private data.

    Attributes:
        maps: M: linear maps of each class.
        projection: Dimensions that each map's inputs are projected to at random; None for no projection. Where there
            are no more inputs than that, there is none either.
        temperature: T: how many maps have a say; the softmax over maps is of their answers over T.
        steps: How many noisy gradients are taken.
        rate: Chance of each record to be in the sample of a step.
        norm: L2 norm that the gradient of each record is clipped to.
        learning_rate: Of Adam.
        decay: What the learning rate is multiplied by after every quarter of the steps.
        spread: Standard deviation of the initial weights.
        centre: The position between the bounds of a numeric column that counts as nothing: 0.5 where nothing is known,
            0 for ink on an empty page.
        seed: Of the public randomness: projection and initial weights. Never of the samples or the noise.
    """

    maps: int = 10
    projection: int | None = None
    temperature: float = 10.0
    steps: int = 300
    rate: float = 0.05
    norm: float = 0.05
    learning_rate: float = 1.0
    decay: float = 0.8
    spread: float = 4.0
    centre: float = 0.5
    seed: int = 0

    name: Literal["dp-llm"] = field(default="dp-llm", init=False)

    def __post_init__(self) -> None:
        for option in ("maps", "steps", *(["projection"] if self.projection is not None else [])):
            value = getattr(self, option)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise OptionError(f"{option}={value!r} must be a positive whole number.")
        for option in _POSITIVE:
            if not is_number(getattr(self, option)) or not 0 < getattr(self, option) <= 1e6:
                raise OptionError(f"{option}={getattr(self, option)!r} must be a number above 0, at most 1e6.")
        for option, low in (("rate", "above 0"), ("decay", "above 0"), ("centre", "from 0")):
            value = getattr(self, option)
            if not is_number(value) or not 0 <= value <= 1 or (value == 0 and low != "from 0"):
                raise OptionError(f"{option}={value!r} must be a number {low} to 1.")
        check_seed(self.seed)

    def plan(self, schema: Schema, budget: Budget) -> CalibratedGradientPlan:
        """Returns the calibrated plan: how many gradients will be asked for, and with what noise. Reads no data.

        Raises:
            SchemaError: if the schema has no label with levels, or nothing to predict it from.
            CalibrationError: if no noise can give the guarantee.
        """
        classes = _label(schema).size
        shape = self._projection(self._inputs(schema)).shape(classes)
        plan = GradientPlan(
            name=WEIGHT, steps=self.steps, rate=self.rate, norm=self.norm, parameters={WEIGHT: shape}, factored=True
        )
        return plan.calibrate(budget)

    def loss(self, schema: Schema) -> FactoredLoss:
        """Returns the loss of one record: the cross-entropy of its label."""
        from noisegate.gate.losses import FactoredLoss

        inputs = self._inputs(schema)
        projection, label = self._projection(inputs), schema.layout.label
        others = [j for j in range(len(schema.layout.coded)) if j != label]
        return FactoredLoss(
            inputs=lambda numeric, codes: projection(inputs(numeric, codes[..., others])),
            loss=lambda answers, numeric, codes: self._loss(answers.reshape(self.maps, -1), codes[label]),
        )

    def training(self, schema: Schema, plan: CalibratedGradientPlan, batch: float, device: str) -> Training:
        """Returns Adam on the maps' weights; see `Trained`."""
        return _Training(self, plan, batch, device)

    def classifier(self, release: Release) -> LocallyLinear:
        """Returns the classifier in a release; post-processing, which costs no privacy.

        Raises:
            ModelError: if the release is of another method, or its weights do not fit its schema and settings.
        """
        inputs, label = self._inputs(release.schema), _label(release.schema)
        projection = self._projection(inputs)
        shape = projection.shape(label.size)
        values = release.values.get(WEIGHT)
        if values is None or values.size != np.prod(shape):
            raise ModelError(f"the release has no weights of shape {shape}: it was made by another method or settings.")
        weights, bias = projection.unfold(values.reshape(shape).astype(np.float32))
        return LocallyLinear(
            weights=weights,
            bias=bias,
            temperature=self.temperature,
            classes=label.levels,
            inputs=inputs,
            release=release,
        )

    def fit(self, gate: Gate, *, report: Callable[[int], None] | None = None, device: str = "cpu") -> LocallyLinear:
        """Returns a classifier of the records behind `gate`; see `ask`."""
        return self.classifier(self.ask(gate, report=report, device=device))

    def _inputs(self, schema: Schema) -> Inputs:
        inputs = inputs_of(schema, centre=self.centre)
        if not inputs.names:
            raise SchemaError("the schema has no column besides the label; there is nothing to predict it from.")
        return inputs

    def _projection(self, inputs: Inputs) -> Projection:
        # The constant is as long as one column at its bound: it should not take the clipped gradient from the rest.
        return draw_projection(
            inputs=len(inputs.names), maps=self.maps, dimensions=self.projection, constant=inputs.scale, seed=self.seed
        )

    def _loss(self, answers: Tensor, label: Tensor) -> Tensor:
        """Returns the cross-entropy of one record: `answers` (maps, classes), `label` a code."""
        import torch

        scores = class_scores(answers, self.temperature)
        wanted = torch.arange(len(scores), device=scores.device) == label
        return torch.logsumexp(scores, dim=0) - torch.where(wanted, scores, 0.0).sum()


class _Training:
    """Adam on noisy gradients: the public half of a step."""

    def __init__(self, method: DPLLM, plan: CalibratedGradientPlan, batch: float, device: str) -> None:
        import torch

        from noisegate.fitting.adam import Adam

        # Another stream than that of the projection, from the same seed.
        random = np.random.Generator(np.random.Philox(method.seed).jumped())
        start = random.standard_normal(plan.plan.parameters[WEIGHT], dtype=np.float32) * np.float32(method.spread)
        start[..., -1] = 0
        self.weight = torch.from_numpy(start).to(device)
        self.steps = 0
        self._method, self._batch = method, batch
        self._adam = Adam(self.parameters(), learning_rate=method.learning_rate)

    def parameters(self) -> dict[str, Tensor]:
        """Returns the weights."""
        return {WEIGHT: self.weight}

    def result(self) -> dict[str, Tensor]:
        """Returns the weights."""
        return {WEIGHT: self.weight}

    def step(self, noisy: Mapping[str, Tensor]) -> None:
        """Takes a step against a noisy sum of gradients."""
        quarter = 4 * self.steps // self._method.steps
        self._adam.step({WEIGHT: noisy[WEIGHT] / self._batch}, scale=self._method.decay**quarter)
        self.steps += 1

    def state(self) -> dict[str, Tensor]:
        """Returns the weights, Adam's moments, and the number of steps."""
        import torch

        return {**self.parameters(), **self._adam.state(), "steps": torch.tensor(self.steps)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up the training where `state` was called."""
        self._adam.restore(tensors)
        self.weight.copy_(tensors[WEIGHT])
        self.steps = int(tensors["steps"])


def _label(schema: Schema) -> CodedColumn:
    layout = schema.layout
    if layout.label is None:
        raise SchemaError("dp-llm predicts a label: name a column with levels as the label of the schema.")
    label = layout.coded[layout.label]
    if label.missing or len(label.levels) < 2:
        raise SchemaError(f"the label {label.name!r} must have two levels or more, and may not be missing.")
    return label
