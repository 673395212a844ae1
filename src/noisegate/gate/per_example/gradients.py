"""Gradients at single records, in blocks of a fixed shape, for the gate to clip, round and sum; and their probe.

Memory is bounded by the block, whatever the Poisson sample. Guarantee G-20 (gradients on the grid): what a record adds
to a sum is an integer vector of norm at most `GradientPlan.units`, and a function of that record and of public values.
Here torch computes gradients in float32, a row a record; all that follows is done in `clipping`, with its proof.

* `RecordGradients` takes the gradient of each record by itself (`losses`), which is clipped whole. Where the gradient
  of a weight is one product d ⊗ x at each record, as in a linear layer, |x|·d takes its place in what is clipped.
* `FactoredGradients`: for a layer that is linear in its parameter the gradient is x ⊗ d for each group.

A record whose gradient is not finite adds the zero vector.

Before the first private record is read, `choose_execution` compares what each made-up record adds, wherever it stands:
the integers that are really added, for a block with one record, with two and full; and the numbers that these come
from, as what rounds by place does not always show in the integers. It is done at parameters near those of the first
step: at the first ones much may be zero, and zeros round nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.gate.execution import (
    Execution,
    Probed,
    block_rows,
    embedded_records,
    made_up_records,
    map_execution,
    sound_execution,
)
from noisegate.gate.per_example.clipping import (
    add_clipped,
    add_factored,
    add_products,
    clip_factors,
    clipped,
    row_norms,
)
from noisegate.gate.per_example.losses import (
    FactoredLoss,
    RecordLoss,
    agrees,
    by_torch,
    module_loss,
    per_example_gradients,
)
from noisegate.privacy.gradient_plan import GradientPlan
from noisegate.privacy.grid import BLOCK_LIMIT
from noisegate.schema import EncodedTable, Layout

if TYPE_CHECKING:
    from torch import Tensor, nn

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


def clipped_gradients(discriminator: nn.Module, rows: Tensor, *, clip_norm: float) -> dict[str, Tensor]:
    """Returns the mean over fake records of a discriminator's clipped gradient; in floats, as they are public."""
    import torch
    from torch.nn.functional import softplus

    loss = module_loss(discriminator, lambda run, row, codes: softplus(run(row[None]))[0])
    parameters = {name: value.detach() for name, value in discriminator.named_parameters()}
    mean = {name: torch.zeros_like(value) for name, value in parameters.items()}
    for block in torch.split(rows, _MOST_ROWS):
        found = per_example_gradients(loss, parameters, block, block.new_zeros(len(block), 0))
        squares = [value.flatten(1).square().sum(dim=1) for value in found.whole.values()]
        squares += [x.square().sum(dim=1) * d.square().sum(dim=1) for x, d in found.products.values()]
        factors = (clip_norm / torch.stack(squares).sum(dim=0).sqrt().clamp_min(1e-30)).clamp_max(1.0) / len(rows)
        for name, value in found.whole.items():
            mean[name] += torch.tensordot(factors, value, dims=1)
        for name, (inputs, outputs) in found.products.items():
            mean[name] += (outputs * factors[:, None]).T @ inputs
    return mean


def represent_execution(represent: FeatureMap, layout: Layout) -> Execution:
    """Returns how to compute the map that represents records; see `map_execution`."""
    return map_execution(type(represent).__name__, represent, layout, block_rows(represent, len(layout.numeric)))


def choose_execution(
    source: GradientSource,
    parameters: Mapping[str, Tensor],
    layout: Layout,
    device: str,
    name: str,
    represent: tuple[FeatureMap, Execution] | None = None,
) -> None:
    """Sets `source.execution` to the fastest one in which what a record adds is a function of that record alone.

    Args:
        source: Computes gradients; its execution says how many records a block may have at most.
        parameters: Those of the first step.
        layout: What the schema allows.
        device: Where gradients are computed.
        name: What messages call them.
        represent: The map whose vectors stand for records and how it is computed, or None.

    Raises:
        OptionError: if what a record adds changes with its neighbours or its place in every way.
        DataError: if the map is not finite at a made-up record.
    """
    nearby, count = _nearby(parameters), sum(value.numel() for value in parameters.values())

    def made_up(rows: int, random: np.random.Generator) -> EncodedTable:
        records = made_up_records(layout, rows, random)
        return records if represent is None else embedded_records(records, *represent)

    def compute(way: Execution, records: EncodedTable, places: range) -> Probed:
        source.execution = way
        vectors = block_gradients(source, nearby, records.numeric, records.codes, device)
        chosen = tuple(part[places.start : places.stop] for part in vectors)
        values = np.concatenate([part.reshape(len(places), math.prod(part.shape[1:])) for part in chosen], axis=1)
        added = _added(source, chosen, count)
        return Probed(bits=[row.tobytes() + sums for row, sums in zip(values, added, strict=True)], values=values)

    refusal = OptionError(
        f"the gradient of {name!r} at a record changes with the record's neighbours or its place in a block, or from "
        "one time to the next, so no sensitivity can be stated. Use layers that treat each record alone, and a loss "
        "without memory or randomness of its own."
    )
    most = source.execution.rows
    source.execution = sound_execution(most, compute, made_up, name=f"gradients of {name!r}", refusal=refusal)


def _nearby(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    import torch

    generator = torch.Generator().manual_seed(20240229)
    noise = {name: torch.randn(value.shape, generator=generator) for name, value in parameters.items()}
    return {name: value + 0.02 * noise[name].to(value) for name, value in parameters.items()}


def _added(source: GradientSource, vectors: Arrays, count: int) -> list[bytes]:
    """Returns a digest of the integers that each record adds by itself.

    Raises:
        OptionError: if two of them, or all, add something else together.
    """
    digests, together = [], np.zeros(count, dtype=np.int64)
    rows = len(vectors[0])
    for row in range(rows):
        alone = np.zeros(count, dtype=np.int64)
        source.add(alone, tuple(part[row : row + 1] for part in vectors))
        digests.append(hashlib.blake2b(alone.tobytes(), digest_size=16).digest())
        together += alone
        if row + 1 in (2, rows):
            filled = np.zeros(count, dtype=np.int64)
            source.add(filled, tuple(part[: row + 1] for part in vectors))
            if not np.array_equal(filled, together):
                raise OptionError(f"{row + 1} records of a block add something else than each of them alone.")
    return digests
