"""Teachers: a discriminator for each disjoint shard, between its records and generated ones, and what it answers.

Each is written for one shard, as functions of its weights; `noisegate.gate.queries.shards` maps them over all shards
and keeps the weights. All begin with the same ones, so that their gradients agree where records do. The questions are
about the generated records of the step, which are public: `parameters` holds them, (records, inputs), and their labels,
(records,). A discriminator is a perceptron, whose gradient at its inputs is written out: it is a part of answers, and
of one loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from noisegate.networks.discriminator import SLOPE, Discriminator

if TYPE_CHECKING:
    from jaxtyping import Float, Shaped

Weights = Mapping[str, Tensor]
"""Of a shard, by name."""
_BETA1, _BETA2, _EPS = 0.5, 0.999, 1e-8


@dataclass(frozen=True, kw_only=True)
class DiscriminatorTeacher(ABC):
    """What the teachers share.

    Attributes:
        discriminator: At its start, the same for all shards: that of `build_table_discriminator`.
        encode: From numeric and coded columns of records to its inputs, the label left out.
        label: Place of the label among the coded columns; None for none.
        records: Real records of a shard that it sees in a step.
        learning_rate: Of Adam.
        rounds: Steps of Adam each time that a shard learns.
        learning: How many shards learn in a step, in turn; None for all.
        warm_up: How often every shard learns before the first step.
    """

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

    @abstractmethod
    def answer(self, weights: Weights, parameters: Weights, batch: Any) -> Weights:
        """Returns what a shard says of the generated records."""

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
class SignTeacher(DiscriminatorTeacher):
    """Answers with the signs of the largest entries of its gradient at each generated record (DataLens).

    Attributes:
        largest: How many entries of each record.
        bound: Entries that are smaller are drawn: +1 with probability (1 + entry / bound) / 2, else −1.
    """

    largest: int
    bound: float

    def answer(self, weights: Weights, parameters: Weights, batch: Any) -> Weights:
        """Returns signs, 0 for entries that are not among the largest: (records, inputs)."""
        gradient = self.pull(weights, parameters)
        least = gradient.abs().topk(self.largest, dim=1).values[:, -1:]
        chance = (1 + (gradient / self.bound).clamp(-1, 1)) / 2
        signs = torch.where(torch.rand_like(chance) < chance, 1.0, -1.0)
        return {"records": torch.where((gradient.abs() >= least) & (gradient != 0), signs, 0.0)}


@dataclass(frozen=True, kw_only=True)
class VotingTeacher(DiscriminatorTeacher):
    """Votes on each generated record whether it is real (PATE-GAN)."""

    def answer(self, weights: Weights, parameters: Weights, batch: Any) -> Weights:
        """Returns half a vote for or against each record, (records,): ½ where it is taken for real, else −½."""
        scores, _ = self.scores(weights, self.made_rows(parameters))
        return {"votes": torch.where(scores > 0, 0.5, -0.5)}


@dataclass(frozen=True, kw_only=True)
class CriticTeacher(DiscriminatorTeacher):
    """A critic of the Wasserstein distance with a gradient penalty, which answers with its gradient (GS-WGAN).

    Attributes:
        penalty: Weight of (‖gradient‖ − 1)² between real and generated records (Gulrajani et al., NeurIPS 2017,
            https://arxiv.org/abs/1704.00028).
        drift: Weight of the squared score of real records, which keeps scores near 0.
        clip_norm: L2 norm that the gradient at each record is clipped to.
    """

    penalty: float
    drift: float
    clip_norm: float

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

    def answer(self, weights: Weights, parameters: Weights, batch: Any) -> Weights:
        """Returns the gradient of the generator's loss at each record, clipped record by record: (records, inputs)."""
        _, slopes = self.scores(weights, self.made_rows(parameters))
        length = slopes.square().sum(dim=1, keepdim=True).sqrt()
        return {"records": -slopes * (self.clip_norm / length.clamp_min(self.clip_norm))}


@dataclass(frozen=True, kw_only=True)
class HistogramTeacher(DiscriminatorTeacher):
    """Votes for the bin that its projected gradient is in, coordinate by coordinate (G-PATE).

    `parameters` hold the projection of the step as well, (inputs, coordinates).

    Attributes:
        bound: Projected gradients are clipped to ± this.
        bins: Of equal width between these ends.
    """

    bound: float
    bins: int

    def answer(self, weights: Weights, parameters: Weights, batch: Any) -> Weights:
        """Returns one vote for each record and coordinate, (records, coordinates, bins)."""
        projected = self.pull(weights, parameters) @ parameters["projection"]
        place = ((projected / self.bound + 1) / 2 * self.bins).floor().clamp(0, self.bins - 1)
        bins = torch.arange(self.bins, device=place.device)
        return {"votes": (place[..., None] == bins).to(projected.dtype)}
