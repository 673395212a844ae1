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
    from jaxtyping import Float, Shaped

Labelled = tuple[
    Tensor, Tensor
]  # records, (records, inputs), and their labels, (records,) int64


class TransportTraining(Checkpointed):
    """The generator on its way; `records` are generated in each step, the last with the labels of the first `again`.

    `shares` are those of the labels, (labels,), one where there is no label; `encode` makes of what the generator gives
    records as the loss takes them; `beside` gives what a step asks with beside these, by its number; and `gradient`
    makes of what left the gate, and of that, a gradient at these records. With an `ema_decay`, what is released is the
    average of the weights, of which the first t steps keep (1 + t)/(10 + t) at most.
    """

    def __init__(
        self,
        generator: Generator,
        shares: Float[Tensor, " classes"],
        *,
        encode: DiscriminatorInput,
        records: int,
        again: int = 0,
        learning_rate: float,
        seed: int,
        device: str,
        beta1: float = 0.9,
        ema_decay: float = 0.0,
        gradient: Callable[[Mapping[str, Tensor]], Tensor] = lambda told: told[
            "records"
        ],
        beside: Callable[[int], Mapping[str, Tensor]] = lambda step: {},
    ) -> None:
        self._gradient, self._beside, self._ema_decay = gradient, beside, ema_decay
        self.steps, self._generator, self._shares = 0, generator.train(), shares
        self._encode, self._records, self._seed, self._device, self._again = (
            encode,
            records,
            seed,
            device,
            again,
        )
        self._adam = Adam(
            dict(generator.named_parameters()), learning_rate=learning_rate, beta1=beta1
        )
        self._average = (
            {name: value.clone() for name, value in generator.state_dict().items()}
            if ema_decay
            else {}
        )
        self._generated: Labelled | None = None

    def parameters(self) -> dict[str, Tensor]:
        """Returns the generated records of this step, their labels, and what it asks with beside them."""
        records, labels = self._latest()
        return {
            "records": records.detach(),
            "labels": labels,
            **self._beside(self.steps),
        }

    def step(self, noisy: Mapping[str, Any]) -> None:
        """Moves the generator against a noisy gradient at its records."""
        records, _ = self._latest()
        told = {**self._beside(self.steps), **noisy}
        tensors = {
            name: torch.as_tensor(value).to(records) for name, value in told.items()
        }
        self._adam.descend(records, self._gradient(tensors))
        self._taken()

    def result(self) -> dict[str, Tensor]:
        """Returns the generator's weights and running statistics, or their averages."""
        return dict(self._average or self._generator.state_dict())

    def parts(self) -> dict[str, Any]:
        """Returns the generator, its average and its optimiser."""
        return {
            "generator": self._generator,
            "average": self._average,
            "adam": self._adam,
        }

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        super().load_state_dict(tensors)
        self._generated = None

    def _taken(self) -> None:
        kept = min(self._ema_decay, (1 + self.steps) / (10 + self.steps))
        for name, value in (
            self._generator.state_dict().items() if self._average else ()
        ):
            self._average[name].copy_(
                torch.lerp(self._average[name].float(), value.float(), 1 - kept)
            )
        self.steps, self._generated = self.steps + 1, None

    def _latest(self) -> Labelled:
        if self._generated is None:
            random = stream(self._seed, self.steps)
            labels = torch.multinomial(
                self._shares,
                self._records - self._again,
                replacement=True,
                generator=random,
            )
            labels = torch.cat([labels, labels[: self._again]])
            noise = self._generator.noise(self._records, random).to(self._device)
            self._generated = (
                self._encode(self._generator, noise, labels.to(self._device), random),
                labels,
            )
        return self._generated


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


class StudentTraining(TransportTraining):
    """Generator and student on their way; `given` is what the training of a generator is given.

    Votes are asked for on records that are mixed with uniform noise, each in a share of its own: on the generator's own
    a student learns nothing of any other, and the generator ends in a few records of which all votes are alike.
    """

    def __init__(
        self,
        student: Discriminator,
        *,
        student_learning_rate: float,
        rounds: int,
        teachers: float,
        **given: Any,
    ) -> None:
        super().__init__(**given)
        self._student, self._rounds, self._teachers = student, rounds, teachers
        self._student_adam = Adam(
            dict(student.named_parameters()), learning_rate=student_learning_rate
        )

    def parameters(self) -> dict[str, Tensor]:
        """Returns the generated records of this step, their labels, and the mixed ones that are asked about."""
        return {**super().parameters(), "asked": self._asked}

    def step(self, noisy: Mapping[str, Any]) -> None:
        """Moves the student by the share of votes for each asked record, and then the generator by the student."""
        records, labels = self._latest()
        share = (
            torch.as_tensor(noisy["votes"]).to(records) / self._teachers + 0.5
        ).clamp(0, 1)
        asked = self._student.rows(self._asked, labels)
        for _ in range(self._rounds):
            self._student_adam.descend(
                binary_cross_entropy_with_logits(self._student(asked), share)
            )
        self._adam.descend(
            softplus(-self._student(self._student.rows(records, labels))).mean()
        )
        self._taken()

    def parts(self) -> dict[str, Any]:
        """Returns both networks and both optimisers."""
        return {
            **super().parts(),
            "student": self._student,
            "student_adam": self._student_adam,
        }

    def _latest(self) -> Labelled:
        if self._generated is None:
            labels, random = (
                super()._latest()[1].to(self._device),
                stream(self._seed, self.steps, 1),
            )
            noise = self._generator.noise(self._records, random).to(self._device)
            with torch.no_grad():
                self._asked = self._encode(
                    partial(self._mixed, random),  # type: ignore[arg-type]
                    noise,
                    labels,
                    random,
                )
        return super()._latest()

    def _mixed(
        self,
        random: torch.Generator,
        noise: Float[Tensor, "records latent"],
        labels: Shaped[Tensor, " records"],
    ) -> Any:
        made, share = (
            self._generator(noise, labels),
            torch.rand(self._records, generator=random).to(self._device),
        )
        if isinstance(made, list):  # of a table: the chance of each cell
            return [column + share * (1 / len(column) - column) for column in made]
        return made + share[:, None] * (
            torch.rand(made.shape, generator=random).to(made) - made
        )


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
