"""Layers whose parameters' gradients at single records follow from their input and the slope at their output.

Each function here reads a call as torch's functional interface has it. It returns the layer's input and what runs the
layer on the inputs of a whole block, or None for a call that it does not know: that one is left to torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Use:
    """One call of a layer, for a whole block.

    Attributes:
        names: The parameter in each role: "weight", "bias".
        output: (rows, …), part of the graph of the losses.
        gradient: Returns the gradient of a role at each record, (rows, …), from the slope of the loss at the output.
        inputs: (rows, inputs) where the weight's gradient is slope ⊗ inputs, one product a record; else None.
    """

    names: Mapping[str, str]
    output: Tensor
    gradient: Callable[[Tensor, str], Tensor]
    inputs: Tensor | None = None


Named = Callable[[Any], "tuple[str, Tensor] | None"]
Run = Callable[["Tensor"], Use]
Read = tuple["Tensor", Run]


def linear(call: Mapping[str, Any], named: Named) -> Read | None:
    """Reads a call of ``linear``: outputs = weight @ inputs + bias, at each position."""
    import torch

    found = _parameters(call, named)
    if found is None:
        return None
    names, weight, bias = found

    def run(block: Tensor) -> Use:
        positions = block.reshape(len(block), -1, block.shape[-1])

        def gradient(slope: Tensor, role: str) -> Tensor:
            slopes = slope.reshape(*positions.shape[:2], -1)
            return slopes.sum(dim=1) if role == "bias" else slopes.mT @ positions

        output = torch.nn.functional.linear(block, weight, bias)
        single = positions[:, 0] if positions.shape[1] == 1 else None
        return Use(names=names, output=output, gradient=gradient, inputs=single)

    return call["input"], run


def convolution(call: Mapping[str, Any], named: Named) -> Read | None:
    """Reads a call of ``conv2d`` of one group: each patch of the input is multiplied by the weight."""
    import torch
    from torch.nn import functional

    found = _parameters(call, named)
    options = {name: call[name] for name in ("stride", "padding", "dilation") if name in call}
    if found is None or call.get("groups", 1) != 1 or isinstance(options.get("padding"), str):
        return None
    names, weight, bias = found

    def run(block: Tensor) -> Use:
        images = block.reshape(-1, *block.shape[-3:])
        output = torch.conv2d(images, weight, bias, **options)

        def gradient(slope: Tensor, role: str) -> Tensor:
            slopes = slope.reshape(len(images), len(weight), -1)
            if role == "bias":
                return slopes.sum(dim=2).reshape(len(block), -1, len(weight)).sum(dim=1)
            patches = functional.unfold(images, weight.shape[2:], **options)
            return (slopes @ patches.mT).reshape(len(block), -1, weight.numel()).sum(dim=1)

        shape = *block.shape[:-3], *output.shape[1:]
        return Use(names=names, output=output.reshape(shape), gradient=gradient)

    return call["input"], run


def group_norm(call: Mapping[str, Any], named: Named) -> Read | None:
    """Reads a call of ``group_norm``: each group of channels is centred and scaled, then each channel by parameters."""
    import torch

    found = _parameters(call, named)
    if found is None:
        return None
    (names, weight, bias), groups, eps = found, call["num_groups"], call.get("eps", 1e-5)

    def run(block: Tensor) -> Use:
        images = block.reshape(-1, *block.shape[2:])
        records, channels, size = len(images), images.shape[1], prod(images.shape[2:])
        summed = cache(lambda slope: slope.reshape(records, channels, size).sum(dim=2))  # for weight and bias
        output, mean, scale = torch.native_group_norm(images, weight, bias, records, channels, size, groups, eps)

        def gradient(slope: Tensor, role: str) -> Tensor:
            slopes = slope.reshape(records, channels, size)
            sums = summed(slope)
            if role == "weight":
                products = torch.einsum("rcs,rcs->rc", slopes, images.reshape(records, channels, size))
                shift, stretch = (part.repeat_interleave(channels // groups, dim=1) for part in (mean, scale))
                sums = (products - shift * sums) * stretch
            total: Tensor = sums.reshape(len(block), -1, channels).sum(dim=1)
            return total

        return Use(names=names, output=output.reshape(block.shape), gradient=gradient)

    return call["input"], run


def _parameters(call: Mapping[str, Any], named: Named) -> tuple[dict[str, str], Tensor, Tensor | None] | None:
    """Returns names and values of weight and bias where both are parameters, the bias unless there is none."""
    weight, bias = named(call.get("weight")), named(call.get("bias"))
    if weight is None or (bias is None and call.get("bias") is not None):
        return None
    names = {"weight": weight[0]} | ({} if bias is None else {"bias": bias[0]})
    return names, weight[1], None if bias is None else bias[1]
