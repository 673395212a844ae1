"""The two halves of a batch apart: side by side on two cores, each normalised over itself alone.

The distance is estimated without bias from the residuals of two halves, a and b, as their inner product, which holds if
they are independent. Normalised over the whole batch they are not; apart they are, and half of the work can be done
on another core. What comes out does not depend on whether there is one: the halves meet only in Σ w·a·b, whose slope in
a is w·b, and the slopes of the weights are added in one order.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import torch
from torch import Tensor
from torch.func import functional_call

from noisegate.generators.generator import Generator

Residuals = Callable[[Callable[..., Tensor], Tensor, Tensor], Tensor]
"""From a generator, its noise and labels to the residuals of one half, (dim, classes)."""


class Halves:
    """Slopes of the unbiased distance, half by half.

    Args:
        generator: In training mode; its weights are used, its batch statistics are not touched.
        residuals: Of one half.
    """

    def __init__(self, generator: Generator, residuals: Residuals) -> None:
        self._weights: dict[str, Tensor] = dict(generator.named_parameters())
        # Running statistics of its own for each half, or both would write to the same ones at once.
        self._replicas = [copy.deepcopy(generator).train() for _ in range(2)]
        self._residuals = residuals

    def slopes(self, noise: Tensor, labels: Tensor, weights: Tensor) -> list[Tensor]:
        """Returns the slopes of Σ weights · ⟨a, b⟩ in the generator's weights, in their order.

        Args:
            noise: (2 · rows, latent), the first half first.
            labels: (rows,), the same for both.
            weights: Of the classes, (classes,).
        """
        side_by_side = noise.device.type == "cpu"
        with ThreadPoolExecutor(2) if side_by_side else nullcontext() as pool:
            run = pool.map if pool else map
            halves = list(run(self._half, self._replicas, noise.chunk(2), (labels, labels)))
            others = [half.detach() * weights for half in reversed(halves)]
            first, second = run(self._slopes, halves, others)
        return [a + b for a, b in zip(first, second, strict=True)]

    def _half(self, replica: Generator, noise: Tensor, labels: Tensor) -> Tensor:
        def made(noise: Tensor, labels: Tensor) -> Tensor:
            images: Tensor = functional_call(replica, self._weights, (noise, labels))
            return images

        return self._residuals(made, noise, labels)

    def _slopes(self, half: Tensor, other: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(half, list(self._weights.values()), grad_outputs=other)
