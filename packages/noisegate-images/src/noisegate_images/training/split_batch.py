"""The loss of a batch in two halves, which are independent and run side by side."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call

from noisegate_images.models.generator import Generator

if TYPE_CHECKING:
    from jaxtyping import Float, Int64, Shaped


class _Half(NamedTuple):
    """What one half of a batch comes to."""

    residuals: Float[Tensor, "dim classes"]
    penalty: Float[Tensor, ""] | None


class SplitBatchLoss:
    """Gradients of the unbiased distance, with the halves of a batch side by side on two cores.

    The residuals a and b of the halves are independent, normalised apart, and meet only
    in Σ w·a·b: what comes out does not depend on the number of cores.

    Args:
        generator: The generator, whose weights both halves share.
        residuals: From what the generator makes of one half to residuals, (dim, classes).
        penalty: From the same to a number, half of which is added to the loss of each
            half; None for none.
    """

    def __init__(
        self,
        generator: Generator,
        residuals: Callable[[Tensor], Tensor],
        penalty: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self._weights: dict[str, Tensor] = dict(generator.named_parameters())
        # Running statistics of its own for each half, or both would write to the same
        # ones at once.
        self._replicas = [copy.deepcopy(generator).train() for _ in range(2)]
        self._residuals = residuals
        self._penalty = penalty

    def gradients(
        self,
        noise: Shaped[Tensor, "twice_rows latent"],
        labels: Int64[Tensor, " rows"],
        weights: Float[Tensor, " classes"],
    ) -> tuple[Tensor, ...]:
        """Returns the gradients of Σ weights · ⟨a, b⟩ and of the penalty.

        Args:
            noise: Noise of the batch, of which the first half is a's.
            labels: Labels of either half.
            weights: Weight of each class.

        Returns:
            The gradients, in the order of the generator's weights.
        """
        if noise.device.type != "cpu":
            return self._gradients(map, noise, labels, weights)
        with ThreadPoolExecutor(2, initializer=_prepare_thread) as pool:
            return self._gradients(pool.map, noise, labels, weights)

    def _gradients(
        self,
        run: Callable[..., Iterable[Any]],
        noise: Shaped[Tensor, "twice_rows latent"],
        labels: Int64[Tensor, " rows"],
        weights: Float[Tensor, " classes"],
    ) -> tuple[Tensor, ...]:
        first, second = run(
            self._half, self._replicas, noise.chunk(2), (labels, labels)
        )
        first_slope = second.residuals.detach() * weights
        second_slope = first.residuals.detach() * weights
        first_gradients, second_gradients = run(
            self._backward, (first, second), (first_slope, second_slope)
        )
        return tuple(
            a + b for a, b in zip(first_gradients, second_gradients, strict=True)
        )

    def _half(
        self,
        replica: Generator,
        noise: Shaped[Tensor, "rows latent"],
        labels: Int64[Tensor, " rows"],
    ) -> _Half:
        output = functional_call(replica, self._weights, (noise, labels))
        penalty = None if self._penalty is None else self._penalty(output)
        return _Half(self._residuals(output), penalty)

    def _backward(
        self, half: _Half, slope: Float[Tensor, "dim classes"]
    ) -> tuple[Tensor, ...]:
        outputs = [half.residuals]
        slopes = [slope]
        if half.penalty is not None:
            outputs.append(half.penalty)
            slopes.append(torch.full_like(half.penalty, 0.5))
        return torch.autograd.grad(
            outputs, list(self._weights.values()), grad_outputs=slopes
        )


def _prepare_thread() -> None:
    """Prepares a new thread: its work runs on it alone, and numbers below 1e-38 are 0."""
    # Bits depend on how many threads there are.
    torch.set_num_threads(1)
    # A black pixel is a sigmoid of such a number, and takes a third more time a step.
    torch.set_flush_denormal(True)
