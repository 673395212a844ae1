"""The nearest rows of a table at points, with the slope between the rows around."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


@cache
def nearest_rows() -> Callable[[Tensor, Tensor, int], Tensor]:
    """Returns a function of points, (rows, columns), a table, (steps + 1, width), and its steps.

    It gives the nearest rows, which is what a rounded pixel gives at the gate, (columns · width, rows), with the slope
    between the rows around.
    """
    import torch

    class NearestRows(torch.autograd.Function):
        @staticmethod
        def forward(
            context: Any, points: Float[Tensor, "rows columns"], rows: Float[Tensor, "steps width"], steps: int
        ) -> Float[Tensor, "columns*width rows"]:
            scaled = points.detach().T.clamp(0, 1) * steps
            context.save_for_backward(scaled, rows)
            context.steps = steps
            nearest = rows[scaled.round().long()]  # (columns, rows, width)
            return nearest.transpose(1, 2).reshape(-1, points.shape[0])

        @staticmethod
        def backward(context: Any, gradient: Float[Tensor, "..."]) -> tuple[Float[Tensor, "..."], None, None]:
            scaled, rows = context.saved_tensors
            slopes = rows[1:] - rows[:-1]
            below = scaled.floor().long().clamp_(max=len(slopes) - 1)
            columns, count = scaled.shape
            upstream = gradient.reshape(columns, -1, count).transpose(1, 2)
            return (slopes[below] * upstream).sum(dim=2).T * context.steps, None, None

    apply: Callable[[Tensor, Tensor, int], Tensor] = NearestRows.apply
    return apply
