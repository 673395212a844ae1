"""Gradients at single records, in blocks of a fixed shape, for the gate to clip, round and sum.

Memory is bounded by the block, whatever the Poisson sample. Guarantee G-20 (gradients on the grid): what a record adds
to a sum is an integer vector of norm at most `GradientPlan.units`, and a function of that record and of public values.
Here torch computes gradients in float32, a row a record; all that follows is done in `clipped_rows`, with its proof.

* `RecordGradients` takes the gradient of each record by itself (`captured`), which is clipped whole. Where the gradient
  of a weight is one product d ⊗ x at each record, as in a linear layer, |x|·d takes its place in what is clipped.
* `FactoredGradients`: for a layer that is linear in its parameter the gradient is x ⊗ d for each group.

A record whose gradient is not finite adds the zero vector.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.gate.execution import Execution
from noisegate.gate.per_example.clipping import (
    add_clipped,
    add_factored,
    add_products,
    clip_factors,
    clipped,
    row_norms,
)
from noisegate.gate.per_example.losses import FactoredLoss, RecordLoss
from noisegate.gate.per_example.tracing import agrees, by_torch, per_example_gradients
from noisegate.privacy.gradient_plan import GradientPlan
from noisegate.privacy.grid import BLOCK_LIMIT

if TYPE_CHECKING:
    from torch import Tensor

Parameters = Mapping[str, "Tensor"]
Arrays = tuple[npt.NDArray[np.float32], ...]

# Small, for the last block of a step is padded.
_MOST_ROWS = 64
# Gradients of a block hold about this many numbers, 40 MB, several times over; larger ones were slower too.
_MOST_NUMBERS = 10**7


class GradientSource(Protocol):
    """Computes what the records of a block add to a sum.

    Attributes:
        execution: How many records a block has, and whose kernels are used; see `block_gradients`.
    """

    execution: Execution

    def vectors(self, parameters: Parameters, numeric: Tensor, codes: Tensor) -> Arrays:
        """Returns what is computed in float32 for each record of a block, one row a record, before any rounding."""
        ...

    def add(self, sums: npt.NDArray[np.int64], vectors: Arrays) -> None:
        """Adds the gradients of records, given by their rows of `vectors`, to `sums`, (count,), in grid units."""
        ...


class RecordGradients:
    """Gradients of any loss of one record.

    Args:
        loss: The loss of one record.
        plan: Shapes and clipping norm.
        rows: Records in a block, at most; None for as many as fit.
    """

    def __init__(self, loss: RecordLoss, plan: GradientPlan, rows: int | None = None) -> None:
        self._loss, self._plan = loss, plan
        fitting = max(1, min(_MOST_ROWS, _MOST_NUMBERS // plan.count))
        # Kernels round by place the least in blocks of a multiple of 16.
        self.execution = Execution(rows=rows or (fitting if fitting < 16 else fitting // 16 * 16))
        self._seen_through: bool | None = None
        self._products: tuple[str, ...] = ()

    def vectors(self, parameters: Parameters, numeric: Tensor, codes: Tensor) -> Arrays:
        """Returns gradients, (rows, numbers), but those that are products: their two factors each."""
        import torch

        if self._seen_through is None:
            self._seen_through = agrees(self._loss, parameters, numeric, codes)
        take = per_example_gradients if self._seen_through else by_torch
        found = take(self._loss, parameters, numeric, codes)
        self._products = tuple(name for name in self._plan.parameters if name in found.products)
        flat = [found.whole[name].reshape(len(numeric), -1) for name in self._plan.parameters if name in found.whole]
        whole = torch.cat(flat, dim=1) if flat else numeric.new_zeros(len(numeric), 0)
        factors = [part for name in self._products for part in found.products[name]]
        return tuple(part.to("cpu", torch.float32).numpy() for part in (whole, *factors))

    def add(self, sums: npt.NDArray[np.int64], vectors: Arrays) -> None:
        """Adds gradients, clipped and rounded."""
        whole, inputs, slopes = vectors[0], vectors[1::2], vectors[2::2]
        norms = [row_norms(given) for given in inputs]
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = [(slope * norm).astype(np.float32) for slope, norm in zip(slopes, norms, strict=True)]
        factors = clip_factors((whole, *scaled), self._plan.grid)
        products = dict(zip(self._products, zip(inputs, norms, scaled, strict=True), strict=True))
        done = start = 0
        for name, shape in self._plan.parameters.items():
            size = math.prod(shape)
            total = sums[start : start + size]
            if name in products:
                given, norm, slope = products[name]
                add_products(total, given, norm, clipped(slope, factors))
            else:
                add_clipped(total, whole[:, done : done + size], factors)
                done += size
            start += size


class FactoredGradients:
    """Gradients of a loss that is linear in its one parameter.

    Args:
        loss: Inputs of the linear part, and the loss of its outputs.
        plan: Shapes and clipping norm.
        rows: Records in a block, at most; None for 64.
    """

    def __init__(self, loss: FactoredLoss, plan: GradientPlan, rows: int | None = None) -> None:
        self._loss, self._plan = loss, plan
        ((self._name, self._shape),) = plan.parameters.items()
        self.execution = Execution(rows=rows or _MOST_ROWS)

    def vectors(self, parameters: Parameters, numeric: Tensor, codes: Tensor) -> Arrays:
        """Returns inputs, (rows, groups, inputs), and gradients of the outputs, (rows, groups, outputs)."""
        import torch
        from torch.func import vmap

        groups, outputs, width = self._shape
        inputs = vmap(self._loss.inputs, randomness="error")(numeric, codes).to(torch.float32)
        if inputs.shape[1:] != (groups, width):
            raise OptionError(f"inputs of shape {tuple(inputs.shape[1:])}, the plan has {(groups, width)}.")
        # One product for each group, with the records as rows.
        found = torch.stack([inputs[:, g] @ parameters[self._name][g].T for g in range(groups)], dim=1)
        # One backward pass through the sum: losses are mapped over records, so each depends on its own outputs alone.
        # (`torch.func.grad` would give the same, and import torch's compiler first.)
        found.requires_grad_()
        total = vmap(self._loss.loss, randomness="error")(found, numeric, codes).sum()
        (slopes,) = torch.autograd.grad(total, found)
        return inputs.cpu().numpy(), slopes.reshape(-1, groups, outputs).to("cpu", torch.float32).numpy()

    def add(self, sums: npt.NDArray[np.int64], vectors: Arrays) -> None:
        """Adds products of factors, clipped and rounded."""
        inputs, slopes = vectors
        add_factored(sums, inputs, slopes, self._plan.grid)


def gradient_source(loss: RecordLoss | FactoredLoss, plan: GradientPlan, rows: int | None) -> GradientSource:
    """Returns what computes gradients of `loss`, in blocks of `rows` records.

    Raises:
        OptionError: if plan and loss do not fit, or `rows` is out of range.
    """
    if isinstance(loss, FactoredLoss) != plan.factored:
        raise OptionError(
            f"factored={plan.factored} in the plan of {plan.name!r}, but the loss is of type {type(loss).__name__}."
        )
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= BLOCK_LIMIT):
        raise OptionError(f"physical_batch={rows!r} must be a whole number from 1 to {BLOCK_LIMIT}.")
    if isinstance(loss, FactoredLoss):
        return FactoredGradients(loss, plan, rows)
    return RecordGradients(loss, plan, rows)


def block_gradients(
    source: GradientSource,
    parameters: Parameters,
    numeric: npt.NDArray[np.floating],
    codes: npt.NDArray[np.integer],
    device: str,
) -> Arrays:
    """Returns what is computed for a block of records; the probe and every step come here.

    The block is copied to memory that torch has aligned: kernels may round by where an array begins.

    Args:
        source: Computes gradients.
        parameters: What to differentiate at.
        numeric: Of `source.execution.rows` records, padded, (rows, numeric columns).
        codes: (rows, coded columns).
        device: Where gradients are computed.
    """
    import torch

    numbers = torch.tensor(numeric, dtype=torch.float32, device=device)
    with source.execution.kernels():
        return source.vectors(parameters, numbers, torch.tensor(codes, dtype=torch.int64, device=device))
