"""The public half of PSG (Chen, Kerkouche and Fritz, NeurIPS 2022, https://arxiv.org/abs/2211.04446, algorithm 1).

Gradients are compared as in dataset condensation (Zhao, Mopuri and Bilen, ICLR 2021; PSG's equation 7): for each weight
with two or more dimensions the sum over its output rows of 1 − cos.

Each step moves the synthetic set so that its gradient at the network points where the
noisy one does. After `batches` steps the network is trained on the set for a while;
after `outer` times that, a fresh one takes its place. Steps are what is paid for, so
there are as many as planned, wherever a run is then. The set is encoded as a classifier
sees records. How far two gradients point apart is the distance of dataset condensation
(Zhao, Mopuri, Bilen, ICLR 2021; PSG's equation 7): for each weight with two or more
dimensions the sum over its output rows of 1 − cos.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from noisegate.devices import seeded
from noisegate.models.checkpoint import check_finite, joined, restore, under
from noisegate.schema.pixels import ImageShape
from noisegate_images.models.image import ImageGenerator, build_image_generator
from noisegate_images.models.image_network import ImageNetwork
from noisegate_images.training.adam import Adam, gradients
from noisegate_images.training.fit import PriorNetwork
from noisegate_papers.models.inputs import Inputs
from noisegate_papers.training.schedules import SetSchedule

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

_CHANNELS = (256, 128, 64)
_LEAST_SQUARE = 1e-8


class PixelNorm(nn.Module):
    """Divides the channels of each pixel by their root mean square."""

    def forward(
        self, images: Float[Tensor, "rows channels h w"]
    ) -> Float[Tensor, "rows channels h w"]:
        """Returns activations of the same shape, of mean square one at each pixel."""
        return images * torch.rsqrt(
            images.square().mean(dim=1, keepdim=True) + _LEAST_SQUARE
        )


def build_dcgan(shape: ImageShape, inputs: int, *, seed: int) -> nn.Sequential:
    """Returns a fresh network from (rows, inputs) to (rows, channels, height, width), even sides of 22 or more.

    Radford, Metz and Chintala (ICLR 2016), https://arxiv.org/abs/1511.06434, in the sizes of PSG's equation 8, with
    pixel normalisation (Karras et al., ICLR 2018, section 4.2), which treats every image alone.
    """
    # Backwards: the last layer makes 2a + 6 of a, the one before adds 4, the first adds 4 and loses one.
    height, width = ((side - 6) // 2 - 7 for side in (shape.height, shape.width))
    first, second, third = _CHANNELS
    with seeded(seed):
        return nn.Sequential(
            nn.Linear(inputs, first * height * width),
            nn.Unflatten(1, (first, height, width)),
            nn.ReLU(),
            PixelNorm(),
            nn.ConvTranspose2d(first, second, kernel_size=5),
            nn.ZeroPad2d((0, -1, 0, -1)),  # without the last row and the last column
            nn.ReLU(),
            PixelNorm(),
            nn.ConvTranspose2d(second, third, kernel_size=5),
            nn.ReLU(),
            PixelNorm(),
            nn.ConvTranspose2d(third, shape.channels, kernel_size=8, stride=2),
        )


SET = "set"  # what the released set is called

AT_ONCE = 128
"""Records whose second derivatives are held at once: some hundred megabytes for small images at 128 channels."""

INNER_BATCH = (
    256  # records of the synthetic set in one step of the training of a network
)

_NETWORK, _ORDER = 0, 1
_TINY = 1e-12


class SetTraining:
    """A synthetic set on its way, of so many `steps`, and the network at which its gradient is compared."""

    def __init__(
        self,
        schedule: SetSchedule,
        steps: int,
        synthetic: SyntheticSet,
        labels: Int64[Tensor, " records"],
        build: Callable[[int], nn.Module],
    ) -> None:
        self.build = build
        self.steps, self.distance = 0, float("nan")
        self._schedule, self._planned, self._set, self._labels = (
            schedule,
            steps,
            synthetic,
            labels,
        )
        self._network = build(schedule.stream(_NETWORK, 0))
        self._average = (
            synthetic.inputs().detach().clone() if schedule.ema_decay else None
        )

    @property
    def records(self) -> int:
        """How many there are in the set."""
        return len(self._labels)

    def begin(self, inputs: Float[Tensor, "records inputs"]) -> None:
        """Puts other numbers in the place of those of a set whose records are moved by themselves, before any step."""
        assert isinstance(self._set, FreeRecords)
        self._set.begin(inputs)
        if self._average is not None:
            self._average = self._set.inputs().detach().clone()

    def parameters(self) -> dict[str, Tensor]:
        """Returns the weights of the network, where the next gradient is to be taken."""
        return {
            name: value.detach() for name, value in self._network.named_parameters()
        }

    def result(self) -> dict[str, Tensor]:
        """Returns the set as a network sees it, (records, inputs), or its average over the steps."""
        return {
            SET: self._set.inputs().detach() if self._average is None else self._average
        }

    def step(self, noisy: Mapping[str, Tensor]) -> None:
        """Moves the set after a noisy sum of gradients, and the network after the set."""
        inputs = self._set.inputs()
        self.distance, gradient = matching_gradient(
            self._network, inputs.detach(), self._labels, noisy
        )
        self._set.descend(inputs, gradient)
        self.steps += 1
        if self._average is not None:
            kept = min(self._schedule.ema_decay, self.steps / (self.steps + 9))
            self._average.lerp_(self._set.inputs().detach(), 1 - kept)
        check_finite({SET: self._set.inputs().detach()}, self.steps)
        if self.steps == self._planned or self.steps % self._schedule.batches:
            return
        run, rest = divmod(self.steps, self._schedule.batches * self._schedule.outer)
        if rest == 0:
            self._network = self.build(self._schedule.stream(_NETWORK, run))
        else:
            self._train_network()

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the set and its average, if one is kept, the network and the number of steps."""
        average = {} if self._average is None else {"average": self._average}
        return {
            **joined(set=self._set.state_dict()),
            **self.parameters(),
            **average,
            "steps": torch.tensor(self.steps),
        }

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        self._set.load_state_dict(under(tensors, "set/"))
        restore(self.parameters(), tensors)
        if self._average is not None:
            restore({"average": self._average}, tensors)
        self.steps = int(tensors["steps"])

    def _train_network(self) -> None:
        # Follows from the step, so that a resumed run draws the same orders.
        random = torch.Generator().manual_seed(
            self._schedule.stream(_ORDER, self.steps)
        )
        inputs, weights = (
            self._set.inputs().detach(),
            dict(self._network.named_parameters()),
        )
        for _ in range(self._schedule.epochs):
            order = torch.randperm(len(inputs), generator=random).to(inputs.device)
            for batch in torch.split(order, INNER_BATCH):
                loss = cross_entropy(self._network(inputs[batch]), self._labels[batch])
                for name, gradient in gradients(loss, weights).items():
                    weights[name].detach().sub_(
                        gradient, alpha=self._schedule.network_learning_rate
                    )


class FreeRecords:
    """Each record on its own: numbers within their bounds, and logits of what is missing and of levels.

    Moved by gradient descent with momentum (PSG, Algorithm 1). Numbers start normal, with `init_std`, and are put back
    within their bounds after each step, so that what is trained can be shared; the authors' program leaves them
    free.
    """

    def __init__(
        self,
        columns: Inputs,
        records: int,
        *,
        init_std: float,
        learning_rate: float,
        momentum: float,
        seed: int,
        device: str = "cpu",
    ) -> None:
        random = torch.Generator().manual_seed(seed)
        self._columns, self._learning_rate, self._momentum = (
            columns,
            learning_rate,
            momentum,
        )
        start = init_std * torch.randn(records, len(columns.names), generator=random)
        self._values = self._bounded(start).to(device)
        self._velocity = torch.zeros_like(self._values)

    def begin(self, values: Float[Tensor, "records numbers"]) -> None:
        """Puts other numbers, within their bounds, in the place of those at the start."""
        self._values = self._bounded(values.to(self._values))

    def inputs(self) -> Float[Tensor, "records inputs"]:
        """Returns the set as a network sees it, (records, inputs)."""
        values, columns = self._values.requires_grad_(), self._columns
        sizes = [columns.numeric, len(columns.absent), *columns.coded]
        if sizes[1:] == [0]:
            return values
        numeric, absent, *coded = torch.split(values, sizes, dim=1)
        missing = absent.sigmoid()
        there = torch.ones_like(numeric)
        there[:, list(columns.absent)] = 1 - missing
        return torch.cat(
            [numeric * there, missing, *(logits.softmax(dim=1) for logits in coded)],
            dim=1,
        )

    def descend(
        self,
        inputs: Float[Tensor, "records inputs"],
        gradient: Float[Tensor, "records inputs"],
    ) -> None:
        """Takes a step of gradient descent with momentum."""
        own = (
            gradient
            if inputs is self._values
            else torch.autograd.grad(inputs, self._values, gradient)[0]
        )
        self._velocity = self._momentum * self._velocity + own
        self._values = self._bounded(
            self._values.detach() - self._learning_rate * self._velocity
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the records and where they are heading."""
        return {"records": self._values.detach(), "velocity": self._velocity}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        restore(self.state_dict(), tensors)

    def _bounded(
        self, values: Float[Tensor, "records numbers"]
    ) -> Float[Tensor, "records numbers"]:
        lowest, numeric = -2 * self._columns.centre, self._columns.numeric
        return torch.cat(
            [values[:, :numeric].clamp(lowest, lowest + 2), values[:, numeric:]], dim=1
        )


class GeneratedImages:
    """Images that a convolutional network makes of fixed noise: only its weights are moved, by Adam (PSG, Equation 8).

    The network is in training mode: where it normalises by batches, images of the set are normalised with each other.
    `seed` is of the noise.
    """

    def __init__(
        self,
        generator: ImageGenerator,
        labels: Int64[Tensor, " records"],
        *,
        centre: float,
        learning_rate: float,
        seed: int,
        device: str = "cpu",
    ) -> None:
        self._generator, self._labels = generator.to(device).train(), labels.to(device)
        self._noise = generator.noise(
            len(labels), torch.Generator().manual_seed(seed)
        ).to(device)
        self._centre = centre
        self._weights = {
            str(number): weight for number, weight in enumerate(generator.parameters())
        }
        self._adam = Adam(self._weights, learning_rate=learning_rate)

    def inputs(self) -> Float[Tensor, "records inputs"]:
        """Returns the set as a network sees it, (records, inputs)."""
        images: Tensor = self._generator(self._noise, self._labels)
        return 2 * (images - self._centre)

    def descend(
        self,
        inputs: Float[Tensor, "records inputs"],
        gradient: Float[Tensor, "records inputs"],
    ) -> None:
        """Takes a step of Adam."""
        self._adam.descend(inputs, gradient)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the weights, Adam's moments, and the number of steps."""
        return {**joined(weight=self._weights), **self._adam.state_dict()}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        restore(self._weights, under(tensors, "weight/"))
        self._adam.load_state_dict(tensors)


SyntheticSet: TypeAlias = (
    FreeRecords | GeneratedImages
)  # a set of records that can be moved


def prior_images(
    shape: ImageShape,
    labels: Int64[Tensor, " records"],
    *,
    centre: float,
    learning_rate: float,
    seeds: tuple[int, int],
    network: PriorNetwork,
    device: str,
) -> GeneratedImages:
    """Returns images of some labels by a fresh generator, DP-MERF's or a DCGAN; seeds are of its weights and noise."""
    design = ImageNetwork(
        shape=shape, kind="convolutional", latent=10, hidden=(200,), channels=(32, 16)
    )
    classes = int(labels.max()) + 1
    if network == "dcgan":
        logits = build_dcgan(shape, design.latent + classes, seed=seeds[0])
        generator = ImageGenerator(design, classes, logits)
    else:
        generator = build_image_generator(design, classes, seed=seeds[0])
    return GeneratedImages(
        generator,
        labels,
        centre=centre,
        learning_rate=learning_rate,
        seed=seeds[1],
        device=device,
    )


def row_distance(
    found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]
) -> Float[Tensor, ""]:
    """Returns the sum over weights, outputs first, and their output rows of 1 − cos, a scalar."""
    total = torch.zeros(())
    for name, gradient in found.items():
        mine, theirs = gradient.flatten(1), wanted[name].flatten(1)
        lengths = (mine.square().sum(1) * theirs.square().sum(1) + _TINY**2).sqrt()
        total = total.to(mine) + (1 - (mine * theirs).sum(1) / lengths).sum()
    return total


def matching_gradient(
    network: nn.Module,
    inputs: Float[Tensor, "records ..."],
    labels: Int64[Tensor, " records"],
    wanted: Mapping[str, Tensor],
) -> tuple[float, Float[Tensor, "records ..."]]:
    """Returns the distance of the mean loss's gradient from a wanted one, and its gradient at each input."""
    # Memory does not grow with the number of records, which the network treats alone: the gradient of the distance at
    # the gradient is found first, then that of each block of records is pulled along it.
    weights = {
        name: value for name, value in network.named_parameters() if value.dim() > 1
    }

    def own_gradients(
        part: Float[Tensor, "rows ..."], coded: Int64[Tensor, " rows"], *, graph: bool
    ) -> dict[str, Tensor]:
        """Returns what some records add to the gradient of the mean loss over all."""
        loss = cross_entropy(network(part), coded, reduction="sum") / len(inputs)
        parts = torch.autograd.grad(loss, list(weights.values()), create_graph=graph)
        return dict(zip(weights, parts, strict=True))

    if len(inputs) <= AT_ONCE:
        points = inputs.detach().requires_grad_()
        distance = row_distance(own_gradients(points, labels, graph=True), wanted)
        (gradient,) = torch.autograd.grad(distance, points)
        return float(distance.detach()), gradient
    blocks = list(
        zip(torch.split(inputs, AT_ONCE), torch.split(labels, AT_ONCE), strict=True)
    )
    parts = [own_gradients(part, coded, graph=False) for part, coded in blocks]
    whole = {
        name: sum((part[name] for part in parts[1:]), parts[0][name]).requires_grad_()
        for name in weights
    }
    distance = row_distance(whole, wanted)
    pull, at_inputs = torch.autograd.grad(distance, list(whole.values())), []
    for part, coded in blocks:
        points = part.detach().requires_grad_()
        own = own_gradients(points, coded, graph=True)
        at_inputs.append(torch.autograd.grad(list(own.values()), points, pull)[0])
    return float(distance.detach()), torch.cat(at_inputs)
