"""What learns from noisy answers about generated records: a generator, a student; and the teachers behind the gate.

A teacher is written for one shard, as functions of its weights: `parameters` hold the generated records of the step,
which are public, (records, inputs), and their labels, (records,).

A generator follows noisy gradients at what it makes: of an optimal transport loss,
whose gradient takes Sinkhorn's plan as it is (the envelope theorem), or as teachers
say. A teacher is written for one shard, as functions of its weights, which begin alike;
`noisegate.gate.sessions.shards` maps them over all. `parameters` hold the generated
records of the step, which are public, (records, inputs), and their labels, (records,).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from noisegate_images.models.generator import Generator
from noisegate_images.training.adam import Adam, Checkpointed
from noisegate_papers.models.inputs import DiscriminatorInput
from noisegate_papers.training.adversarial import SLOPE, Discriminator, stream

if TYPE_CHECKING:
    from jaxtyping import Float, Int64, Shaped

Labelled = tuple[
    Tensor, Tensor
]  # records, (records, inputs), and their labels, (records,) int64


@dataclass(frozen=True, kw_only=True)
class GuidedStart:
    """A generator before its first step, and how it is trained."""

    generator: Generator
    label_shares: Float[Tensor, " labels"]
    """Share of each label; one 1 without any."""
    encode: DiscriminatorInput
    """From the generator to the inputs of what it makes, the label left out."""
    batch: int
    """Records that are generated in each step."""
    learning_rate: float
    """Of Adam."""
    seed: int
    """Seed of noise vectors and labels."""
    device: str
    beta1: float = 0.9
    """Of Adam."""
    ema_decay: float = 0.0
    """Of the average of the weights, which is released, and of which the first t steps keep (1 + t)/(10 + t) at most;
    0 releases the weights after the last step."""
    relabelled: int = 0
    """The last so many records of a step have the labels of the first ones."""


class GeneratorOnItsWay:
    """A generator between two steps: its records of the step, its optimiser and its average."""

    def __init__(self, start: GuidedStart) -> None:
        self.start = start
        self.generator = start.generator.train()
        self.adam = Adam(
            dict(self.generator.named_parameters()),
            learning_rate=start.learning_rate,
            beta1=start.beta1,
        )
        self.average: dict[str, Tensor] = {}
        if start.ema_decay:
            self.average = {
                name: value.clone()
                for name, value in self.generator.state_dict().items()
            }
        self._step: int | None = None
        self._records: Labelled | None = None

    def records(self, step: int) -> Labelled:
        """Returns the generated records of a step with their labels.

        They are made once in each step, from the weights that it starts with.

        Args:
            step: Number of the step, counted from 0.
        """
        if self._records is None or self._step != step:
            labels, random = self.labels(step)
            noise = self.generator.noise(self.start.batch, random)
            device = self.start.device
            inputs = self.start.encode(
                self.generator, noise.to(device), labels.to(device), random
            )
            self._step = step
            self._records = inputs, labels
        return self._records

    def labels(self, step: int) -> tuple[Int64[Tensor, " records"], torch.Generator]:
        """Returns the labels of a step, and the randomness that its noise follows on."""
        start = self.start
        random = stream(start.seed, step)
        labels = torch.multinomial(
            start.label_shares,
            start.batch - start.relabelled,
            replacement=True,
            generator=random,
        )
        return torch.cat([labels, labels[: start.relabelled]]), random

    def follow(self, step: int) -> None:
        """Takes the weights after a step into their average.

        Args:
            step: Number of the step, counted from 0.
        """
        if self.average:
            kept = min(self.start.ema_decay, (1 + step) / (10 + step))
            for name, value in self.generator.state_dict().items():
                average = torch.lerp(
                    self.average[name].float(), value.float(), 1 - kept
                )
                self.average[name].copy_(average)
        self._records = None

    def result(self) -> dict[str, Tensor]:
        """Returns the weights and running statistics, or their averages."""
        return dict(self.average or self.generator.state_dict())

    def parts(self) -> dict[str, Any]:
        """Returns the generator, its average and its optimiser."""
        return {
            "generator": self.generator,
            "average": self.average,
            "adam": self.adam,
        }


class TransportTraining(Checkpointed):
    """A generator that follows noisy gradients at the records that it makes.

    Args:
        start: The generator.
        gradient: From what left the gate, and what a step asked with beside the
            records, to a gradient at them, (records, inputs); None for the array
            "records" of the former.
        beside: What a step asks with beside the records, by its number; None for
            nothing.
    """

    def __init__(
        self,
        start: GuidedStart,
        *,
        gradient: Callable[[Mapping[str, Tensor]], Tensor] | None = None,
        beside: Callable[[int], Mapping[str, Tensor]] | None = None,
    ) -> None:
        self.steps = 0
        self.on_its_way = GeneratorOnItsWay(start)
        self._gradient = gradient
        self._beside = beside

    def parameters(self) -> dict[str, Tensor]:
        """Returns the generated records of this step, their labels, and what it asks with beside them."""
        records, labels = self.on_its_way.records(self.steps)
        return {"records": records.detach(), "labels": labels, **self._asked_beside()}

    def step(self, noisy: Mapping[str, Any]) -> None:
        """Moves the generator against a noisy gradient at its records."""
        records, _ = self.on_its_way.records(self.steps)
        known = {
            name: torch.as_tensor(value).to(records)
            for name, value in {**self._asked_beside(), **noisy}.items()
        }
        gradient = known["records"] if self._gradient is None else self._gradient(known)
        self.on_its_way.adam.descend(records, gradient)
        self.on_its_way.follow(self.steps)
        self.steps += 1

    def result(self) -> dict[str, Tensor]:
        """Returns the generator's weights and running statistics, or their averages."""
        return self.on_its_way.result()

    def parts(self) -> dict[str, Any]:
        """Returns the generator, its average and its optimiser."""
        return self.on_its_way.parts()

    def _asked_beside(self) -> Mapping[str, Tensor]:
        return {} if self._beside is None else self._beside(self.steps)


def transport_gradient(
    generated: Labelled,
    real: Labelled,
    *,
    first: int,
    label_cost: float,
    regularisation: float,
    iterations: int,
) -> Float[Tensor, "records inputs"]:
    """Returns the gradient of the semi-debiased loss 2·W(X₁, Y) − W(X₁, X₂) at generated records, (records, inputs)."""
    # X₁ and X₂ are the `first` records generated and as many of the last, Y any number of real ones: none have no pull
    # at all. Costs are sums over inputs, and records of different labels cost `label_cost` more for each input.
    if not len(real[0]):
        return torch.zeros_like(generated[0])
    records, labels = generated[0].detach().requires_grad_(), generated[1]
    own, losses = records[:first], []
    for other, of in (real, (records[-first:], labels[-first:])):
        # Bias depends on how many records there are: so W(X₁, Y) is the mean over parts of Y about as large as X₂.
        parts = max(round(len(other) / first), 1)
        places = (
            torch.arange(math.ceil(len(other) / parts) * parts).reshape(-1, parts).T
        )
        there, places = places < len(other), places.clamp_max(len(other) - 1)
        each, same = (
            other[places],
            (labels[:, None] == of[places][:, None])[:, :first] & there[:, None],
        )
        square = (
            own.square().sum(dim=1)[:, None]
            - 2 * own @ each.mT
            + each.square().sum(dim=2)[:, None]
        )
        apart = torch.cdist(own.expand(parts, -1, -1), each, p=1)
        cost = square + apart + label_cost * records.shape[1] * ~same
        # Real records of a label weigh what generated ones do, whose shares are public; without any, none pull.
        shares = (same / same.sum(dim=2, keepdim=True).clamp_min(1)).sum(
            dim=1
        ) + 1e-9 * there
        plan = transport_plan(
            cost.detach(),
            shares / shares.sum(dim=1, keepdim=True),
            regularisation,
            iterations,
        )
        losses.append((plan * cost * same.any(dim=2, keepdim=True)).sum() / parts)
    return torch.autograd.grad(2 * losses[0] - losses[1], records)[0]


def transport_plan(
    cost: Float[Tensor, "*parts rows columns"],
    shares: Float[Tensor, "*parts columns"],
    least: float,
    iterations: int,
) -> Float[Tensor, "*parts rows columns"]:
    """Returns Sinkhorn's plans between rows of equal weights and columns of these, by their costs."""
    # The regularisation falls from the largest cost to the `least` by halves, for few iterations to reach a small one.
    of_columns, blur, weights = (
        torch.zeros_like(cost[..., :1, :]),
        float(cost.max()),
        shares[..., None, :].log(),
    )
    for _ in range(iterations):
        blur = max(blur / 2, least)
        of_rows = -blur * torch.logsumexp(
            (of_columns - cost) / blur + weights, dim=-1, keepdim=True
        )
        of_columns = blur * (
            math.log(cost.shape[-2])
            - torch.logsumexp((of_rows - cost) / blur, dim=-2, keepdim=True)
        )
    return ((of_columns - cost) / blur + weights).softmax(dim=-1) / cost.shape[-2]


class StudentTraining(Checkpointed):
    """Generator and student on their way: votes teach the student, and the student the generator.

    Votes are asked for on records that are mixed with uniform noise, each in a share of its own: on the generator's own
    a student learns nothing of any other, and the generator ends in a few records of which all votes are alike.

    Args:
        student: The student at its start.
        start: The generator.
        learning_rate: Of the student, by Adam.
        rounds: Steps of the student to one of the generator.
        teachers: Number of teachers that are asked in a step, expected.
    """

    def __init__(
        self,
        student: Discriminator,
        start: GuidedStart,
        *,
        learning_rate: float,
        rounds: int,
        teachers: float,
    ) -> None:
        self.steps = 0
        self.on_its_way = GeneratorOnItsWay(start)
        self.student = student
        self._rounds = rounds
        self._teachers = teachers
        self._student_adam = Adam(
            dict(student.named_parameters()), learning_rate=learning_rate
        )
        self._asked_step: int | None = None
        self._asked = torch.zeros(0)

    def parameters(self) -> dict[str, Tensor]:
        """Returns the generated records of this step, their labels, and the mixed ones that are asked about."""
        records, labels = self.on_its_way.records(self.steps)
        asked = self._asked_records()
        return {"records": records.detach(), "labels": labels, "asked": asked}

    def step(self, noisy: Mapping[str, Any]) -> None:
        """Moves the student by the share of votes for each asked record, and then the generator by the student."""
        records, labels = self.on_its_way.records(self.steps)
        asked = self._asked_records()
        votes = torch.as_tensor(noisy["votes"]).to(records)
        vote_shares = (votes / self._teachers + 0.5).clamp(0, 1)
        asked_rows = self.student.rows(asked, labels)
        for _ in range(self._rounds):
            scores = self.student(asked_rows)
            self._student_adam.descend(
                binary_cross_entropy_with_logits(scores, vote_shares)
            )
        generated_scores = self.student(self.student.rows(records, labels))
        self.on_its_way.adam.descend(softplus(-generated_scores).mean())
        self.on_its_way.follow(self.steps)
        self.steps += 1

    def result(self) -> dict[str, Tensor]:
        """Returns the generator's weights and running statistics, or their averages."""
        return self.on_its_way.result()

    def parts(self) -> dict[str, Any]:
        """Returns both networks and both optimisers."""
        return {
            **self.on_its_way.parts(),
            "student": self.student,
            "student_adam": self._student_adam,
        }

    def _asked_records(self) -> Float[Tensor, "records inputs"]:
        """Returns the mixed records of this step.

        They are made once, after the step's own records: running statistics of the
        generator follow all that it makes, in this order.
        """
        if self._asked_step != self.steps:
            start = self.on_its_way.start
            labels, _ = self.on_its_way.labels(self.steps)
            random = stream(start.seed, self.steps, 1)
            noise = self.on_its_way.generator.noise(start.batch, random)
            with torch.no_grad():
                self._asked = start.encode(
                    partial(self._mixed, random),  # type: ignore[arg-type]
                    noise.to(start.device),
                    labels.to(start.device),
                    random,
                )
            self._asked_step = self.steps
        return self._asked

    def _mixed(
        self,
        random: torch.Generator,
        noise: Float[Tensor, "records latent"],
        labels: Shaped[Tensor, " records"],
    ) -> Any:
        """Returns generated records, each mixed with uniform noise in a share of its own."""
        generated = self.on_its_way.generator(noise, labels)
        noise_shares = torch.rand(self.on_its_way.start.batch, generator=random)
        noise_shares = noise_shares.to(self.on_its_way.start.device)
        if isinstance(generated, list):  # of a table: the chance of each cell
            return [
                column + noise_shares * (1 / len(column) - column)
                for column in generated
            ]
        uniform = torch.rand(generated.shape, generator=random).to(generated)
        return generated + noise_shares[:, None] * (uniform - generated)


Weights = Mapping[str, Tensor]  # of a shard, by name
_BETA1, _BETA2, _EPS, _KINDS = 0.5, 0.999, 1e-8, ("mean", "square")


@dataclass(frozen=True, kw_only=True)
class ShardTeacher:
    """A discriminator of a shard, a table's, the same for all at its start; methods differ in what it `says`.

    It sees so many `records` of its shard in a round, `encode`d with the label left out, the coded column `label`, and
    takes `rounds` steps of Adam each time that it learns. `learning` shards learn in a step, in turn, None for all; and
    every shard `warm_up` times before the first step. With a `penalty`, the weight of (‖gradient‖ − 1)² between real
    and generated records (Gulrajani et al., NeurIPS 2017, https://arxiv.org/abs/1704.00028), it learns the Wasserstein
    distance; `drift` is that of the squared score of real ones, which keeps scores near 0.
    """

    says: Callable[[ShardTeacher, Weights, Weights], Weights]
    discriminator: Discriminator
    encode: Callable[[Tensor, Tensor], Tensor]
    label: int | None
    records: int
    learning_rate: float
    rounds: int = 1
    learning: int | None = None
    warm_up: int = 0
    penalty: float | None = None
    drift: float = 0.0

    def start(self, shards: int) -> tuple[Weights, Weights]:
        """Returns weights of so many shards before they saw any record, and the moments of Adam."""
        named = self.discriminator.named_parameters()
        weights = {
            name: value.detach().expand(shards, *value.shape).clone()
            for name, value in named
        }
        moments = {
            f"{kind} {name}": torch.zeros_like(value)
            for kind in _KINDS
            for name, value in weights.items()
        }
        return weights, moments | {"taken": torch.zeros(shards)}

    def loss(
        self, weights: Weights, parameters: Weights, batch: Any
    ) -> Float[Tensor, ""]:
        """Returns the logistic loss, or a critic's; without records a shard learns from generated ones, or nothing."""
        real, made = self.real_rows(batch), self.made_rows(parameters)
        own, others = self.scores(weights, real)[0], self.scores(weights, made)[0]
        loss: Tensor = batch.held * softplus(-own).mean() + softplus(others).mean()
        if self.penalty is not None:
            part = torch.rand_like(real[: len(made), :1])
            _, slopes = self.scores(
                weights, part * real[: len(part)] + (1 - part) * made[: len(part)]
            )
            steep = ((slopes.square().sum(dim=1) + 1e-12).sqrt() - 1).square().mean()
            loss = batch.held * (
                others.mean()
                - own.mean()
                + self.penalty * steep
                + self.drift * own.square().mean()
            )
        return loss

    def step(
        self, weights: Weights, moments: Weights, gradients: Weights
    ) -> tuple[Weights, Weights]:
        """Returns weights and moments after a step of Adam."""
        taken = moments["taken"] + 1
        moved, kept = {}, {"taken": taken}
        for name, gradient in gradients.items():
            mean = _BETA1 * moments[f"mean {name}"] + (1 - _BETA1) * gradient
            square = (
                _BETA2 * moments[f"square {name}"] + (1 - _BETA2) * gradient.square()
            )
            step = (
                mean
                / (1 - _BETA1**taken)
                / ((square / (1 - _BETA2**taken)).sqrt() + _EPS)
            )
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
        layers = sorted(
            {int(name.split(".")[1]) for name in weights if name.startswith("body.")}
        )
        inputs = rows.shape[1] - self.discriminator.classes
        values, slopes = rows[:, :inputs], []
        for layer in layers:
            values = (
                values @ weights[f"body.{layer}.weight"].T
                + weights[f"body.{layer}.bias"]
            )
            slopes.append(torch.where(values > 0, 1.0, SLOPE))
            values = values * slopes[-1]
        # The label chooses among scores.
        codes = torch.cat([torch.ones_like(rows[:, :1]), rows[:, inputs:]], dim=1)
        back = codes @ weights["scores.weight"]
        found = (values * back).sum(dim=1) + codes @ weights["scores.bias"]
        for layer, slope in zip(reversed(layers), reversed(slopes), strict=True):
            back = (back * slope) @ weights[f"body.{layer}.weight"]
        return found, back

    def made_rows(
        self, parameters: Weights, which: str = "records"
    ) -> Float[Tensor, "records _"]:
        """Returns the rows of generated records, or of others that have their labels."""
        return self._rows(parameters[which], parameters["labels"])

    def real_rows(self, batch: Any) -> Float[Tensor, "records _"]:
        """Returns the rows of the records that a shard sees."""
        labels = (
            torch.zeros(len(batch.numeric))
            if self.label is None
            else batch.codes[:, self.label]
        )
        return self._rows(self.encode(batch.numeric, batch.codes), labels)

    def pull(
        self, weights: Weights, parameters: Weights
    ) -> Float[Tensor, "records inputs"]:
        """Returns the gradient at generated records of the loss −log D of a generator."""
        scores, slopes = self.scores(weights, self.made_rows(parameters))
        return -torch.sigmoid(-scores)[:, None] * slopes

    def _rows(
        self,
        inputs: Float[Tensor, "records inputs"],
        labels: Shaped[Tensor, " records"],
    ) -> Float[Tensor, "records _"]:
        """Returns rows as the discriminator takes them: inputs, and labels as one-hot codes."""
        classes = torch.arange(self.discriminator.classes, device=inputs.device)
        return torch.cat([inputs, (labels[:, None] == classes).to(inputs.dtype)], dim=1)


def largest_signs(
    teacher: ShardTeacher,
    weights: Weights,
    parameters: Weights,
    *,
    largest: int,
    bound: float,
) -> Weights:
    """Returns signs of so many largest entries of each gradient, else 0; those below `bound` are drawn (DataLens)."""
    gradient = teacher.pull(weights, parameters)
    least = gradient.abs().topk(largest, dim=1).values[:, -1:]
    chance = (1 + (gradient / bound).clamp(-1, 1)) / 2
    signs = torch.where(torch.rand_like(chance) < chance, 1.0, -1.0)
    return {
        "records": torch.where((gradient.abs() >= least) & (gradient != 0), signs, 0.0)
    }


def votes(teacher: ShardTeacher, weights: Weights, parameters: Weights) -> Weights:
    """Returns half a vote, (records,), for each asked record that is above the mean of its label, else against it."""
    labels = parameters["labels"]
    scores, _ = teacher.scores(weights, teacher.made_rows(parameters, "asked"))
    alike = (labels[:, None] == labels).to(scores.dtype)
    return {"votes": torch.where(scores > alike @ scores / alike.sum(dim=1), 0.5, -0.5)}


def clipped_answers(
    teacher: ShardTeacher, weights: Weights, parameters: Weights, *, clip_norm: float
) -> Weights:
    """Returns the gradient of the generator's loss at each record, clipped to `clip_norm` over √records (GS-WGAN)."""
    _, slopes = teacher.scores(weights, teacher.made_rows(parameters))
    length, most = (
        slopes.square().sum(dim=1, keepdim=True).sqrt(),
        clip_norm / math.sqrt(len(slopes)),
    )
    return {"records": -slopes * (most / length.clamp_min(most))}


def histogram_votes(
    teacher: ShardTeacher,
    weights: Weights,
    parameters: Weights,
    *,
    bound: float,
    bins: int,
) -> Weights:
    """Returns votes for the bin of each coordinate of projected gradients, (records, coordinates, bins) (G-PATE)."""
    # Bins are of equal width between ± `bound`; `parameters` hold projections, (records, inputs, coordinates).
    projected = torch.einsum(
        "ri,ric->rc", teacher.pull(weights, parameters), parameters["projection"]
    )
    place = ((projected / bound + 1) / 2 * bins).floor().clamp(0, bins - 1)
    return {
        "votes": (place[..., None] == torch.arange(bins, device=place.device)).to(
            projected.dtype
        )
    }
