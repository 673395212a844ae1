"""Gradients at single records, rounded to the grid and summed exactly, one block of a fixed shape after the other.

Memory is bounded by the block, whatever the Poisson sample. Guarantee G-20 (gradients on the grid): what a record adds
to a sum is an integer vector of norm at most `GradientPlan.units`, and a function of that record and of public values.

* `RecordGradients` takes the gradient of each record by itself (`torch.func`), and puts it through `Grid.quantise`.
* `FactoredGradients`: for a layer that is linear in its parameter the gradient is x ⊗ d for each group. With x = |x|·u,
  the directions u and the concatenated |x|·d are quantised, and both rounded toward zero to 2¹² units. The norm of the
  whole integer gradient is then at most 2¹²·2¹², since its square is Σ |U_g|²|D_g|² ≤ 2²⁴ Σ |D_g|² ≤ 2⁴⁸. Products of
  integers below 2¹² add up exactly in float64, in any order, so a matrix product gives the exact sum.

A record whose gradient is not finite adds the zero vector.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.gate.independence import check_row_independence
from noisegate.gate.losses import FactoredLoss, RecordLoss
from noisegate.privacy.gradient_plan import FACTOR_UNITS, GradientPlan
from noisegate.privacy.grid import BLOCK_LIMIT, UNITS, Grid
from noisegate.schema import EncodedTable, Layout

if TYPE_CHECKING:
    from torch import Tensor

Parameters = Mapping[str, "Tensor"]
Arrays = tuple[npt.NDArray[np.float32], ...]

# Small, for the last block of a step is padded.
_MOST_ROWS = 64
# Gradients of a block hold at most this many numbers, 128 MiB, several times over.
_MOST_NUMBERS = 2**25


class GradientSource(Protocol):
    """Computes what the records of a block add to a sum."""

    rows: int

    def vectors(self, parameters: Parameters, numeric: Tensor, codes: Tensor) -> Arrays:
        """Returns what is computed in float32 for each of `rows` records, one row a record, before any rounding."""
        ...

    def add(self, sums: npt.NDArray[np.int64], vectors: Arrays) -> None:
        """Adds the gradients of records, given by their rows of `vectors`, to `sums`, (count,), in grid units."""
        ...


class RecordGradients:
    """Gradients of any loss of one record.

    Args:
        loss: The loss of one record.
        plan: Shapes and clipping norm.
        rows: Records in a block; None for as many as fit.
    """

    def __init__(self, loss: RecordLoss, plan: GradientPlan, rows: int | None = None) -> None:
        self._loss, self._plan = loss, plan
        self.rows = rows or max(1, min(_MOST_ROWS, _MOST_NUMBERS // plan.count))

    def vectors(self, parameters: Parameters, numeric: Tensor, codes: Tensor) -> Arrays:
        """Returns gradients, (rows, count)."""
        import torch
        from torch.func import grad, vmap

        gradients = vmap(grad(self._loss), in_dims=(None, 0, 0), randomness="error")(dict(parameters), numeric, codes)
        flat = [gradients[name].reshape(len(numeric), -1) for name in self._plan.parameters]
        return (torch.cat(flat, dim=1).to("cpu", torch.float32).numpy(),)

    def add(self, sums: npt.NDArray[np.int64], vectors: Arrays) -> None:
        """Adds gradients, clipped and rounded."""
        sums += self._plan.grid.quantise(vectors[0]).sum(axis=0, dtype=np.int64)


class FactoredGradients:
    """Gradients of a loss that is linear in its one parameter.

    Args:
        loss: Inputs of the linear part, and the loss of its outputs.
        plan: Shapes and clipping norm.
        rows: Records in a block; None for 64.
    """

    def __init__(self, loss: FactoredLoss, plan: GradientPlan, rows: int | None = None) -> None:
        self._loss, self._plan = loss, plan
        ((self._name, self._shape),) = plan.parameters.items()
        self.rows = rows or _MOST_ROWS

    def vectors(self, parameters: Parameters, numeric: Tensor, codes: Tensor) -> Arrays:
        """Returns inputs, (rows, groups, inputs), and gradients of the outputs, (rows, groups, outputs)."""
        import torch
        from torch.func import grad, vmap

        groups, outputs, width = self._shape
        inputs = vmap(self._loss.inputs, randomness="error")(numeric, codes).to(torch.float32)
        if inputs.shape[1:] != (groups, width):
            raise OptionError(f"inputs of shape {tuple(inputs.shape[1:])}, the plan has {(groups, width)}.")
        # One product for each group, with the records as rows.
        found = torch.stack([inputs[:, g] @ parameters[self._name][g].T for g in range(groups)], dim=1)
        slopes = vmap(grad(self._loss.loss), randomness="error")(found, numeric, codes)
        return inputs.cpu().numpy(), slopes.reshape(-1, groups, outputs).to("cpu", torch.float32).numpy()

    def add(self, sums: npt.NDArray[np.int64], vectors: Arrays) -> None:
        """Adds products of factors, clipped and rounded."""
        groups, outputs, width = self._shape
        inputs, slopes = (part.astype(np.float64) for part in vectors)
        # Bits of a record alone: norms are sums along its own row.
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.sqrt(np.square(inputs).sum(axis=2, keepdims=True))
            directions = inputs / np.where(norms > 0, norms, 1.0)
            weighted = slopes * norms
        first = _coarse(Grid(norm=1.0), directions.reshape(-1, width)).reshape(-1, groups, width)
        second = _coarse(self._plan.grid, weighted.reshape(len(slopes), -1)).reshape(-1, groups, outputs)
        total = np.matmul(second.transpose(1, 2, 0), first.transpose(1, 0, 2))
        sums += total.reshape(-1).astype(np.int64)


def _coarse(grid: Grid, vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns integer rows of norm at most `FACTOR_UNITS`, as float64: rounding toward zero twice."""
    coarse: npt.NDArray[np.float64] = np.trunc(grid.quantise(vectors) * (FACTOR_UNITS / UNITS))
    return coarse


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


def tensors_of(records: EncodedTable | tuple[Any, Any], device: str) -> tuple[Tensor, Tensor]:
    """Returns numeric columns as float32 and codes as int64, on `device`."""
    import torch

    numeric, codes = records if isinstance(records, tuple) else (records.numeric, records.codes)
    return (
        torch.from_numpy(np.ascontiguousarray(numeric, dtype=np.float32)).to(device),
        torch.from_numpy(np.ascontiguousarray(codes, dtype=np.int64)).to(device),
    )


def check_gradients(source: GradientSource, parameters: Parameters, layout: Layout, device: str, name: str) -> None:
    """Probes gradients at made-up records in other orders and beside other neighbours, and compares bits.

    Raises:
        OptionError: if they change.
    """
    if source.rows == 1:
        return  # a record has no neighbours then
    try:
        check_row_independence(name, _Digests(source, parameters, device), layout, source.rows)
    except OptionError:
        raise OptionError(
            f"the gradient of {name!r} at a record changes with the record's neighbours or its place in a block, so no "
            "sensitivity can be stated. Use layers that treat each record alone; if all do, this machine's kernels "
            "round by place: give physical_batch=1, or a multiple of 16."
        ) from None


class _Digests:
    """Stands in for a feature map: a record's vector is a digest of its gradient, which may be large."""

    dim, norm, nonnegative = 4, 1.0, False

    def __init__(self, source: GradientSource, parameters: Parameters, device: str) -> None:
        self._source, self._parameters, self._device = source, parameters, device

    def __call__(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        vectors = self._source.vectors(self._parameters, *tensors_of(records, self._device))
        rows = [b"".join(part[row].tobytes() for part in vectors) for row in range(self._source.rows)]
        digests = b"".join(hashlib.blake2b(row, digest_size=16).digest() for row in rows)
        return np.frombuffer(digests, dtype=np.float32).reshape(-1, self.dim)
