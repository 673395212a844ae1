"""Gradients at single records, for a whole block at once: what layers were given, and the slopes of what they returned.

A loss is mapped over the records of a block (`torch.func.vmap`), and one backward pass goes through the sum of the
losses. Every record has its own copy of each parameter, a view that takes no memory; the gradient at the copies is the
gradient at the records. Where a loss calls `linear`, `conv2d` or `group_norm` with a parameter, the layer is run
with the shared parameter instead, as fast as without privacy, and the gradients of its parameters are made from its
input x and the slope d of the loss at its output:

========================  =====================================================
layer                     gradient at one record
========================  =====================================================
linear                    Σ over positions d ⊗ x; d for the bias
convolution               the same, with x the patch under each position
normalisation of groups   Σ over positions d · (x − mean)/std; d for the shift
========================  =====================================================

Nothing here matters for privacy but that records are not mixed, which the gate probes. A loss that this file does not
see through, such as one with a gradient inside, is found out on made-up records by `agrees`, and left to
`torch.func.grad`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from noisegate.gate import layers
from noisegate.gate.layers import Use
from noisegate.gate.losses import RecordLoss

if TYPE_CHECKING:
    from torch import Tensor

Parameters = Mapping[str, "Tensor"]


@dataclass(frozen=True, kw_only=True)
class Captured:
    """Gradients at the records of a block.

    Attributes:
        products: For each parameter of which it is known: inputs (rows, inputs) and slopes (rows, outputs), whose outer
            product is the gradient.
        whole: For each of the others: the gradient, (rows, …).
    """

    products: dict[str, tuple[Tensor, Tensor]]
    whole: dict[str, Tensor]


def captured(
    loss: RecordLoss, parameters: Parameters, numeric: Tensor, codes: Tensor, *, watched: bool = True
) -> Captured:
    """Returns the gradients of a loss at each record.

    Args:
        loss: The loss of one record.
        parameters: What to differentiate at; they are public.
        numeric: (rows, numeric columns).
        codes: (rows, coded columns).
        watched: Whether layers are run on the shared parameters.
    """
    import torch
    from torch.func import vmap

    rows, uses = len(numeric), list[Use]()
    copies = {name: value.detach().expand(rows, *value.shape).requires_grad_() for name, value in parameters.items()}

    def mapped(own: dict[str, Tensor], numbers: Tensor, coded: Tensor) -> Tensor:
        with _watch()(own, parameters, uses) if watched else nullcontext():
            return loss(own, numbers, coded)

    total = vmap(mapped, randomness="error")(copies, numeric, codes).sum()
    wanted = [*(use.output for use in uses), *copies.values()]
    slopes: tuple[Tensor | None, ...] = torch.autograd.grad(total, wanted, allow_unused=True)
    own = dict(zip(copies, slopes[len(uses) :], strict=True))
    with torch.no_grad():
        return _assembled(uses, slopes[: len(uses)], own, copies)


def _assembled(
    uses: list[Use], slopes: tuple[Tensor | None, ...], own: dict[str, Tensor | None], copies: Parameters
) -> Captured:
    import torch

    calls: dict[str, list[tuple[Use, str, Tensor]]] = {name: [] for name in copies}
    for use, slope in zip(uses, slopes, strict=True):
        if slope is not None:
            for role, name in use.names.items():
                calls[name].append((use, role, slope))
    products, whole = {}, {}
    for name, copy in copies.items():
        parts, rest = calls[name], own[name]
        if len(parts) == 1 and rest is None and parts[0][1] == "weight" and parts[0][0].inputs is not None:
            products[name] = parts[0][0].inputs.detach(), parts[0][2].reshape(len(copy), -1)
            continue
        found = [use.gradient(slope, role).reshape(copy.shape) for use, role, slope in parts]
        found += [] if rest is None else [rest]
        whole[name] = sum(found[1:], start=found[0]) if found else torch.zeros_like(copy)
    return Captured(products=products, whole=whole)


def agrees(loss: RecordLoss, parameters: Parameters, numeric: Tensor, codes: Tensor) -> bool:
    """Whether gradients are the same with layers watched and without, at made-up records and parameters.

    Args:
        loss: The loss of one record.
        parameters: Public ones; others near them are tried.
        numeric: (rows, numeric columns), for shape and device; the values are not looked at.
        codes: (rows, coded columns), likewise.
    """
    import torch

    source = torch.Generator().manual_seed(0)
    made_up = torch.rand(numeric[:2].shape, generator=source).to(numeric), torch.zeros_like(codes[:2])
    nearby = {
        name: value + 0.1 * torch.randn(value.shape, generator=source).to(value) for name, value in parameters.items()
    }
    try:
        right = captured(loss, nearby, *made_up, watched=False).whole
        found = captured(loss, nearby, *made_up)
    except RuntimeError:  # an operation that cannot be mapped over parameters, or a gradient inside the loss
        return False
    mine = {name: slopes[:, :, None] * inputs[:, None, :] for name, (inputs, slopes) in found.products.items()}
    mine |= found.whole
    # A gradient that is zero but for rounding, as that of a bias before a normalisation, agrees with any such.
    rounding = 1e-5 * max(float(value.abs().max()) for value in right.values())
    return all(
        bool((mine[name].reshape(value.shape) - value).abs().max() <= 1e-3 * value.abs().max() + rounding)
        for name, value in right.items()
    )


def by_torch(loss: RecordLoss, parameters: Parameters, numeric: Tensor, codes: Tensor) -> Captured:
    """Returns the gradients of a loss at each record as torch itself takes them: slower, for any loss."""
    from torch.func import grad, vmap

    one = vmap(grad(loss), in_dims=(None, 0, 0), randomness="error")
    return Captured(products={}, whole=one(dict(parameters), numeric, codes))


@cache
def _watch() -> Any:
    """Returns the class that watches for layers; made when it is asked for, as its bases are torch's."""
    import torch
    from torch.nn import functional
    from torch.overrides import TorchFunctionMode

    readers = {
        functional.linear: layers.linear,
        torch.conv2d: layers.convolution,
        functional.group_norm: layers.group_norm,
    }
    orders = {
        functional.linear: ("input", "weight", "bias"),
        torch.conv2d: ("input", "weight", "bias", "stride", "padding", "dilation", "groups"),
        functional.group_norm: ("input", "num_groups", "weight", "bias", "eps"),
    }

    class Outside(torch.autograd.Function):
        """Runs a layer once for the whole block, outside of the map over its records."""

        @staticmethod
        def forward(run: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
            raise RuntimeError("layers are watched under one map, over inputs that differ between records")

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            raise RuntimeError("layers are watched under one map")

        @staticmethod
        def vmap(info: Any, in_dims: Any, run: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, int]:
            return run(x.movedim(in_dims[1], 0)), 0

    class Watch(TorchFunctionMode):
        def __init__(self, own: Parameters, shared: Parameters, uses: list[Use]) -> None:
            super().__init__()
            self._named = {id(value): (name, shared[name]) for name, value in own.items()}
            self._uses = uses

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func not in readers:
                return func(*args, **kwargs)
            call = dict(zip(orders[func], args, strict=False)) | kwargs
            read = readers[func](call, lambda value: self._named.get(id(value)))
            if read is None:
                return func(*args, **kwargs)
            x, run = read

            def noted(block: Tensor) -> Tensor:
                use = run(block)
                # Where nothing before it has parameters, the slope at the output starts here.
                use.output.requires_grad_()
                self._uses.append(use)
                return use.output

            return Outside.apply(noted, x)

    return Watch
