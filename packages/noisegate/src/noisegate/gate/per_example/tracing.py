"""Per-example gradients of a block of records at once, almost as fast as their sum.

A loss is mapped over the records of a block (`torch.func.vmap`), and one backward pass
goes through the sum of the losses. Every record has its own copy of each parameter, a
view that takes no memory; the gradient at the copies is the gradient at the records.

Layers are faster still. Where a loss calls `linear`, `conv2d` or `group_norm` with a
parameter, the layer is run once for the block, with the shared parameter, as without
privacy. Its gradients are made from its input x and the gradient d of the loss at its
output, as a sum over positions:

============  ====================================
layer         gradient of the weight at one record
============  ====================================
`linear`      Σ d ⊗ x
`conv2d`      Σ d ⊗ x, with x a patch of the image
`group_norm`  Σ d · (x − mean) / std
============  ====================================

The gradient of a bias is Σ d.

Nothing here matters for privacy but that records are not mixed, which the gate probes.
A loss that this file does not see through (`is_traceable`) is left to
`torch.func.grad`.

How to read it: `per_example_gradients` is the main line, `_layer_tracer_class` catches
the calls of layers, and `_linear`, `_conv2d` and `_group_norm` each read one kind of
call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from jaxtyping import Float, Int64, Shaped
    from torch import Tensor

Parameters = Mapping[str, "Tensor"]
Loss: TypeAlias = Callable[[Parameters, "Tensor", "Tensor"], "Tensor"]
"""The loss of one record, a scalar: of parameters by name, and of the record's numeric
and coded columns."""


@dataclass(frozen=True, kw_only=True)
class BlockGradients:
    """Gradients at the records of a block, by parameter."""

    products: dict[str, tuple[Tensor, Tensor]]
    """Of parameters whose gradient is an outer product: the inputs of their layer,
    (rows, inputs), and the gradients at its outputs, (rows, outputs)."""
    full: dict[str, Tensor]
    """Of all other parameters, the gradients, (rows, …)."""


def per_example_gradients(
    loss: Loss,
    parameters: Parameters,
    numeric: Float[Tensor, "rows numeric"],
    codes: Shaped[Tensor, "rows coded"],
    *,
    traced: bool = True,
) -> BlockGradients:
    """Computes the gradients of a loss at each record of a block.

    Args:
        loss: The loss of one record.
        parameters: Where gradients are taken, by name.
        numeric: Numeric columns.
        codes: Coded columns.
        traced: Whether layers are run once for the block, with the shared parameters;
            False for comparison.
    """
    import torch
    from torch.func import vmap

    row_count = len(numeric)
    copies = {
        name: value.detach().expand(row_count, *value.shape).requires_grad_()
        for name, value in parameters.items()
    }
    calls: list[LayerCall] = []

    def loss_of_record(
        record_parameters: dict[str, Tensor],
        record_numeric: Float[Tensor, " numeric"],
        record_codes: Shaped[Tensor, " coded"],
    ) -> Float[Tensor, ""]:
        """Returns the loss of one record; notes its layers in `calls`.

        Torch calls it once for all records, with stand-ins for the tensors of one.
        """
        if not traced:
            return loss(record_parameters, record_numeric, record_codes)
        with _layer_tracer_class()(record_parameters, parameters, calls):
            return loss(record_parameters, record_numeric, record_codes)

    losses = vmap(loss_of_record, randomness="error")(copies, numeric, codes)
    # A record's copy and output are in its own loss alone, so the gradient of the sum
    # is that of each. Where the loss does not use one, it is None.
    gradients: tuple[Tensor | None, ...] = torch.autograd.grad(
        losses.sum(),
        [*(call.output for call in calls), *copies.values()],
        allow_unused=True,
    )
    output_gradients = gradients[: len(calls)]
    copy_gradients = dict(zip(copies, gradients[len(calls) :], strict=True))
    with torch.no_grad():
        return _sum_uses(calls, output_gradients, copy_gradients, copies)


@dataclass(frozen=True, kw_only=True)
class _Use:
    """One use of a parameter, in a call of a layer."""

    call: LayerCall
    """The call."""
    role: str
    """What the parameter is in the layer: "weight" or "bias"."""
    output_gradient: Tensor
    """Gradient of the loss at the layer's output, (rows, …)."""


def _sum_uses(
    calls: list[LayerCall],
    output_gradients: tuple[Float[Tensor, "rows ..."] | None, ...],
    copy_gradients: dict[str, Tensor | None],
    copies: Parameters,
) -> BlockGradients:
    """Adds up, for each parameter, the gradients of all its uses.

    Args:
        calls: The calls of layers that were traced.
        output_gradients: Gradients of the loss at the outputs of these layers; None
            where the loss does not use an output.
        copy_gradients: Gradients at the records' copies of each parameter, where it was
            used outside of traced layers; None where it was not.
        copies: The records' copies of each parameter, (rows, …).

    Returns:
        An outer product where a weight is used once, with one product for each record;
        full gradients of all other parameters, zero where the loss uses none.
    """
    import torch

    uses_by_name: dict[str, list[_Use]] = {name: [] for name in copies}
    for call, output_gradient in zip(calls, output_gradients, strict=True):
        if output_gradient is not None:
            for role, name in call.names.items():
                use = _Use(call=call, role=role, output_gradient=output_gradient)
                uses_by_name[name].append(use)

    products: dict[str, tuple[Tensor, Tensor]] = {}
    full: dict[str, Tensor] = {}
    for name, copy in copies.items():
        uses = uses_by_name[name]
        other_gradient = copy_gradients[name]
        is_only_use = len(uses) == 1 and other_gradient is None
        if is_only_use and uses[0].role == "weight":
            inputs = uses[0].call.inputs
            if inputs is not None:
                outputs = uses[0].output_gradient.reshape(len(copy), -1)
                products[name] = (inputs.detach(), outputs)
                continue
        gradients = [
            use.call.parameter_gradient(use.output_gradient, use.role).reshape(
                copy.shape
            )
            for use in uses
        ]
        if other_gradient is not None:
            gradients.append(other_gradient)
        if gradients:
            full[name] = sum(gradients[1:], start=gradients[0])
        else:
            full[name] = torch.zeros_like(copy)
    return BlockGradients(products=products, full=full)


def untraced_gradients(
    loss: Loss,
    parameters: Parameters,
    numeric: Float[Tensor, "rows numeric"],
    codes: Int64[Tensor, "rows coded"],
) -> BlockGradients:
    """Computes the gradients of any loss at each record by `torch.func.grad`: slower.

    Args:
        loss: The loss of one record.
        parameters: Where gradients are taken, by name.
        numeric: Numeric columns.
        codes: Coded columns.
    """
    from torch.func import grad, vmap

    gradients_of_records = vmap(grad(loss), in_dims=(None, 0, 0), randomness="error")
    return BlockGradients(
        products={}, full=gradients_of_records(dict(parameters), numeric, codes)
    )


# Seed and size of the changes of parameters at which `is_traceable` compares.
_COMPARED_SEED = 0
_COMPARED_STD = 0.1
# By how much two ways to compute a gradient may differ, relative to its largest entry,
# and to the largest of all parameters' gradients.
_MAX_RELATIVE_DIFFERENCE = 1e-3
_MAX_ROUNDING = 1e-5


def is_traceable(
    loss: Loss,
    parameters: Parameters,
    numeric: Float[Tensor, "rows numeric"],
    codes: Int64[Tensor, "rows coded"],
) -> bool:
    """Returns whether gradients are the same with layers traced and without.

    They are compared at two made-up records, and at parameters near some. No value of a
    record is used, so the answer is public.

    Args:
        loss: The loss of one record.
        parameters: The parameters, by name.
        numeric: Numeric columns, of which shape and type alone are used.
        codes: Coded columns, likewise.

    Returns:
        False too where tracing fails, as with a gradient inside the loss.
    """
    import torch

    generator = torch.Generator().manual_seed(_COMPARED_SEED)
    made_up_numeric = torch.rand(numeric[:2].shape, generator=generator).to(numeric)
    made_up_codes = torch.zeros_like(codes[:2])
    nearby_parameters = {
        name: value
        + _COMPARED_STD * torch.randn(value.shape, generator=generator).to(value)
        for name, value in parameters.items()
    }
    try:
        expected = per_example_gradients(
            loss, nearby_parameters, made_up_numeric, made_up_codes, traced=False
        ).full
        traced = per_example_gradients(
            loss, nearby_parameters, made_up_numeric, made_up_codes
        )
    except RuntimeError:
        # An operation that cannot be mapped over parameters, or a gradient inside the
        # loss.
        return False
    gradients = {
        name: outputs[:, :, None] * inputs[:, None, :]
        for name, (inputs, outputs) in traced.products.items()
    }
    gradients |= traced.full
    # A gradient that is zero but for rounding, as that of a bias before a
    # normalisation, agrees with any such.
    rounding = _MAX_ROUNDING * max(
        float(value.abs().max()) for value in expected.values()
    )
    return all(
        bool(
            (gradients[name].reshape(value.shape) - value).abs().max()
            <= _MAX_RELATIVE_DIFFERENCE * value.abs().max() + rounding
        )
        for name, value in expected.items()
    )


@dataclass(frozen=True, kw_only=True)
class LayerCall:
    """One call of a layer, for all records of a block."""

    names: Mapping[str, str]
    """Name of the parameter in each role, "weight" and "bias"."""
    output: Tensor
    """What the layer returned, (rows, …), part of the graph of the losses."""
    parameter_gradient: Callable[[Tensor, str], Tensor]
    """From the gradient of the losses at the output, (rows, …), and a role to the
    gradient at the parameter in that role, of each record, (rows, …)."""
    inputs: Tensor | None = None
    """What the layer was given, (rows, inputs), if the gradient of its weight is one
    outer product for each record: of the gradient at the output, and these."""


Arguments: TypeAlias = Mapping[str, Any]
"""Arguments of a call of a layer, by name."""
NamesByRole: TypeAlias = Mapping[str, str]
"""Name of the parameter in each role, "weight" and "bias"."""
LayerRunner: TypeAlias = Callable[["Tensor"], LayerCall]
"""Runs a layer on the inputs of a whole block, with the shared parameters."""


@dataclass(frozen=True)
class _LayerKind:
    """A function of torch that is traced."""

    read_call: Callable[..., LayerRunner | None]
    """From the arguments of a call, the names of the parameters and the shared
    parameters by role to what runs the layer; None for a call that is left to torch."""
    argument_names: tuple[str, ...]
    """Names of the positional arguments, in order."""


@cache
def _layer_tracer_class() -> Any:
    """Returns the class of the context that traces layers.

    It is defined when it is first asked for, as its base classes are torch's, which is
    slow to import.
    """
    import torch
    from torch.nn import functional
    from torch.overrides import TorchFunctionMode

    layer_kinds: dict[Any, _LayerKind] = {
        functional.linear: _LayerKind(_linear, ("input", "weight", "bias")),
        torch.conv2d: _LayerKind(
            _conv2d,
            ("input", "weight", "bias", "stride", "padding", "dilation", "groups"),
        ),
        functional.group_norm: _LayerKind(
            _group_norm, ("input", "num_groups", "weight", "bias", "eps")
        ),
    }

    class OnWholeBlock(torch.autograd.Function):
        """Runs a layer once for the whole block, outside of the map over its records.

        When torch maps this function over records, it calls `vmap` with the inputs of
        all of them.
        """

        @staticmethod
        def forward(*_: Any) -> Any:
            """Refuses: a layer that is not mapped has no records to tell apart."""
            raise RuntimeError(
                "layers are traced under one map, over inputs that differ between "
                "records"
            )

        @staticmethod
        def setup_context(*_: Any) -> Any:
            """Refuses likewise; torch asks for this method."""
            raise RuntimeError("layers are traced under one map")

        @staticmethod
        def vmap(
            info: Any,
            in_dims: Any,
            run_layer: Callable[[Tensor], Tensor],
            inputs: Float[Tensor, "..."],
        ) -> tuple[Float[Tensor, "rows ..."], int]:
            """Returns the outputs of the layer, and the axis of records in them.

            The axis of records in the inputs is the second of `in_dims`, as they are
            the second argument.
            """
            return run_layer(inputs.movedim(in_dims[1], 0)), 0

    class LayerTracer(TorchFunctionMode):
        """While it is entered, runs layers on whole blocks and notes their calls.

        Args:
            record_parameters: A record's copies of the parameters, by name, inside the
                map.
            shared_parameters: The shared parameters, by name.
            calls: Is filled with the calls.
        """

        def __init__(
            self,
            record_parameters: Parameters,
            shared_parameters: Parameters,
            calls: list[LayerCall],
        ) -> None:
            super().__init__()
            # A loss hands its parameters on to layers, by which they are known again.
            self._names_by_id = {
                id(value): name for name, value in record_parameters.items()
            }
            self._shared_parameters = shared_parameters
            self._calls = calls

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            """Runs a layer on the whole block if it has parameters, else as usual."""
            options = kwargs or {}
            kind = layer_kinds.get(func)
            if kind is None:
                return func(*args, **options)
            arguments = dict(zip(kind.argument_names, args, strict=False)) | options
            run_layer = self._layer_runner(kind, arguments)
            if run_layer is None:
                return func(*args, **options)

            def run_and_note(
                block: Float[Tensor, "rows ..."],
            ) -> Float[Tensor, "rows ..."]:
                """Returns the outputs of the layer, and notes its call."""
                call = run_layer(block)
                # Where nothing before the layer has parameters, the graph begins here.
                call.output.requires_grad_()
                self._calls.append(call)
                return call.output

            return OnWholeBlock.apply(run_and_note, arguments["input"])

        def _layer_runner(
            self, kind: _LayerKind, arguments: Arguments
        ) -> LayerRunner | None:
            """Returns what runs a layer with the shared parameters.

            Args:
                kind: The function that was called.
                arguments: Its arguments, among them a record's copies of parameters.

            Returns:
                None for a call that is left to torch: its weight is none of the
                parameters, or its bias is something else.
            """
            layer_parameters = {
                role: arguments[role]
                for role in ("weight", "bias")
                if arguments.get(role) is not None
            }
            names = {
                role: self._names_by_id[id(value)]
                for role, value in layer_parameters.items()
                if id(value) in self._names_by_id
            }
            if "weight" not in names or len(names) != len(layer_parameters):
                return None
            shared_by_role = {
                role: self._shared_parameters[name] for role, name in names.items()
            }
            return kind.read_call(arguments, names, **shared_by_role)

    return LayerTracer


def _linear(
    _: Arguments,
    names: NamesByRole,
    weight: Float[Tensor, "outputs inputs"],
    bias: Float[Tensor, " outputs"] | None = None,
) -> LayerRunner:
    """Reads a call of ``linear``: outputs = weight @ inputs + bias, by position.

    A layer of a perceptron has one position; one of a sequence, as many as its steps.
    """
    import torch

    def run_linear(block: Float[Tensor, "rows ... inputs"]) -> LayerCall:
        """Runs the layer on all records of a block."""
        inputs = block.reshape(len(block), -1, block.shape[-1])
        position_count = inputs.shape[1]

        def parameter_gradient(
            output_gradient: Float[Tensor, "rows ... outputs"], role: str
        ) -> Float[Tensor, "rows outputs ..."]:
            """Sums d for the bias, d ⊗ x for the weight, over positions."""
            d = output_gradient.reshape(len(block), position_count, -1)
            if role == "bias":
                return d.sum(dim=1)
            return d.mT @ inputs

        output = torch.nn.functional.linear(block, weight, bias)
        # With one position, the sum of d ⊗ x is one outer product.
        single_inputs = inputs[:, 0] if position_count == 1 else None
        return LayerCall(
            names=names,
            output=output,
            parameter_gradient=parameter_gradient,
            inputs=single_inputs,
        )

    return run_linear


def _conv2d(
    arguments: Arguments,
    names: NamesByRole,
    weight: Float[Tensor, "c2 c kh kw"],
    bias: Float[Tensor, " c2"] | None = None,
) -> LayerRunner | None:
    """Reads a call of ``conv2d``: each patch of an image is multiplied by the weight.

    In shapes, c and c2 are channels of inputs and outputs, kh and kw the height and
    width of a patch. Calls with several groups, or padding by a word, are left to
    torch.
    """
    import torch

    options = {
        name: arguments[name]
        for name in ("stride", "padding", "dilation")
        if name in arguments
    }
    has_groups = arguments.get("groups", 1) != 1
    if has_groups or isinstance(options.get("padding"), str):
        return None

    def run_conv2d(block: Float[Tensor, "rows ... c h w"]) -> LayerCall:
        """Runs the layer on all records of a block, each of one image or several."""
        images = block.reshape(-1, *block.shape[-3:])
        output = torch.conv2d(images, weight, bias, **options)

        def parameter_gradient(
            output_gradient: Float[Tensor, "rows ... c2 h2 w2"], role: str
        ) -> Float[Tensor, "rows numbers"]:
            """Sums d for the bias, d ⊗ patch for the weight, over patches."""
            d = output_gradient.reshape(len(images), len(weight), -1)
            if role == "bias":
                per_image = d.sum(dim=2)
                return per_image.reshape(len(block), -1, len(weight)).sum(dim=1)
            patches = torch.nn.functional.unfold(images, weight.shape[2:], **options)
            per_image = d @ patches.mT
            return per_image.reshape(len(block), -1, weight.numel()).sum(dim=1)

        block_shape = *block.shape[:-3], *output.shape[1:]
        return LayerCall(
            names=names,
            output=output.reshape(block_shape),
            parameter_gradient=parameter_gradient,
        )

    return run_conv2d


def _group_norm(
    arguments: Arguments,
    names: NamesByRole,
    weight: Float[Tensor, " channels"],
    bias: Float[Tensor, " channels"] | None = None,
) -> LayerRunner:
    """Reads a call of ``group_norm``: normalises groups of channels, then scales each.

    Each group is centred and divided by its standard deviation; then each channel is
    multiplied by its weight, and its bias is added.
    """
    import torch

    groups = arguments["num_groups"]
    eps = arguments.get("eps", 1e-5)

    def run_group_norm(block: Float[Tensor, "rows batch channels ..."]) -> LayerCall:
        """Runs the layer on all records of a block."""
        images = block.reshape(-1, *block.shape[2:])
        image_count = len(images)
        channels = images.shape[1]
        pixel_count = prod(images.shape[2:])
        output, mean, inverse_std = torch.native_group_norm(
            images, weight, bias, image_count, channels, pixel_count, groups, eps
        )

        @cache  # weight and bias need the same sums
        def sum_over_pixels(
            output_gradient: Float[Tensor, "rows batch channels ..."],
        ) -> Float[Tensor, "images channels"]:
            """Sums d over the pixels of each channel."""
            d = output_gradient.reshape(image_count, channels, pixel_count)
            return d.sum(dim=2)

        def parameter_gradient(
            output_gradient: Float[Tensor, "rows batch channels ..."], role: str
        ) -> Float[Tensor, "rows channels"]:
            """Sums d for the bias, d · (x − mean) / std for the weight, over pixels.

            The latter is (Σ d·x − mean · Σ d) / std, as a mean is of a whole group.
            """
            sums = sum_over_pixels(output_gradient)
            if role == "weight":
                products = torch.einsum(
                    "rcs,rcs->rc",
                    output_gradient.reshape(image_count, channels, pixel_count),
                    images.reshape(image_count, channels, pixel_count),
                )
                channels_per_group = channels // groups
                channel_mean = mean.repeat_interleave(channels_per_group, dim=1)
                channel_inverse_std = inverse_std.repeat_interleave(
                    channels_per_group, dim=1
                )
                per_image = (products - channel_mean * sums) * channel_inverse_std
            else:
                per_image = sums
            total: Tensor = per_image.reshape(len(block), -1, channels).sum(dim=1)
            return total

        return LayerCall(
            names=names,
            output=output.reshape(block.shape),
            parameter_gradient=parameter_gradient,
        )

    return run_group_norm
