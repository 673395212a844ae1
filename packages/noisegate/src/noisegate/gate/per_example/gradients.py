"""Gradients at single records: those of a loss that a method states, in blocks of one shape, and their probe (G-20).

Memory is bounded by the block, whatever the Poisson sample. Here torch computes
gradients in float32, a row a record, and `choose_execution` probes them; all that
follows is done in `privacy.grid` (G-20).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.gate.execution import (
    Execution,
    Probed,
    embedded_records,
    made_up_records,
    sound_execution,
)
from noisegate.gate.per_example.tracing import (
    Parameters,
    agrees,
    by_torch,
    per_example_gradients,
)
from noisegate.privacy.gradient_grid import add_factored, add_gradients
from noisegate.privacy.gradient_plan import GradientPlan
from noisegate.privacy.grid import BLOCK_LIMIT
from noisegate.queries.feature_map import FeatureMap
from noisegate.schema import EncodedTable, Layout, Schema

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Int64, Shaped
    from torch import Tensor, nn


RowInputs = Callable[["Tensor", "Tensor"], "Tensor"]
"""From one record's numeric columns and codes to what a network takes, without a batch axis."""


class RecordLoss(Protocol):
    """The loss of one record. It draws no randomness and knows no other record."""

    def __call__(
        self,
        parameters: Mapping[str, Tensor],
        numeric: Float32[Tensor, " numeric"],
        codes: Int64[Tensor, " coded"],
        /,
    ) -> Float[Tensor, ""]:
        """Returns the loss, a scalar, at one record: positions in [0, 1], NaN where missing, and codes."""
        ...


@dataclass(frozen=True, kw_only=True)
class FactoredLoss:
    """Loss of a model that is linear in its one parameter W, (groups, outputs, inputs), and then anything.

    The gradient at one record is, for each group, the product of two vectors. Both are rounded to the grid, and
    products of integers are summed by exact matrix products: as fast as a step without privacy (G-20).

    Attributes:
        inputs: Of one record's numeric and coded columns: what W[g] is multiplied with, (groups, inputs), float32.
        loss: Of one record's outputs, (groups, outputs), with outputs[g] = W[g] @ inputs[g], and its numeric and coded
            columns: the loss, a scalar.
    """

    inputs: Callable[[Tensor, Tensor], Tensor]
    loss: Callable[[Tensor, Tensor, Tensor], Tensor]


def module_loss(
    module: nn.Module,
    criterion: Callable[[Callable[[Tensor], Tensor], Tensor, Tensor], Tensor],
) -> RecordLoss:
    """Returns the loss of a module whose parameters are ``dict(module.named_parameters())``.

    The `criterion` makes of a function that runs the module on a batch of one, and of one record's numeric and coded
    columns, the loss, a scalar.

    Raises:
        OptionError: if a layer computes over the batch or draws randomness; the message names it.

    Examples:
        >>> import torch
        >>> from noisegate.gate.per_example.gradients import module_loss
        >>> model = torch.nn.Linear(2, 1)
        >>> loss = module_loss(model, lambda run, numeric, codes: (run(numeric[:2]) - numeric[2]).square().sum())
        >>> loss(dict(model.named_parameters()), torch.zeros(3), torch.zeros(0)).shape
        torch.Size([])
    """
    from torch.func import functional_call

    _check_layers(module)
    buffers = dict(module.named_buffers())

    def loss(
        parameters: Mapping[str, Tensor],
        numeric: Float[Tensor, " numeric"],
        codes: Shaped[Tensor, " coded"],
        /,
    ) -> Float[Tensor, ""]:
        def run(batch: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
            output: Tensor = functional_call(
                module, {**parameters, **buffers}, (batch,)
            )
            return output

        return criterion(run, numeric, codes)

    return loss


def cross_entropy(
    scores: Float[Tensor, " classes"], label: Int64[Tensor, ""]
) -> Float[Tensor, ""]:
    """Returns −log softmax(scores) at a label."""
    import torch

    wanted = torch.arange(len(scores), device=scores.device) == label
    return torch.logsumexp(scores, dim=0) - torch.where(wanted, scores, 0.0).sum()


def label_loss(network: nn.Module, inputs: RowInputs, schema: Schema) -> RecordLoss:
    """Returns the cross-entropy of a record's label, by a classifier."""
    label = schema.layout.label
    assert label is not None
    return module_loss(
        network,
        lambda run, numeric, codes: cross_entropy(
            run(inputs(numeric, codes)[None])[0], codes[label]
        ),
    )


def real_loss(
    discriminator: nn.Module, inputs: RowInputs, schema: Schema
) -> RecordLoss:
    """Returns −log D of a real record, beside its label as a one-hot code if it has one."""
    import torch
    from torch.nn.functional import softplus

    label, classes = schema.layout.label, schema.layout.classes

    def criterion(
        run: Callable[[Tensor], Tensor],
        numeric: Float[Tensor, " numeric"],
        codes: Int64[Tensor, " coded"],
    ) -> Float[Tensor, ""]:
        parts = [inputs(numeric, codes)]
        if label is not None:
            parts.append(
                (torch.arange(classes, device=codes.device) == codes[label]).to(
                    numeric.dtype
                )
            )
        return softplus(-run(torch.cat(parts)[None]))[0]

    return module_loss(discriminator, criterion)


def _check_layers(module: nn.Module) -> None:
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.modules.dropout import _DropoutNd
    from torch.nn.modules.instancenorm import _InstanceNorm

    # In evaluation mode statistics are frozen, and as public as the module; nothing is drawn.
    for name, layer in (named for named in module.named_modules() if named[1].training):
        kind = type(layer).__name__
        # Kept statistics are private.
        if isinstance(layer, _BatchNorm) or (
            isinstance(layer, _InstanceNorm) and layer.track_running_stats
        ):
            raise OptionError(
                f"layer {name!r} is {kind}, which computes statistics over the batch, so that a record's gradient "
                "would depend on its neighbours. Use GroupNorm or LayerNorm, or freeze it by module.eval()."
            )
        if isinstance(layer, _DropoutNd) and layer.p > 0:
            raise OptionError(
                f"layer {name!r} is {kind}, which draws randomness, so that a record's gradient is not a function of "
                "the record. Take it out, or use module.eval()."
            )


Arrays = tuple[npt.NDArray[np.float32], ...]
"""What is computed in float32 for each record of a block, one row a record, before any rounding."""

# Small, for the last block of a step is padded.
_MOST_ROWS = 64
# Gradients of a block hold about this many numbers, 40 MB, several times over; larger ones were slower too.
_MOST_NUMBERS = 10**7


class RecordGradients:
    """Gradients of any loss of one record, in blocks of at most `rows` records; None for as many as fit."""

    def __init__(
        self, loss: RecordLoss, plan: GradientPlan, rows: int | None = None
    ) -> None:
        self._loss, self._plan = loss, plan
        fitting = max(1, min(_MOST_ROWS, _MOST_NUMBERS // plan.count))
        # Kernels round by place the least in blocks of a multiple of 16.
        self.execution = Execution(
            rows=rows or (fitting if fitting < 16 else fitting // 16 * 16)
        )
        self._seen_through: bool | None = None
        self._products: tuple[str, ...] = ()

    def vectors(
        self,
        parameters: Parameters,
        numeric: Float32[Tensor, "rows numeric"],
        codes: Int64[Tensor, "rows coded"],
    ) -> Arrays:
        """Returns gradients, (rows, numbers), but those that are products: their two factors each."""
        import torch

        if self._seen_through is None:
            self._seen_through = agrees(self._loss, parameters, numeric, codes)
        take = per_example_gradients if self._seen_through else by_torch
        found = take(self._loss, parameters, numeric, codes)
        self._products = tuple(
            name for name in self._plan.parameters if name in found.products
        )
        flat = [
            found.whole[name].reshape(len(numeric), -1)
            for name in self._plan.parameters
            if name in found.whole
        ]
        whole = torch.cat(flat, dim=1) if flat else numeric.new_zeros(len(numeric), 0)
        factors = [part for name in self._products for part in found.products[name]]
        return tuple(
            part.to("cpu", torch.float32).numpy() for part in (whole, *factors)
        )

    def add(self, sums: npt.NDArray[np.int64], vectors: Arrays) -> None:
        """Adds the gradients of records, given by their rows of `vectors`, to `sums`, (count,), in grid units."""
        products = dict(
            zip(
                self._products,
                zip(vectors[1::2], vectors[2::2], strict=True),
                strict=True,
            )
        )
        add_gradients(
            sums, self._plan.parameters, vectors[0], products, self._plan.grid
        )


class FactoredGradients:
    """Gradients of a loss that is linear in its one parameter, in blocks of `rows` records; None for 64."""

    def __init__(
        self, loss: FactoredLoss, plan: GradientPlan, rows: int | None = None
    ) -> None:
        self._loss, self._plan = loss, plan
        ((self._name, self._shape),) = plan.parameters.items()
        self.execution = Execution(rows=rows or _MOST_ROWS)

    def vectors(
        self,
        parameters: Parameters,
        numeric: Float32[Tensor, "rows numeric"],
        codes: Int64[Tensor, "rows coded"],
    ) -> Arrays:
        """Returns inputs, (rows, groups, inputs), and gradients of the outputs, (rows, groups, outputs)."""
        import torch
        from torch.func import vmap

        groups, outputs, width = self._shape
        inputs = vmap(self._loss.inputs, randomness="error")(numeric, codes).to(
            torch.float32
        )
        if inputs.shape[1:] != (groups, width):
            raise OptionError(
                f"inputs of shape {tuple(inputs.shape[1:])}, the plan has {(groups, width)}."
            )
        # One product for each group, with the records as rows.
        found = torch.stack(
            [inputs[:, g] @ parameters[self._name][g].T for g in range(groups)], dim=1
        )
        # One backward pass through the sum, as each loss depends on its own outputs alone.
        found.requires_grad_()
        total = vmap(self._loss.loss, randomness="error")(found, numeric, codes).sum()
        (gradients,) = torch.autograd.grad(total, found)
        return inputs.cpu().numpy(), gradients.reshape(-1, groups, outputs).to(
            "cpu", torch.float32
        ).numpy()

    def add(self, sums: npt.NDArray[np.int64], vectors: Arrays) -> None:
        """Adds the gradients of records, given by their rows of `vectors`, to `sums`, (count,), in grid units."""
        inputs, gradients = vectors
        add_factored(sums, inputs, gradients, self._plan.grid)


GradientSource: TypeAlias = RecordGradients | FactoredGradients


def gradient_source(
    loss: RecordLoss | FactoredLoss, plan: GradientPlan, rows: int | None
) -> GradientSource:
    """Returns what computes gradients of `loss`, in blocks of `rows` records; refuses what does not fit."""
    if isinstance(loss, FactoredLoss) != plan.factored:
        raise OptionError(
            f"factored={plan.factored} in the plan of {plan.name!r}, but the loss is of type {type(loss).__name__}."
        )
    if rows is not None and (
        isinstance(rows, bool)
        or not isinstance(rows, int)
        or not 1 <= rows <= BLOCK_LIMIT
    ):
        raise OptionError(
            f"microbatch={rows!r} must be a whole number from 1 to {BLOCK_LIMIT}."
        )
    return (
        FactoredGradients(loss, plan, rows)
        if isinstance(loss, FactoredLoss)
        else RecordGradients(loss, plan, rows)
    )


def block_gradients(
    source: GradientSource,
    parameters: Parameters,
    numeric: npt.NDArray[np.floating],
    codes: npt.NDArray[np.integer],
    device: str,
) -> Arrays:
    """Returns what is computed for a block of `source.execution.rows` records; the probe and every step come here.

    The block is copied to memory that torch has aligned: kernels may round by where an array begins.
    """
    import torch

    numbers = torch.tensor(numeric, dtype=torch.float32, device=device)
    with source.execution.kernels():
        return source.vectors(
            parameters, numbers, torch.tensor(codes, dtype=torch.int64, device=device)
        )


def clipped_gradients(
    discriminator: nn.Module, rows: Float[Tensor, "rows inputs"], *, clip_norm: float
) -> dict[str, Tensor]:
    """Returns the mean over fake records of a discriminator's clipped gradient; in floats, as they are public."""
    import torch
    from torch.nn.functional import softplus

    loss = module_loss(
        discriminator, lambda run, row, codes: softplus(run(row[None]))[0]
    )
    parameters = {
        name: value.detach() for name, value in discriminator.named_parameters()
    }
    mean = {name: torch.zeros_like(value) for name, value in parameters.items()}
    for block in torch.split(rows, _MOST_ROWS):
        found = per_example_gradients(
            loss, parameters, block, block.new_zeros(len(block), 0)
        )
        squares = [
            value.flatten(1).square().sum(dim=1) for value in found.whole.values()
        ]
        squares += [
            x.square().sum(dim=1) * d.square().sum(dim=1)
            for x, d in found.products.values()
        ]
        factors = (
            clip_norm / torch.stack(squares).sum(dim=0).sqrt().clamp_min(1e-30)
        ).clamp_max(1.0) / len(rows)
        for name, value in found.whole.items():
            mean[name] += torch.tensordot(factors, value, dims=1)
        for name, (inputs, outputs) in found.products.items():
            mean[name] += (outputs * factors[:, None]).T @ inputs
    return mean


def choose_execution(
    source: GradientSource,
    parameters: Parameters,
    layout: Layout,
    device: str,
    name: str,
    represent: tuple[FeatureMap, Execution] | None = None,
    *,
    threads: int = 1,
) -> None:
    """Sets `source.execution` to the fastest one in which what a record adds is a function of that record alone.

    Up to now it says how many records a block may have at most. `parameters` are those of the first step, messages call
    the gradients `name`, and `represent` is the map whose vectors stand for records, if any, and how it is computed.
    Torch computes on `threads` threads, in the probe and in the steps. An
    OptionError if what a record adds changes with its neighbours or its place in every way, a DataError if the map is
    not finite at a made-up record.
    """
    close, count = (
        nearby(parameters),
        sum(value.numel() for value in parameters.values()),
    )

    def made_up(rows: int, random: np.random.Generator) -> EncodedTable:
        records = made_up_records(layout, rows, random)
        return records if represent is None else embedded_records(records, *represent)

    def compute(way: Execution, records: EncodedTable, places: range) -> Probed:
        source.execution = way
        vectors = block_gradients(source, close, records.numeric, records.codes, device)
        chosen = tuple(part[places.start : places.stop] for part in vectors)
        values = np.concatenate(
            [part.reshape(len(places), math.prod(part.shape[1:])) for part in chosen],
            axis=1,
        )
        return [
            row.tobytes() + sums
            for row, sums in zip(values, _added(source, chosen, count), strict=True)
        ], values

    refusal = OptionError(
        f"the gradient of {name!r} at a record changes with the record's neighbours or its place in a block, or from "
        "one time to the next, so no sensitivity can be stated. Use layers that treat each record alone, and a loss "
        "without memory or randomness of its own."
    )
    most = source.execution.rows
    source.execution = sound_execution(
        most,
        compute,
        made_up,
        name=f"gradients of {name!r}",
        refusal=refusal,
        threads=threads,
    )


def nearby(parameters: Parameters) -> dict[str, Tensor]:
    """Returns parameters near some, at which less is zero; the same ones each time."""
    import torch

    generator = torch.Generator().manual_seed(20240229)
    return {
        key: value + 0.02 * torch.randn(value.shape, generator=generator).to(value)
        for key, value in parameters.items()
    }


def _added(source: GradientSource, vectors: Arrays, count: int) -> list[bytes]:
    """Returns a digest of the integers that each record adds by itself; two, or all, may add nothing else."""

    def sums_of(rows: slice) -> npt.NDArray[np.int64]:
        sums = np.zeros(count, dtype=np.int64)
        source.add(sums, tuple(part[rows] for part in vectors))
        return sums

    digests, together, rows = (
        list[bytes](),
        np.zeros(count, dtype=np.int64),
        len(vectors[0]),
    )
    for row in range(rows):
        alone = sums_of(slice(row, row + 1))
        digests.append(hashlib.blake2b(alone.tobytes(), digest_size=16).digest())
        together += alone
        if row + 1 in (2, rows) and not np.array_equal(
            sums_of(slice(row + 1)), together
        ):
            raise OptionError(
                f"{row + 1} records of a block add up to something else than each of them alone."
            )
    return digests
