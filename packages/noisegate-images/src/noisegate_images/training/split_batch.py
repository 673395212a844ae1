"""Gradients of an unbiased squared distance, with the halves of a batch side by side on two cores."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.func import functional_call

from noisegate_images.models.generator import Generator

if TYPE_CHECKING:
    from jaxtyping import Float, Int64, Shaped


class SplitBatchLoss:
    """Gradients of the unbiased distance, with the halves of a batch side by side on two cores.

    The residuals a and b of the halves must be independent, which they are not if normalised over the whole batch.
    Apart they are, and half of the work can be done on another core. What comes out does not depend on whether there is
    one: the halves meet only in Σ w·a·b, whose gradient in a is w·b, and gradients are added in one order.

    The generator's weights are used, its batch statistics are not touched. `residuals`, (dim, classes), are those of
    what it makes of one half; half of the `penalty` on each, a number, is added to the loss.
    """

    def __init__(
        self,
        generator: Generator,
        residuals: Callable[[Tensor], Tensor],
        penalty: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self._weights: dict[str, Tensor] = dict(generator.named_parameters())
        # Running statistics of its own for each half, or both would write to the same ones at once.
        self._replicas = [copy.deepcopy(generator).train() for _ in range(2)]
        self._residuals, self._penalty = residuals, penalty

    def gradients(
        self,
        noise: Shaped[Tensor, "twice_rows latent"],
        labels: Int64[Tensor, " rows"],
        weights: Float[Tensor, " classes"],
    ) -> tuple[Tensor, ...]:
        """Returns the gradients of Σ weights · ⟨a, b⟩, and of the penalty, in the generator's weights, in their order.

        Of the noise, (2 · rows, latent), the first half is a's; labels, (rows,), are the same for both.
        """
        pool = ThreadPoolExecutor(2, initializer=_prepare)
        with pool if noise.device.type == "cpu" else nullcontext() as side_by_side:
            run = side_by_side.map if side_by_side else map
            halves = list(run(self._half, self._replicas, noise.chunk(2), (labels, labels)))
            others = [residual.detach() * weights for residual, *_ in reversed(halves)]
            first, second = run(self._backward, halves, others)
        return tuple(a + b for a, b in zip(first, second, strict=True))

    def _half(
        self, replica: Generator, noise: Shaped[Tensor, "rows latent"], labels: Int64[Tensor, " rows"]
    ) -> list[Tensor]:
        """Returns residuals, (dim, classes), and the penalty, if there is one."""
        made = functional_call(replica, self._weights, (noise, labels))
        return [self._residuals(made), *([self._penalty(made)] if self._penalty else [])]

    def _backward(self, half: list[Tensor], other: Float[Tensor, "dim classes"]) -> tuple[Tensor, ...]:
        slopes = [other, *(torch.full_like(penalty, 0.5) for penalty in half[1:])]
        return torch.autograd.grad(half, list(self._weights.values()), grad_outputs=slopes)


def _prepare() -> None:
    """Prepares a new thread: its work runs on it alone, and numbers below 1e-38 are 0."""
    torch.set_num_threads(1)  # bits depend on how many there are
    torch.set_flush_denormal(True)  # a black pixel is a sigmoid of that kind, and takes a third more time a step
