"""The records of a synthetic set as numbers that can be moved: by themselves, or as what a network makes of noise.

Both encode the set as a classifier sees records (`models.classifier_inputs.Inputs` over its scale): 2(x − centre) for a
numeric column, the chance of being missing where it may be, and the share of each level of the others.

What moves them is how far two gradients of a network point apart: the distance of dataset condensation (Zhao, Mopuri,
Bilen, ICLR 2021), which PSG uses (Chen, Kerkouche, Fritz, NeurIPS 2022, Equation 7). For each weight with two or more
dimensions it is the sum over its output rows of 1 − cos. Biases and the shifts and scales of normalisations are left
out. No length matters, so sums of gradients do as well as means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from noisegate.models.classifier_inputs import Inputs
from noisegate.models.image import ImageGenerator, build_image_generator
from noisegate.models.image_network import ImageNetwork
from noisegate.schema.pixels import ImageShape
from noisegate.training.adam import Adam
from noisegate.training.checkpoint import Resumable, joined

AT_ONCE = 128
"""Records whose second derivatives are held at once: some hundred megabytes for small images at 128 channels."""

_TINY = 1e-12


class SyntheticSet(Resumable, Protocol):
    """A set of records that can be moved."""

    def inputs(self) -> Tensor:
        """Returns the set as a network sees it, (records, inputs), with the graph back to what is moved."""
        ...

    def descend(self, inputs: Tensor, gradient: Tensor) -> None:
        """Takes a step against the gradient of something at what `inputs` returned, of its shape."""
        ...


class FreeRecords:
    """Each record on its own: numbers within their bounds, and logits of what is missing and of levels.

    Moved by gradient descent with momentum (PSG, Algorithm 1). Numbers are put back within their bounds after each
    step, so that what is trained is what can be handed out; the authors' program leaves them free.

    Args:
        columns: The columns without the label.
        records: How many.
        init_std: Standard deviation at the start, before numbers are put within their bounds.
        learning_rate: Of the descent.
        momentum: Of the descent.
        seed: Of the start; public.
        device: Where to compute.
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
        self._columns, self._rate, self._momentum = columns, learning_rate, momentum
        start = init_std * torch.randn(records, len(columns.names), generator=random)
        self._values = self._bounded(start).to(device)
        self._velocity = torch.zeros_like(self._values)

    def inputs(self) -> Tensor:
        """Returns the set as a network sees it, (records, inputs)."""
        values, columns = self._values.requires_grad_(), self._columns
        sizes = [columns.numeric, len(columns.absent), *columns.coded]
        if sizes[1:] == [0]:
            return values
        numeric, absent, *coded = torch.split(values, sizes, dim=1)
        missing = absent.sigmoid()
        there = torch.ones_like(numeric)
        there[:, list(columns.absent)] = 1 - missing
        return torch.cat([numeric * there, missing, *(logits.softmax(dim=1) for logits in coded)], dim=1)

    def descend(self, inputs: Tensor, gradient: Tensor) -> None:
        """Takes a step of gradient descent with momentum."""
        own = gradient if inputs is self._values else torch.autograd.grad(inputs, self._values, gradient)[0]
        self._velocity = self._momentum * self._velocity + own
        self._values = self._bounded(self._values.detach() - self._rate * self._velocity)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the records and where they are heading."""
        return {"records": self._values.detach(), "velocity": self._velocity}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        (self._values, self._velocity) = _like([self._values, self._velocity], tensors, ["records", "velocity"])

    def _bounded(self, values: Tensor) -> Tensor:
        lowest, numeric = -2 * self._columns.centre, self._columns.numeric
        return torch.cat([values[:, :numeric].clamp(lowest, lowest + 2), values[:, numeric:]], dim=1)


class GeneratedImages:
    """Images that a convolutional network makes of fixed noise: only its weights are moved, by Adam (PSG, Equation 8).

    Args:
        generator: The network, in training mode: images of the set are normalised with each other.
        labels: Of the images, (records,).
        centre: The intensity that counts as nothing.
        learning_rate: Of Adam.
        seed: Of the noise; public.
        device: Where to compute.
    """

    def __init__(
        self,
        generator: ImageGenerator,
        labels: Tensor,
        *,
        centre: float,
        learning_rate: float,
        seed: int,
        device: str = "cpu",
    ) -> None:
        self._generator, self._labels = generator.to(device).train(), labels.to(device)
        self._noise = generator.noise(len(labels), torch.Generator().manual_seed(seed)).to(device)
        self._centre = centre
        self._weights = {str(place): weight for place, weight in enumerate(generator.parameters())}
        self._adam = Adam(self._weights, learning_rate=learning_rate)

    def inputs(self) -> Tensor:
        """Returns the set as a network sees it, (records, inputs)."""
        images: Tensor = self._generator(self._noise, self._labels)
        return 2 * (images - self._centre)

    def descend(self, inputs: Tensor, gradient: Tensor) -> None:
        """Takes a step of Adam."""
        gradients = torch.autograd.grad(inputs, list(self._weights.values()), gradient)
        self._adam.step(dict(zip(self._weights, gradients, strict=True)))

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the weights, Adam's moments, and the number of steps."""
        return {**joined(weight=self._weights), **self._adam.state_dict()}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        names = [f"weight/{name}" for name in self._weights]
        stored = _like(list(self._weights.values()), tensors, names)
        with torch.no_grad():
            for weight, value in zip(self._weights.values(), stored, strict=True):
                weight.copy_(value)
        self._adam.load_state_dict(tensors)


def prior_images(
    shape: ImageShape, labels: Tensor, *, centre: float, learning_rate: float, seeds: tuple[int, int], device: str
) -> GeneratedImages:
    """Returns images of some labels, made by a fresh convolutional generator: DP-MERF's, a little wider.

    Args:
        shape: Of the images.
        labels: Of the images, (records,).
        centre: The intensity that counts as nothing.
        learning_rate: Of Adam.
        seeds: Of the generator's weights and of the noise; public.
        device: Where to compute.
    """
    design = ImageNetwork(shape=shape, kind="convolutional", latent=10, hidden=(200,), channels=(32, 16))
    generator = build_image_generator(design, int(labels.max()) + 1, seed=seeds[0])
    return GeneratedImages(generator, labels, centre=centre, learning_rate=learning_rate, seed=seeds[1], device=device)


def _like(values: Sequence[Tensor], tensors: Mapping[str, Tensor], names: Sequence[str]) -> list[Tensor]:
    """Returns the tensors of these names, on the devices of `values`, whose shapes they must have."""
    found = [tensors[name].to(value.device) for name, value in zip(names, values, strict=True)]
    if [tensor.shape for tensor in found] != [value.shape for value in values]:
        raise ValueError("tensors of another shape")
    return found


def row_distance(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> Tensor:
    """Returns the sum over weights and their output rows of 1 − cos, a scalar.

    Args:
        found: Gradients, of two or more dimensions each, outputs first.
        wanted: Gradients of the same shapes; others are not looked at.
    """
    total = torch.zeros(())
    for name, gradient in found.items():
        mine, theirs = gradient.flatten(1), wanted[name].flatten(1)
        lengths = (mine.square().sum(1) * theirs.square().sum(1) + _TINY**2).sqrt()
        total = total.to(mine) + (1 - (mine * theirs).sum(1) / lengths).sum()
    return total


def matching_gradient(
    network: nn.Module, inputs: Tensor, labels: Tensor, wanted: Mapping[str, Tensor]
) -> tuple[float, Tensor]:
    """Returns the distance of the mean loss's gradient from a wanted one, and its gradient at each input.

    Memory does not grow with the number of records: the gradient of the distance at the gradient is found first,
    then that of each block of records is pulled along it.

    Args:
        network: From inputs to logits; it treats records alone.
        inputs: (records, …).
        labels: (records,) int64.
        wanted: Gradient by name of the network's parameters.

    Returns:
        The distance, and its gradient, of the shape of `inputs`.
    """
    weights = {name: value for name, value in network.named_parameters() if value.dim() > 1}
    if len(inputs) <= AT_ONCE:
        points = inputs.detach().requires_grad_()
        distance = row_distance(_gradient(network, points, labels, len(inputs), weights, graph=True), wanted)
        (gradient,) = torch.autograd.grad(distance, points)
        return float(distance.detach()), gradient
    blocks = list(zip(torch.split(inputs, AT_ONCE), torch.split(labels, AT_ONCE), strict=True))
    parts = [_gradient(network, part, coded, len(inputs), weights, graph=False) for part, coded in blocks]
    whole = {name: sum((part[name] for part in parts[1:]), parts[0][name]).requires_grad_() for name in weights}
    distance = row_distance(whole, wanted)
    pull = torch.autograd.grad(distance, list(whole.values()))
    found = []
    for part, coded in blocks:
        points = part.detach().requires_grad_()
        own = _gradient(network, points, coded, len(inputs), weights, graph=True)
        found.append(torch.autograd.grad(list(own.values()), points, pull)[0])
    return float(distance.detach()), torch.cat(found)


def _gradient(
    network: nn.Module, inputs: Tensor, labels: Tensor, records: int, weights: Mapping[str, Tensor], *, graph: bool
) -> dict[str, Tensor]:
    """Returns what these records add to the gradient of the mean loss over `records`."""
    loss = cross_entropy(network(inputs), labels, reduction="sum") / records
    gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=graph)
    return dict(zip(weights, gradients, strict=True))
