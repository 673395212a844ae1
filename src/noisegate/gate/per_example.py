"""Gradients at single records, rounded to the grid and summed exactly, one block of a fixed shape after the other.

Memory is bounded by the block, whatever the Poisson sample. Guarantee G-20 (gradients on the grid): what a record adds
to a sum is an integer vector of norm at most `GradientPlan.units`, and a function of that record and of public values.

* `RecordGradients` takes the gradient of each record by itself (`captured`), clips it whole, and rounds it toward zero
  (`clipped_rows`). Where the gradient of a weight is one product d ⊗ x at each record, as in a linear layer, |x|·d
  takes its place in the row that is clipped. With q the integers of that part, U the direction of x and D =
  trunc(q/2¹¹), both rounded toward zero, |U| ≤ 2¹¹, so the record adds D ⊗ U of norm |D||U| ≤ |q|.
* `FactoredGradients`: for a layer that is linear in its parameter the gradient is x ⊗ d for each group. With x = |x|·u,
  the directions u and the concatenated |x|·d are quantised, and both rounded toward zero to 2¹² units. The norm of the
  whole integer gradient is then at most 2¹²·2¹², since its square is Σ |U_g|²|D_g|² ≤ 2²⁴ Σ |D_g|² ≤ 2⁴⁸. Products of
  integers below 2¹² add up exactly in float64, in any order, so a matrix product gives the exact sum.

A record whose gradient is not finite adds the zero vector.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.gate.captured import agrees, by_torch, captured
from noisegate.gate.clipped_rows import add_clipped, clip_factors, clipped
from noisegate.gate.independence import check_row_independence, made_up_records
from noisegate.gate.losses import FactoredLoss, RecordLoss
from noisegate.gate.represented import represented
from noisegate.gate.sums import block_rows
from noisegate.privacy.gradient_plan import FACTOR_UNITS, GradientPlan
from noisegate.privacy.grid import BLOCK_LIMIT, UNITS, Grid
from noisegate.schema import EncodedTable, Layout

if TYPE_CHECKING:
    from torch import Tensor

Parameters = Mapping[str, "Tensor"]
Arrays = tuple[npt.NDArray[np.float32], ...]

# Small, for the last block of a step is padded.
_MOST_ROWS = 64
# Gradients of a block hold about this many numbers, 40 MB, several times over; larger ones were slower too.
_MOST_NUMBERS = 10**7
# Norm bound of each of the two factors of a weight's gradient, so that their product stays within `UNITS`.
_HALF_UNITS = 2**11


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
        fitting = max(1, min(_MOST_ROWS, _MOST_NUMBERS // plan.count))
        # Kernels round by place the least in blocks of a multiple of 16.
        self.rows = rows or (fitting if fitting < 16 else fitting // 16 * 16)
        self._seen_through: bool | None = None
        self._products: tuple[str, ...] = ()

    def vectors(self, parameters: Parameters, numeric: Tensor, codes: Tensor) -> Arrays:
        """Returns gradients, (rows, numbers), but those that are products: their two factors each."""
        import torch

        if self._seen_through is None:
            self._seen_through = agrees(self._loss, parameters, numeric, codes)
        take = captured if self._seen_through else by_torch
        found = take(self._loss, parameters, numeric, codes)
        self._products = tuple(name for name in self._plan.parameters if name in found.products)
        flat = [found.whole[name].reshape(len(numeric), -1) for name in self._plan.parameters if name in found.whole]
        whole = torch.cat(flat, dim=1) if flat else numeric.new_zeros(len(numeric), 0)
        factors = [part for name in self._products for part in found.products[name]]
        return tuple(part.to("cpu", torch.float32).numpy() for part in (whole, *factors))

    def add(self, sums: npt.NDArray[np.int64], vectors: Arrays) -> None:
        """Adds gradients, clipped and rounded."""
        whole, inputs, slopes = vectors[0], vectors[1::2], vectors[2::2]
        norms = [_norms(given.astype(np.float64)) for given in inputs]
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
                total += _product(given, norm, clipped(slope, factors))
            else:
                add_clipped(total, whole[:, done : done + size], factors)
                done += size
            start += size


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
        groups, outputs, width = self._shape
        inputs, slopes = (part.astype(np.float64) for part in vectors)
        norms = _norms(inputs)
        with np.errstate(over="ignore", invalid="ignore"):
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


def _norms(inputs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns the norm of each record's inputs: bits of a record alone, as they are sums along its own row."""
    with np.errstate(over="ignore", invalid="ignore"):
        norms: npt.NDArray[np.float64] = np.sqrt(np.square(inputs).sum(axis=-1, keepdims=True))
    return norms


def _product(
    inputs: npt.NDArray[np.float32], norms: npt.NDArray[np.float64], slopes: npt.NDArray[np.int32]
) -> npt.NDArray[np.int64]:
    """Returns Σ over records of slopes ⊗ directions of the inputs, each rounded to `_HALF_UNITS`; exact."""
    with np.errstate(over="ignore", invalid="ignore"):
        directions = inputs / np.where(norms > 0, norms, 1.0)
    first = np.trunc(Grid(norm=1.0).quantise(directions) * (_HALF_UNITS / UNITS))
    second = np.trunc(slopes * (_HALF_UNITS / UNITS))
    total: npt.NDArray[np.float64] = second.T @ first
    return total.astype(np.int64).reshape(-1)


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


def check_gradients(
    source: GradientSource,
    parameters: Parameters,
    layout: Layout,
    device: str,
    name: str,
    represent: FeatureMap | None = None,
) -> None:
    """Probes gradients at made-up records in other orders and beside other neighbours, and compares bits.

    Args:
        source: Computes them.
        parameters: Where they are taken.
        layout: What the schema allows.
        device: Where they are computed.
        name: What messages call them.
        represent: The map whose vectors stand for records, or None; it is probed first, and then they are represented.

    Raises:
        OptionError: if they change.
        DataError: if the map is not finite at one of them.
    """

    def made_up(layout: Layout, rows: int, random: np.random.Generator) -> EncodedTable:
        records = made_up_records(layout, rows, random)
        return records if represent is None else represented(records, represent)

    if represent is not None:
        check_row_independence(type(represent).__name__, represent, layout, block_rows(represent))
    if source.rows == 1:
        return  # a record has no neighbours then
    try:
        check_row_independence(name, _Digests(source, parameters, device), layout, source.rows, made_up=made_up)
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
