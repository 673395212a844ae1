"""Per-example gradients of a whole block at once: what layers were given, and the gradients at what they returned.

Where a loss calls `linear`, `conv2d` or `group_norm` with a parameter, its gradient is made from the layer's input x
and the gradient d of the loss at its output: Σ over positions d ⊗ x, with x the patch of a convolution, or
d · (x − mean)/std. A loss that this file does not see through (`agrees`) is left to `torch.func.grad`.

A loss is mapped over the records of a block (`torch.func.vmap`), and one backward pass
goes through the sum of the losses. Every record has its own copy of each parameter, a
view that takes no memory; the gradient at the copies is the gradient at the records.
Where a loss calls `linear`, `conv2d` or `group_norm` with a parameter, the layer is run
with the shared one instead, as fast as without privacy, and its gradients are made from
its input x and the gradient d of the loss at its output: Σ over positions d ⊗ x, with x
the patch of a convolution, or d · (x − mean)/std.

Nothing here matters for privacy but that records are not mixed, which the gate probes.
A loss that this file does not see through (`agrees`) is left to `torch.func.grad`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from jaxtyping import Float, Int64, Shaped
    from torch import Tensor

Parameters = Mapping[str, "Tensor"]
Loss: TypeAlias = Callable[[Parameters, "Tensor", "Tensor"], "Tensor"]
"""The loss of one record: of parameters, and of its numeric and coded columns."""


@dataclass(frozen=True, kw_only=True)
class BlockGradients:
    """Gradients at the records of a block, by parameter."""

    products: dict[str, tuple[Tensor, Tensor]]
    """Inputs (rows, inputs) and gradients at the outputs (rows, outputs), where the gradient is their outer product."""
    whole: dict[str, Tensor]
    """Of all others, (rows, …)."""


def per_example_gradients(
    loss: Loss,
    parameters: Parameters,
    numeric: Float[Tensor, "rows numeric"],
    codes: Shaped[Tensor, "rows coded"],
    *,
    traced: bool = True,
) -> BlockGradients:
    """Returns the gradients of a loss at each record; layers are run on the shared parameters if they are `traced`."""
    import torch
    from torch.func import vmap

    rows, calls = len(numeric), list[LayerCall]()
    copies = {
        name: value.detach().expand(rows, *value.shape).requires_grad_()
        for name, value in parameters.items()
    }

    def mapped(
        own: dict[str, Tensor],
        numbers: Float[Tensor, " numeric"],
        coded: Shaped[Tensor, " coded"],
    ) -> Float[Tensor, ""]:
        with _tracer()(own, parameters, calls) if traced else nullcontext():
            return loss(own, numbers, coded)

    total = vmap(mapped, randomness="error")(copies, numeric, codes).sum()
    wanted = [*(call.output for call in calls), *copies.values()]
    found: tuple[Tensor | None, ...] = torch.autograd.grad(
        total, wanted, allow_unused=True
    )
    own = dict(zip(copies, found[len(calls) :], strict=True))
    with torch.no_grad():
        return _assembled(calls, found[: len(calls)], own, copies)


def _assembled(
    calls: list[LayerCall],
    at_outputs: tuple[Float[Tensor, "rows ..."] | None, ...],
    own: dict[str, Tensor | None],
    copies: Parameters,
) -> BlockGradients:
    import torch

    by_name: dict[str, list[tuple[LayerCall, str, Tensor]]] = {
        name: [] for name in copies
    }
    for call, at_output in zip(calls, at_outputs, strict=True):
        if at_output is not None:
            for role, name in call.names.items():
                by_name[name].append((call, role, at_output))
    products, whole = {}, {}
    for name, copy in copies.items():
        parts, rest = by_name[name], own[name]
        if (
            len(parts) == 1
            and rest is None
            and parts[0][1] == "weight"
            and parts[0][0].inputs is not None
        ):
            products[name] = (
                parts[0][0].inputs.detach(),
                parts[0][2].reshape(len(copy), -1),
            )
            continue
        found = [
            call.gradient(at_output, role).reshape(copy.shape)
            for call, role, at_output in parts
        ]
        found += [] if rest is None else [rest]
        whole[name] = (
            sum(found[1:], start=found[0]) if found else torch.zeros_like(copy)
        )
    return BlockGradients(products=products, whole=whole)


def by_torch(
    loss: Loss,
    parameters: Parameters,
    numeric: Float[Tensor, "rows numeric"],
    codes: Int64[Tensor, "rows coded"],
) -> BlockGradients:
    """Returns the gradients of a loss at each record as torch itself takes them: slower, for any loss."""
    from torch.func import grad, vmap

    one = vmap(grad(loss), in_dims=(None, 0, 0), randomness="error")
    return BlockGradients(products={}, whole=one(dict(parameters), numeric, codes))


def agrees(
    loss: Loss,
    parameters: Parameters,
    numeric: Float[Tensor, "rows numeric"],
    codes: Int64[Tensor, "rows coded"],
) -> bool:
    """Whether gradients are the same with layers traced and without, at made-up records and parameters near these."""
    import torch

    source = torch.Generator().manual_seed(0)
    made_up = (
        torch.rand(numeric[:2].shape, generator=source).to(numeric),
        torch.zeros_like(codes[:2]),
    )
    nearby = {
        name: value + 0.1 * torch.randn(value.shape, generator=source).to(value)
        for name, value in parameters.items()
    }
    try:
        right = per_example_gradients(loss, nearby, *made_up, traced=False).whole
        found = per_example_gradients(loss, nearby, *made_up)
    except RuntimeError:  # an operation that cannot be mapped over parameters, or a gradient inside the loss
        return False
    mine = {
        name: outputs[:, :, None] * inputs[:, None, :]
        for name, (inputs, outputs) in found.products.items()
    }
    mine |= found.whole
    # A gradient that is zero but for rounding, as that of a bias before a normalisation, agrees with any such.
    rounding = 1e-5 * max(float(value.abs().max()) for value in right.values())
    return all(
        bool(
            (mine[name].reshape(value.shape) - value).abs().max()
            <= 1e-3 * value.abs().max() + rounding
        )
        for name, value in right.items()
    )


@dataclass(frozen=True, kw_only=True)
class LayerCall:
    """One call of a layer, for a whole block."""

    names: Mapping[str, str]
    """The parameter in each role: "weight", "bias"."""
    output: Tensor
    """(rows, …), part of the graph of the losses."""
    gradient: Callable[[Tensor, str], Tensor]
    """Returns the gradient of a role at each record, (rows, …), from that of the loss at the output."""
    inputs: Tensor | None = None
    """(rows, inputs) where the weight's gradient is d ⊗ inputs, one product a record."""


Call: TypeAlias = Mapping[str, Any]
Names: TypeAlias = Mapping[str, str]
Run: TypeAlias = Callable[["Tensor"], LayerCall]
"""Runs a layer on the inputs of a whole block. What reads calls gives None for one that is left to torch."""


@cache
def _tracer() -> Any:
    """Returns the class that traces layers; made when it is asked for, as its bases are torch's."""
    import torch
    from torch.nn import functional
    from torch.overrides import TorchFunctionMode

    known: dict[Any, tuple[Callable[..., Run | None], tuple[str, ...]]] = {
        functional.linear: (_linear, ("input", "weight", "bias")),
        torch.conv2d: (
            _conv2d,
            ("input", "weight", "bias", "stride", "padding", "dilation", "groups"),
        ),
        functional.group_norm: (
            _group_norm,
            ("input", "num_groups", "weight", "bias", "eps"),
        ),
    }

    class Outside(torch.autograd.Function):
        """Runs a layer once for the whole block, outside of the map over its records."""

        @staticmethod
        def forward(*_: Any) -> Any:
            """Refuses: a layer that is not mapped has no records to tell apart."""
            raise RuntimeError(
                "layers are traced under one map, over inputs that differ between records"
            )

        @staticmethod
        def setup_context(*_: Any) -> Any:
            raise RuntimeError("layers are traced under one map")

        @staticmethod
        def vmap(
            info: Any,
            in_dims: Any,
            run: Callable[[Tensor], Tensor],
            x: Float[Tensor, "..."],
        ) -> tuple[Float[Tensor, "rows ..."], int]:
            """Returns the layer at all records of the block, which stand in front."""
            return run(x.movedim(in_dims[1], 0)), 0

    class LayerTracer(TorchFunctionMode):
        def __init__(
            self, own: Parameters, shared: Parameters, made: list[LayerCall]
        ) -> None:
            super().__init__()
            self._named = {
                id(value): (name, shared[name]) for name, value in own.items()
            }
            self._made = made

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if func not in known:
                return func(*args, **kwargs)
            read, order = known[func]
            call = dict(zip(order, args, strict=False)) | kwargs
            given = {
                role: call[role]
                for role in ("weight", "bias")
                if call.get(role) is not None
            }
            named = {
                role: self._named[id(value)]
                for role, value in given.items()
                if id(value) in self._named
            }
            run = None
            if "weight" in named and len(named) == len(given):
                names, shared = (
                    {role: found[place] for role, found in named.items()}
                    for place in (0, 1)
                )
                run = read(call, names, **shared)
            if run is None:
                return func(*args, **kwargs)

            def noted(block: Float[Tensor, "rows ..."]) -> Float[Tensor, "rows ..."]:
                """Returns the outputs of the layer, and writes down its call."""
                made = run(block)
                # Where nothing before it has parameters, the gradient at the output starts here.
                made.output.requires_grad_()
                self._made.append(made)
                return made.output

            return Outside.apply(noted, call["input"])

    return LayerTracer


def _linear(
    _: Call,
    names: Names,
    weight: Float[Tensor, "outputs inputs"],
    bias: Float[Tensor, " outputs"] | None = None,
) -> Run:
    """Reads a call of ``linear``: outputs = weight @ inputs + bias, at each position."""
    import torch

    def run(block: Float[Tensor, "rows ... inputs"]) -> LayerCall:
        positions = block.reshape(len(block), -1, block.shape[-1])

        def gradient(
            at_output: Float[Tensor, "rows ... outputs"], role: str
        ) -> Float[Tensor, "rows outputs ..."]:
            given = at_output.reshape(*positions.shape[:2], -1)
            return given.sum(dim=1) if role == "bias" else given.mT @ positions

        output = torch.nn.functional.linear(block, weight, bias)
        single = positions[:, 0] if positions.shape[1] == 1 else None
        return LayerCall(names=names, output=output, gradient=gradient, inputs=single)

    return run


def _conv2d(
    call: Call,
    names: Names,
    weight: Float[Tensor, "c2 c kh kw"],
    bias: Float[Tensor, " c2"] | None = None,
) -> Run | None:
    """Reads a call of ``conv2d`` of one group: each patch of the input is multiplied by the weight."""
    import torch

    options = {
        name: call[name] for name in ("stride", "padding", "dilation") if name in call
    }
    if call.get("groups", 1) != 1 or isinstance(options.get("padding"), str):
        return None

    def run(block: Float[Tensor, "rows ... c h w"]) -> LayerCall:
        images = block.reshape(-1, *block.shape[-3:])
        output = torch.conv2d(images, weight, bias, **options)

        def gradient(
            at_output: Float[Tensor, "rows ... c2 h2 w2"], role: str
        ) -> Float[Tensor, "rows numbers"]:
            given = at_output.reshape(len(images), len(weight), -1)
            if role == "bias":
                return given.sum(dim=2).reshape(len(block), -1, len(weight)).sum(dim=1)
            patches = torch.nn.functional.unfold(images, weight.shape[2:], **options)
            return (
                (given @ patches.mT).reshape(len(block), -1, weight.numel()).sum(dim=1)
            )

        shape = *block.shape[:-3], *output.shape[1:]
        return LayerCall(names=names, output=output.reshape(shape), gradient=gradient)

    return run


def _group_norm(
    call: Call,
    names: Names,
    weight: Float[Tensor, " channels"],
    bias: Float[Tensor, " channels"] | None = None,
) -> Run:
    """Reads a call of ``group_norm``: each group of channels is centred and scaled, then each channel by parameters."""
    import torch

    groups, eps = call["num_groups"], call.get("eps", 1e-5)

    def run(block: Float[Tensor, "rows batch channels ..."]) -> LayerCall:
        images = block.reshape(-1, *block.shape[2:])
        records, channels, size = len(images), images.shape[1], prod(images.shape[2:])
        summed = cache(
            lambda at_output: at_output.reshape(records, channels, size).sum(dim=2)
        )  # for weight and bias
        output, mean, scale = torch.native_group_norm(
            images, weight, bias, records, channels, size, groups, eps
        )

        def gradient(
            at_output: Float[Tensor, "rows batch channels ..."], role: str
        ) -> Float[Tensor, "rows channels"]:
            given = at_output.reshape(records, channels, size)
            sums = summed(at_output)
            if role == "weight":
                products = torch.einsum(
                    "rcs,rcs->rc", given, images.reshape(records, channels, size)
                )
                shift, stretch = (
                    part.repeat_interleave(channels // groups, dim=1)
                    for part in (mean, scale)
                )
                sums = (products - shift * sums) * stretch
            total: Tensor = sums.reshape(len(block), -1, channels).sum(dim=1)
            return total

        return LayerCall(
            names=names, output=output.reshape(block.shape), gradient=gradient
        )

    return run
