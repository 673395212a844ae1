"""The records of a synthetic set as numbers that can be moved: by themselves, or as what a network makes of noise.

Both show the set as a classifier sees records (`classifiers.inputs.Inputs` over its scale): 2(x − centre) for a numeric
column, the chance of being missing where it may be, and the share of each level of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from noisegate.classifiers.inputs import Inputs
from noisegate.generators.image import ImageGenerator

# Of Adam, as its authors and torch have them.
_KEPT, _KEPT_SQUARE, _SMALL = 0.9, 0.999, 1e-8


class SyntheticSet(Protocol):
    """A set of records that can be moved."""

    def shown(self) -> Tensor:
        """Returns the set as a network sees it, (records, inputs), with the graph back to what is moved."""
        ...

    def descend(self, shown: Tensor, slopes: Tensor) -> None:
        """Takes a step that lowers something.

        Args:
            shown: What `shown` returned.
            slopes: Of that thing at `shown`, of the same shape.
        """
        ...

    def state(self) -> dict[str, Tensor]:
        """Returns what `restore` needs."""
        ...

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up the set where `state` was called.

        Raises:
            KeyError, ValueError: if it is that of another set.
        """
        ...


class FreeRecords:
    """Each record on its own: numbers within their bounds, and logits of what is missing and of levels.

    Moved by gradient descent with momentum (PSG, Algorithm 1). Numbers are put back within their bounds after each
    step, so that what is trained is what can be handed out; the authors' program leaves them free.

    Args:
        inputs: The columns without the label.
        records: How many.
        spread: Standard deviation at the start, before numbers are put within their bounds.
        learning_rate: Of the descent.
        momentum: Of the descent.
        seed: Of the start; public.
        device: Where to compute.
    """

    def __init__(
        self,
        inputs: Inputs,
        records: int,
        *,
        spread: float,
        learning_rate: float,
        momentum: float,
        seed: int,
        device: str = "cpu",
    ) -> None:
        random = torch.Generator().manual_seed(seed)
        self._inputs, self._rate, self._momentum = inputs, learning_rate, momentum
        start = spread * torch.randn(records, len(inputs.names), generator=random)
        self._values = self._bounded(start).to(device)
        self._velocity = torch.zeros_like(self._values)

    def shown(self) -> Tensor:
        """Returns the set as a network sees it, (records, inputs)."""
        values, inputs = self._values.requires_grad_(), self._inputs
        sizes = [inputs.numeric, len(inputs.absent), *inputs.coded]
        if sizes[1:] == [0]:
            return values
        numeric, absent, *coded = torch.split(values, sizes, dim=1)
        missing = absent.sigmoid()
        there = torch.ones_like(numeric)
        there[:, list(inputs.absent)] = 1 - missing
        return torch.cat([numeric * there, missing, *(logits.softmax(dim=1) for logits in coded)], dim=1)

    def descend(self, shown: Tensor, slopes: Tensor) -> None:
        """Takes a step of gradient descent with momentum."""
        own = slopes if shown is self._values else torch.autograd.grad(shown, self._values, slopes)[0]
        self._velocity = self._momentum * self._velocity + own
        self._values = self._bounded(self._values.detach() - self._rate * self._velocity)

    def state(self) -> dict[str, Tensor]:
        """Returns the records and where they are heading."""
        return {"records": self._values.detach(), "velocity": self._velocity}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up the set where `state` was called."""
        (self._values, self._velocity) = _like([self._values, self._velocity], tensors, ["records", "velocity"])

    def _bounded(self, values: Tensor) -> Tensor:
        lowest, numeric = -2 * self._inputs.centre, self._inputs.numeric
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
        self._centre, self._rate, self._steps = centre, learning_rate, 0
        self._weights: list[Tensor] = list(generator.parameters())
        self._means = [torch.zeros_like(weight) for weight in self._weights]
        self._squares = [torch.zeros_like(weight) for weight in self._weights]

    def shown(self) -> Tensor:
        """Returns the set as a network sees it, (records, inputs)."""
        images: Tensor = self._generator(self._noise, self._labels)
        return 2 * (images - self._centre)

    def descend(self, shown: Tensor, slopes: Tensor) -> None:
        """Takes a step of Adam."""
        self._steps += 1
        gradients = torch.autograd.grad(shown, self._weights, slopes)
        warm, warm_square = 1 - _KEPT**self._steps, 1 - _KEPT_SQUARE**self._steps
        with torch.no_grad():
            for weight, gradient, mean, square in zip(
                self._weights, gradients, self._means, self._squares, strict=True
            ):
                mean.mul_(_KEPT).add_(gradient, alpha=1 - _KEPT)
                square.mul_(_KEPT_SQUARE).add_(gradient.square(), alpha=1 - _KEPT_SQUARE)
                weight.sub_(self._rate * (mean / warm) / ((square / warm_square).sqrt() + _SMALL))

    def state(self) -> dict[str, Tensor]:
        """Returns the weights, Adam's moments, and the number of steps."""
        named = {f"{kind}/{place}": value for kind, values in self._kinds() for place, value in enumerate(values)}
        return {**named, "taken": torch.tensor(self._steps)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up the set where `state` was called."""
        with torch.no_grad():
            for kind, values in self._kinds():
                names = [f"{kind}/{place}" for place in range(len(values))]
                for value, found in zip(values, _like(values, tensors, names), strict=True):
                    value.copy_(found)
        self._steps = int(tensors["taken"])

    def _kinds(self) -> list[tuple[str, Sequence[Tensor]]]:
        return [("weight", self._weights), ("mean", self._means), ("square", self._squares)]


def _like(values: Sequence[Tensor], tensors: Mapping[str, Tensor], names: Sequence[str]) -> list[Tensor]:
    """Returns the tensors of these names, on the devices of `values`, whose shapes they must have."""
    found = [tensors[name].to(value.device) for name, value in zip(names, values, strict=True)]
    if [tensor.shape for tensor in found] != [value.shape for value in values]:
        raise ValueError("tensors of another shape")
    return found
