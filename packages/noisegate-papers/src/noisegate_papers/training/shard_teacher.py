"""Teachers behind the gate, one for each shard, and what they answer about generated records.

A teacher is written for one shard, as functions of its weights, which begin alike;
`noisegate.gate.sessions.shards` maps them over all. The parameters of a step are the generated records, which are
public, "records", (records, inputs), and their "labels", (records,).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import softplus

from noisegate_papers.training.adversarial import SLOPE, Discriminator

if TYPE_CHECKING:
    from jaxtyping import Float, Int64, Shaped

Weights: TypeAlias = Mapping[str, Tensor]
"""Arrays of one shard, by name."""


class TeacherRecords(Protocol):
    """Records of one shard, drawn at random, as the gate hands them to a teacher."""

    @property
    def numeric(self) -> Float[Tensor, "records numeric"]:
        """Numeric columns, (records, columns); zeros if the shard has no records."""

    @property
    def codes(self) -> Int64[Tensor, "records coded"]:
        """Coded columns, (records, columns); zeros if the shard has no records."""

    @property
    def held(self) -> Float[Tensor, ""]:
        """1.0 if the shard has any record, else 0.0."""


# Of Adam, as GANs have it.
_BETA1 = 0.5
_BETA2 = 0.999
_EPS = 1e-8
_STEPS_TAKEN = "taken"
"""The number of steps that Adam has taken, among its moments."""
_MIN_SQUARED_LENGTH = 1e-12
"""Added to the squared length of a gradient, whose root has no slope at 0."""


@dataclass(frozen=True, kw_only=True)
class ShardTeacher:
    """A discriminator of a shard; see `noisegate.gate.sessions.shards.Teacher`.

    With a penalty it learns the Wasserstein distance, else the logistic loss.
    """

    answer_fn: Callable[[ShardTeacher, Weights, Weights], Weights]
    """What it answers, by its weights and the parameters of the step."""
    discriminator: Discriminator
    """A perceptron, the same for all shards at its start."""
    encode: Callable[[Tensor, Tensor], Tensor]
    """From numeric and coded columns to the inputs of the discriminator, the label left out."""
    label: int | None
    """The coded column that is the label."""
    records: int
    """Records of its shard that it sees in a round."""
    learning_rate: float
    """Of Adam."""
    rounds: int = 1
    """Steps of Adam each time that it learns."""
    learning: int | None = None
    """Shards that learn in a step, in turn; None for all."""
    warm_up: int = 0
    """How often every shard learns before the first step."""
    penalty: float | None = None
    """Weight of (‖gradient‖ − 1)² between real and generated records: Gulrajani et al. (NeurIPS 2017),
    https://arxiv.org/abs/1704.00028; None for none."""
    drift: float = 0.0
    """Weight of the squared scores of real records, which keeps scores near 0."""

    def start(self, shards: int) -> tuple[Weights, Weights]:
        """Returns the weights of all shards before they saw any record, and the moments of Adam."""
        weights = {
            name: value.detach().expand(shards, *value.shape).clone()
            for name, value in self.discriminator.named_parameters()
        }
        moments = {_STEPS_TAKEN: torch.zeros(shards)}
        for name, value in weights.items():
            moments[f"mean {name}"] = torch.zeros_like(value)
            moments[f"square {name}"] = torch.zeros_like(value)
        return weights, moments

    def loss(
        self, weights: Weights, parameters: Weights, batch: TeacherRecords
    ) -> Float[Tensor, ""]:
        """Computes the loss of one shard.

        Without records a shard learns from generated ones alone or, as a critic, nothing.
        """
        real_rows = self.real_rows(batch)
        generated_rows = self.generated_rows(parameters)
        real_scores, _ = self.scores_and_gradients(weights, real_rows)
        generated_scores, _ = self.scores_and_gradients(weights, generated_rows)
        if self.penalty is None:
            real_loss = batch.held * softplus(-real_scores).mean()
            return real_loss + softplus(generated_scores).mean()

        pair_count = min(len(real_rows), len(generated_rows))
        mixed_in = torch.rand_like(real_rows[: len(generated_rows), :1])
        between = (
            mixed_in * real_rows[:pair_count]
            + (1 - mixed_in) * generated_rows[:pair_count]
        )
        _, gradients = self.scores_and_gradients(weights, between)
        lengths = (gradients.square().sum(dim=1) + _MIN_SQUARED_LENGTH).sqrt()
        gradient_penalty = (lengths - 1).square().mean()
        wasserstein_loss = generated_scores.mean() - real_scores.mean()
        return batch.held * (
            wasserstein_loss
            + self.penalty * gradient_penalty
            + self.drift * real_scores.square().mean()
        )

    def step(
        self, weights: Weights, moments: Weights, gradients: Weights
    ) -> tuple[Weights, Weights]:
        """Returns weights and moments after a step of Adam."""
        step_count = moments[_STEPS_TAKEN] + 1
        updated_weights: dict[str, Tensor] = {}
        updated_moments: dict[str, Tensor] = {_STEPS_TAKEN: step_count}
        for name, gradient in gradients.items():
            mean = _BETA1 * moments[f"mean {name}"] + (1 - _BETA1) * gradient
            square = (
                _BETA2 * moments[f"square {name}"] + (1 - _BETA2) * gradient.square()
            )
            unbiased_mean = mean / (1 - _BETA1**step_count)
            unbiased_square = square / (1 - _BETA2**step_count)
            step = unbiased_mean / (unbiased_square.sqrt() + _EPS)
            updated_weights[name] = weights[name] - self.learning_rate * step
            updated_moments[f"mean {name}"] = mean
            updated_moments[f"square {name}"] = square
        return updated_weights, updated_moments

    def answer(
        self, weights: Weights, parameters: Weights, batch: TeacherRecords
    ) -> Weights:
        """Returns what a shard answers about the generated records."""
        return self.answer_fn(self, weights, parameters)

    def scores_and_gradients(
        self, weights: Weights, rows: Float[Tensor, "records _"]
    ) -> tuple[Float[Tensor, " records"], Float[Tensor, "records inputs"]]:
        """Computes the discriminator's scores and their gradients at the inputs.

        The backward pass is written out, as the gradient is part of the loss (a penalty
        on its norm) and the loss is differentiated in turn, under `vmap` over shards.

        Args:
            weights: Discriminator weights of one shard, by parameter name.
            rows: Inputs followed by the one-hot label, (records, inputs + classes).

        Returns:
            Scores, (records,), and the gradient of each score with respect to the
            inputs of its record, (records, inputs).
        """
        input_count = rows.shape[1] - self.discriminator.classes
        inputs = rows[:, :input_count]
        one_hot_labels = rows[:, input_count:]
        layers = sorted(
            {int(name.split(".")[1]) for name in weights if name.startswith("body.")}
        )

        # Forward pass through linear layers with leaky ReLU.
        activations = inputs
        slopes = []  # derivatives of the ReLU, (records, width) for each layer
        for layer in layers:
            weight = weights[f"body.{layer}.weight"]
            bias = weights[f"body.{layer}.bias"]
            preactivations = activations @ weight.T + bias
            slope = torch.where(preactivations > 0, 1.0, SLOPE)
            slopes.append(slope)
            activations = preactivations * slope

        # The output layer has one shared score and one score per class; a record's
        # score is the shared one plus that of its label.
        output_mask = torch.cat([torch.ones_like(rows[:, :1]), one_hot_labels], dim=1)
        output_weights = output_mask @ weights["scores.weight"]  # (records, width)
        output_biases = output_mask @ weights["scores.bias"]  # (records,)
        scores = (activations * output_weights).sum(dim=1) + output_biases

        # Backward pass.
        gradients = output_weights
        for layer, slope in zip(reversed(layers), reversed(slopes), strict=True):
            gradients = (gradients * slope) @ weights[f"body.{layer}.weight"]
        return scores, gradients

    def generator_gradient(
        self, weights: Weights, parameters: Weights
    ) -> Float[Tensor, "records inputs"]:
        """Returns the gradient of a generator's loss −log D at the generated records."""
        rows = self.generated_rows(parameters)
        scores, gradients = self.scores_and_gradients(weights, rows)
        return -torch.sigmoid(-scores)[:, None] * gradients

    def generated_rows(
        self, parameters: Weights, which: str = "records"
    ) -> Float[Tensor, "records _"]:
        """Returns the rows of generated records, or of others that have their labels.

        Args:
            parameters: Parameters of the step.
            which: The name of the records among them.
        """
        return self._rows(parameters[which], parameters["labels"])

    def real_rows(self, batch: TeacherRecords) -> Float[Tensor, "records _"]:
        """Returns the rows of the records that a shard sees."""
        if self.label is None:
            labels = torch.zeros(len(batch.numeric))
        else:
            labels = batch.codes[:, self.label]
        return self._rows(self.encode(batch.numeric, batch.codes), labels)

    def _rows(
        self,
        inputs: Float[Tensor, "records inputs"],
        labels: Shaped[Tensor, " records"],
    ) -> Float[Tensor, "records _"]:
        """Returns rows as the discriminator takes them: inputs, and labels as one-hot codes."""
        classes = torch.arange(self.discriminator.classes, device=inputs.device)
        one_hot_labels = (labels[:, None] == classes).to(inputs.dtype)
        return torch.cat([inputs, one_hot_labels], dim=1)


def votes(teacher: ShardTeacher, weights: Weights, parameters: Weights) -> Weights:
    """Returns half a vote for or against each asked record (PATE-GAN).

    A vote is for records that score above the mean of those with their label.

    Returns:
        The array "votes", (records,), of ±0.5.
    """
    labels = parameters["labels"]
    asked_rows = teacher.generated_rows(parameters, "asked")
    scores, _ = teacher.scores_and_gradients(weights, asked_rows)
    has_same_label = (labels[:, None] == labels).to(scores.dtype)
    mean_scores = has_same_label @ scores / has_same_label.sum(dim=1)
    return {"votes": torch.where(scores > mean_scores, 0.5, -0.5)}


def clipped_answers(
    teacher: ShardTeacher, weights: Weights, parameters: Weights, *, clip_norm: float
) -> Weights:
    """Returns the gradient of the generator's loss at each record, clipped (GS-WGAN).

    Args:
        teacher: A critic.
        weights: Its weights.
        parameters: Parameters of the step.
        clip_norm: Norm of all gradients together; each is clipped to this over √records.

    Returns:
        The array "records", (records, inputs).
    """
    rows = teacher.generated_rows(parameters)
    _, gradients = teacher.scores_and_gradients(weights, rows)
    max_length = clip_norm / math.sqrt(len(gradients))
    lengths = gradients.square().sum(dim=1, keepdim=True).sqrt()
    return {"records": -gradients * (max_length / lengths.clamp_min(max_length))}


def largest_signs(
    teacher: ShardTeacher,
    weights: Weights,
    parameters: Weights,
    *,
    largest: int,
    bound: float,
) -> Weights:
    """Returns the signs of the largest entries of each gradient, and 0 for the others (DataLens).

    Args:
        teacher: A teacher.
        weights: Its weights.
        parameters: Parameters of the step.
        largest: How many entries count.
        bound: Entries below it are rounded to a sign at random, in proportion.

    Returns:
        The array "records", (records, inputs), of 1, −1 and 0.
    """
    gradients = teacher.generator_gradient(weights, parameters)
    smallest_counted = gradients.abs().topk(largest, dim=1).values[:, -1:]
    positive_chance = (1 + (gradients / bound).clamp(-1, 1)) / 2
    is_positive = torch.rand_like(positive_chance) < positive_chance
    signs = torch.where(is_positive, 1.0, -1.0)
    counts = (gradients.abs() >= smallest_counted) & (gradients != 0)
    return {"records": torch.where(counts, signs, 0.0)}


def histogram_votes(
    teacher: ShardTeacher,
    weights: Weights,
    parameters: Weights,
    *,
    bound: float,
    bins: int,
) -> Weights:
    """Returns votes for the bin of each coordinate of projected gradients (G-PATE).

    Args:
        teacher: A teacher.
        weights: Its weights.
        parameters: Parameters of the step, among them "projection", (records, inputs, coordinates).
        bound: Bins are of equal width between ± this; coordinates beyond are in the outermost.
        bins: Number of bins.

    Returns:
        The array "votes", (records, coordinates, bins), of 1 in the bin and 0 elsewhere.
    """
    gradients = teacher.generator_gradient(weights, parameters)
    projected = torch.einsum("ri,ric->rc", gradients, parameters["projection"])
    positions = (projected / bound + 1) / 2 * bins
    voted_bins = positions.floor().clamp(0, bins - 1)
    all_bins = torch.arange(bins, device=voted_bins.device)
    is_voted = voted_bins[..., None] == all_bins
    return {"votes": is_voted.to(projected.dtype)}
