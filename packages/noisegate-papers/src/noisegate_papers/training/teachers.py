"""Teachers: a discriminator for each disjoint shard, between its records and generated ones, and what it answers.

Each is written for one shard, as functions of its weights; `noisegate.gate.queries.shards` maps them over all shards
and keeps the weights, which begin alike. `parameters` hold the generated records of the step, which are public,
(records, inputs), and their labels, (records,). A discriminator is a perceptron, whose gradient at its inputs is
written out: it is a part of answers, and of one loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import softplus

from noisegate_papers.training.adversarial import SLOPE, Discriminator

if TYPE_CHECKING:
    from jaxtyping import Float, Shaped

Weights = Mapping[str, Tensor]
"""Of a shard, by name."""
_BETA1, _BETA2, _EPS = 0.5, 0.999, 1e-8


Says: TypeAlias = "Callable[[ShardTeacher, Weights, Weights], Weights]"
"""What a teacher with such weights says of the records that parameters hold."""


@dataclass(frozen=True, kw_only=True)
class ShardTeacher:
    """A discriminator of a shard, a table's, the same for all at its start; methods differ in what it says.

    It sees so many `records` of its shard in a step, `encode`d with the label left out, the coded column `label`, and
    takes `rounds` steps of Adam each time that it learns. `learning` shards learn in a step, in turn, None for all; and
    every shard `warm_up` times before the first step.
    """

    says: Says
    discriminator: Discriminator
    encode: Callable[[Tensor, Tensor], Tensor]
    label: int | None
    records: int
    learning_rate: float
    rounds: int = 1
    learning: int | None = None
    warm_up: int = 0

    def start(self, shards: int) -> tuple[Weights, Weights]:
        """Returns weights of so many shards before they saw any record, and the moments of Adam."""
        weights = {
            name: value.detach().expand(shards, *value.shape).clone()
            for name, value in self.discriminator.named_parameters()
        }
        moments = {
            f"{kind} {name}": torch.zeros_like(value) for name, value in weights.items() for kind in ("mean", "square")
        }
        return weights, moments | {"taken": torch.zeros(shards)}

    def loss(self, weights: Weights, parameters: Weights, batch: Any) -> Float[Tensor, ""]:
        """Returns the logistic loss of a discriminator; a shard without records learns from generated ones alone."""
        own, made = (self.scores(weights, rows)[0] for rows in (self.real_rows(batch), self.made_rows(parameters)))
        loss: Tensor = batch.held * softplus(-own).mean() + softplus(made).mean()
        return loss

    def step(self, weights: Weights, moments: Weights, gradients: Weights) -> tuple[Weights, Weights]:
        """Returns weights and moments after a step of Adam."""
        taken = moments["taken"] + 1
        moved, kept = {}, {"taken": taken}
        for name, gradient in gradients.items():
            mean = _BETA1 * moments[f"mean {name}"] + (1 - _BETA1) * gradient
            square = _BETA2 * moments[f"square {name}"] + (1 - _BETA2) * gradient.square()
            step = mean / (1 - _BETA1**taken) / ((square / (1 - _BETA2**taken)).sqrt() + _EPS)
            moved[name] = weights[name] - self.learning_rate * step
            kept |= {f"mean {name}": mean, f"square {name}": square}
        return moved, kept

    def answer(self, weights: Weights, parameters: Weights, batch: Any) -> Weights:
        """Returns what a shard says of the generated records."""
        return self.says(self, weights, parameters)

    def scores(
        self, weights: Weights, rows: Float[Tensor, "records _"]
    ) -> tuple[Float[Tensor, " records"], Float[Tensor, "records inputs"]]:
        """Returns scores of rows, (records,), and their gradients at the inputs, (records, inputs)."""
        layers = sorted({int(name.split(".")[1]) for name in weights if name.startswith("body.")})
        inputs = rows.shape[1] - self.discriminator.classes
        values, slopes = rows[:, :inputs], []
        for layer in layers:
            values = values @ weights[f"body.{layer}.weight"].T + weights[f"body.{layer}.bias"]
            slopes.append(torch.where(values > 0, 1.0, SLOPE))
            values = values * slopes[-1]
        # The label chooses among scores.
        codes = torch.cat([torch.ones_like(rows[:, :1]), rows[:, inputs:]], dim=1)
        back = codes @ weights["scores.weight"]
        found = (values * back).sum(dim=1) + codes @ weights["scores.bias"]
        for layer, slope in zip(reversed(layers), reversed(slopes), strict=True):
            back = (back * slope) @ weights[f"body.{layer}.weight"]
        return found, back

    def made_rows(self, parameters: Weights) -> Float[Tensor, "records _"]:
        """Returns the rows of generated records."""
        return self._rows(parameters["records"], parameters["labels"])

    def real_rows(self, batch: Any) -> Float[Tensor, "records _"]:
        """Returns the rows of the records that a shard sees."""
        labels = torch.zeros(len(batch.numeric)) if self.label is None else batch.codes[:, self.label]
        return self._rows(self.encode(batch.numeric, batch.codes), labels)

    def pull(self, weights: Weights, parameters: Weights) -> Float[Tensor, "records inputs"]:
        """Returns the gradient at generated records of the loss −log D of a generator."""
        scores, slopes = self.scores(weights, self.made_rows(parameters))
        return -torch.sigmoid(-scores)[:, None] * slopes

    def _rows(
        self, inputs: Float[Tensor, "records inputs"], labels: Shaped[Tensor, " records"]
    ) -> Float[Tensor, "records _"]:
        """Returns rows as the discriminator takes them: inputs, and labels as one-hot codes."""
        classes = torch.arange(self.discriminator.classes, device=inputs.device)
        return torch.cat([inputs, (labels[:, None] == classes).to(inputs.dtype)], dim=1)


@dataclass(frozen=True, kw_only=True)
class Critic(ShardTeacher):
    """A teacher that learns the Wasserstein distance with a gradient penalty (GS-WGAN).

    `penalty` is the weight of (‖gradient‖ − 1)² between real and generated records (Gulrajani et al., NeurIPS 2017,
    https://arxiv.org/abs/1704.00028); `drift` that of the squared score of real ones, which keeps scores near 0.
    """

    penalty: float
    drift: float

    def loss(self, weights: Weights, parameters: Weights, batch: Any) -> Float[Tensor, ""]:
        """Returns the critic's loss; a shard without records learns nothing."""
        real, made = self.real_rows(batch), self.made_rows(parameters)
        count = min(len(real), len(made))
        part = torch.rand_like(real[:count, :1])
        _, slopes = self.scores(weights, part * real[:count] + (1 - part) * made[:count])
        length = (slopes.square().sum(dim=1) + 1e-12).sqrt()
        own = self.scores(weights, real)[0]
        distance = self.scores(weights, made)[0].mean() - own.mean()
        loss: Tensor = batch.held * (
            distance + self.penalty * (length - 1).square().mean() + self.drift * own.square().mean()
        )
        return loss


# What teachers say of the generated records of a step.


def largest_signs(largest: int, bound: float) -> Says:
    """Returns the signs of so many largest entries of the gradient at each record, else 0: (records, inputs).

    An entry below `bound` is drawn: +1 with probability (1 + entry / bound) / 2, else −1 (DataLens).
    """

    def says(teacher: ShardTeacher, weights: Weights, parameters: Weights) -> Weights:
        gradient = teacher.pull(weights, parameters)
        least = gradient.abs().topk(largest, dim=1).values[:, -1:]
        chance = (1 + (gradient / bound).clamp(-1, 1)) / 2
        signs = torch.where(torch.rand_like(chance) < chance, 1.0, -1.0)
        return {"records": torch.where((gradient.abs() >= least) & (gradient != 0), signs, 0.0)}

    return says


def votes(teacher: ShardTeacher, weights: Weights, parameters: Weights) -> Weights:
    """Returns half a vote for or against each record, (records,): ½ where it is taken for real, else −½ (PATE-GAN)."""
    scores, _ = teacher.scores(weights, teacher.made_rows(parameters))
    return {"votes": torch.where(scores > 0, 0.5, -0.5)}


def clipped_answers(clip_norm: float) -> Says:
    """Returns the gradient of the generator's loss at each record, clipped record by record (GS-WGAN)."""

    def says(teacher: ShardTeacher, weights: Weights, parameters: Weights) -> Weights:
        _, slopes = teacher.scores(weights, teacher.made_rows(parameters))
        length = slopes.square().sum(dim=1, keepdim=True).sqrt()
        return {"records": -slopes * (clip_norm / length.clamp_min(clip_norm))}

    return says


def histogram_votes(bound: float, bins: int) -> Says:
    """Returns a vote for the bin of each coordinate of the projected gradient, (records, coordinates, bins) (G-PATE).

    Bins are of equal width between ± `bound`; `parameters` hold the projection of the step, (inputs, coordinates).
    """

    def says(teacher: ShardTeacher, weights: Weights, parameters: Weights) -> Weights:
        projected = teacher.pull(weights, parameters) @ parameters["projection"]
        place = ((projected / bound + 1) / 2 * bins).floor().clamp(0, bins - 1)
        return {"votes": (place[..., None] == torch.arange(bins, device=place.device)).to(projected.dtype)}

    return says
