"""Per-example gradients of a block of records at once, almost as fast as their sum.

A loss is mapped over the records of a block (`torch.func.vmap`), and one backward pass
goes through the sum of the losses. Every record has its own copy of each parameter, a
view that takes no memory. The gradient with respect to a record's copy is the gradient
at that record.

Layers are traced, which is faster still. Where a loss calls `linear`, `conv2d` or
`group_norm` with a parameter, the layer is run once for the whole block, with the
shared parameter, as it would be without privacy. The gradients of its parameters are
computed from its input x and the gradient d of the loss at its output, as a sum over
positions (pixels, or steps of a sequence):

============  ====================================
layer         gradient of the weight at one record
============  ====================================
`linear`      Σ d ⊗ x
`conv2d`      Σ d ⊗ x, with x a patch of the image
`group_norm`  Σ d · (x − mean) / std
============  ====================================

The gradient of a bias is Σ d.

For privacy only one thing matters here: that records are not mixed. The gate probes
that. A loss whose traced gradients are wrong (`is_traceable`) is left to
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
    """The gradients at the records of a block. A parameter is in one of the two."""

    products: dict[str, tuple[Tensor, Tensor]]
    """By name of the parameter, two factors whose outer product is the gradient at each
    record: the inputs of a layer, (rows, inputs), and the gradients at its outputs,
    (rows, outputs). Such parameters are weights of layers that are called once."""
    plain: dict[str, Tensor]
    """By name of the parameter, the gradient at each record, (rows, …)."""


def per_example_gradients(
    loss: Loss,
    parameters: Parameters,
    numeric: Float[Tensor, "rows numeric"],
    codes: Shaped[Tensor, "rows coded"],
    *,
    traced: bool = True,
) -> BlockGradients:
    """Computes the gradient of a loss at each record of a block.

    Every record has its own copy of each parameter, a view without memory of its own,
    and one backward pass through the sum of the losses gives the gradients of all
    copies. A layer that is called with a parameter is traced: it is run once for the
    whole block, and the gradients of its parameters follow from its inputs and from the
    gradients at its outputs.

    Args:
        loss: The loss of one record.
        parameters: Parameters with respect to which gradients are taken, by name.
        numeric: Numeric columns of the block.
        codes: Coded columns of the block.
        traced: Whether layers are traced; without that, all gradients are those of the
            copies, which `is_traceable` compares with.
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
        """Returns the loss of one record; adds the calls of its layers to `calls`.

        Torch calls it once for all records, with stand-ins for the tensors of one.
        """
        if not traced:
            return loss(record_parameters, record_numeric, record_codes)
        with _layer_tracer_class()(record_parameters, parameters, calls):
            return loss(record_parameters, record_numeric, record_codes)

    losses = vmap(loss_of_record, randomness="error")(copies, numeric, codes)
    # A record's copies, and its rows of the outputs, are in its own loss alone. So the
    # gradient of the sum has in each row the gradient of that record's loss. It is None
    # for what the loss does not use.
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
    """One use of a parameter in the loss: in one role of one call of a traced layer."""

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
    """Adds up, for each parameter, the gradients of all its uses in the loss.

    A parameter may be used by several calls of traced layers, and also outside of such
    layers, through the records' copies. Its gradient is the sum over all of these uses.
    If the only use is as a weight that is applied once to each record, the gradient is
    an outer product, and is kept as its two factors.

    Args:
        calls: The calls of layers that were traced.
        output_gradients: Gradients of the loss at the outputs of these layers; None
            where the loss does not use an output.
        copy_gradients: Gradients at the records' copies of each parameter, where it was
            used outside of traced layers; None where it was not.
        copies: The records' copies of each parameter, (rows, …).

    Returns:
        Two factors for weights with one such use; the gradients of all other
        parameters, zero for those that the loss does not use.
    """
    import torch

    uses_by_name: dict[str, list[_Use]] = {name: [] for name in copies}
    for call, output_gradient in zip(calls, output_gradients, strict=True):
        if output_gradient is not None:
            for role, name in call.names.items():
                use = _Use(call=call, role=role, output_gradient=output_gradient)
                uses_by_name[name].append(use)

    products: dict[str, tuple[Tensor, Tensor]] = {}
    plain: dict[str, Tensor] = {}
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
            plain[name] = sum(gradients[1:], start=gradients[0])
        else:
            plain[name] = torch.zeros_like(copy)
    return BlockGradients(products=products, plain=plain)


def untraced_gradients(
    loss: Loss,
    parameters: Parameters,
    numeric: Float[Tensor, "rows numeric"],
    codes: Int64[Tensor, "rows coded"],
) -> BlockGradients:
    """Computes the gradient of any loss at each record of a block, by torch alone.

    It is slower than `per_example_gradients`, and right for losses that cannot be
    traced.

    Args:
        loss: The loss of one record.
        parameters: Parameters with respect to which gradients are taken, by name.
        numeric: Numeric columns of the block.
        codes: Coded columns of the block.
    """
    from torch.func import grad, vmap

    gradients_of_records = vmap(grad(loss), in_dims=(None, 0, 0), randomness="error")
    return BlockGradients(
        products={}, plain=gradients_of_records(dict(parameters), numeric, codes)
    )


# `is_traceable` compares at parameters that are moved by noise of this seed and size,
# as zeros would hide what they multiply.
_COMPARED_SEED = 0
_COMPARED_STD = 0.1
# Two ways to compute a gradient agree if they differ by at most this part of its
# largest entry, plus that part of the largest entry over all parameters.
_MAX_RELATIVE_DIFFERENCE = 1e-3
_MAX_ROUNDING = 1e-5


def is_traceable(
    loss: Loss,
    parameters: Parameters,
    numeric: Float[Tensor, "rows numeric"],
    codes: Int64[Tensor, "rows coded"],
) -> bool:
    """Returns whether the traced gradients of a loss are right.

    They are compared with those of the records' copies of the parameters, at two
    simulated records and near the given parameters. No value of a record is used, so
    the result is public. A wrong result would harm the training, not privacy: both ways
    treat each record by itself, which the gate probes.

    Args:
        loss: The loss of one record.
        parameters: The parameters, by name.
        numeric: Numeric columns of a block; only their shape and type are used.
        codes: Coded columns of a block; only their shape and type are used.

    Returns:
        Whether they agree up to rounding. False also where tracing fails, as for a loss
        that takes a gradient itself.
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
        ).plain
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
    gradients |= traced.plain
    # Of a gradient that is zero but for rounding, such as that of a bias before a
    # normalisation, even the largest entry is rounding. So some absolute difference is
    # allowed too.
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
    """One call of a traced layer, which was run once for all records of a block."""

    names: Mapping[str, str]
    """Name of the parameter in each role, "weight" and "bias"."""
    output: Tensor
    """What the layer returned, (rows, …); part of the graph of the losses."""
    parameter_gradient: Callable[[Tensor, str], Tensor]
    """Computes the gradient at each record, (rows, …), with respect to the parameter in
    a role: from the gradient of the losses at the output, (rows, …), and the role."""
    inputs: Tensor | None = None
    """The inputs of the layer, (rows, inputs), if the gradient of its weight at a
    record is the outer product of the gradient at the output and these inputs; else
    None."""


Arguments: TypeAlias = Mapping[str, Any]
"""Arguments of a call of a layer, by name."""
NamesByRole: TypeAlias = Mapping[str, str]
"""Name of the parameter in each role, "weight" and "bias"."""
LayerRunner: TypeAlias = Callable[["Tensor"], LayerCall]
"""Runs a layer on the inputs of a whole block, with the shared parameters."""


@dataclass(frozen=True)
class _LayerKind:
    """A function of torch whose calls are traced."""

    read_call: Callable[..., LayerRunner | None]
    """Reads a call: from its arguments, the names of its parameters by role, and the
    shared parameters as keyword arguments by role, to a function that runs the layer on
    a whole block. It returns None for a call that is left to torch."""
    argument_names: tuple[str, ...]
    """Names of the positional arguments, in order."""


@cache
def _layer_tracer_class() -> Any:
    """Returns the class of the context manager that traces layers.

    While it is entered, it catches every call of a function of torch. A call of a layer
    with parameters is run on the whole block; any other call continues as usual.

    The class is defined in the first call of this function, since its base classes are
    torch's, which is slow to import.
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
        """Runs a layer once for the whole block, although the loss sees one record.

        The loss is mapped over records by `torch.vmap`. For a function of this class,
        torch then calls its method `vmap` once, with the inputs of all records.
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
            """Runs the layer on the inputs of all records.

            Args:
                info: Facts of torch about the map; not used.
                in_dims: For each of the two following arguments, which of its axes is
                    that of records; None for the function.
                run_layer: Runs the layer on a block, with the axis of records first.
                inputs: Inputs of all records.

            Returns:
                The outputs of the layer, and 0, their axis of records.
            """
            return run_layer(inputs.movedim(in_dims[1], 0)), 0

    class LayerTracer(TorchFunctionMode):
        """Runs layers on whole blocks and lists their calls, while it is entered.

        Args:
            record_parameters: One record's copies of the parameters, by name, as the
                loss gets them inside the map over records.
            shared_parameters: The parameters that all records share, by name.
            calls: The list to which the calls of layers are added.
        """

        def __init__(
            self,
            record_parameters: Parameters,
            shared_parameters: Parameters,
            calls: list[LayerCall],
        ) -> None:
            super().__init__()
            # A loss passes the copies on to layers, where they are recognised by
            # identity.
            self._names_by_id = {
                id(value): name for name, value in record_parameters.items()
            }
            self._shared_parameters = shared_parameters
            self._calls = calls

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            """Runs one call of torch: a layer on the whole block, all else as usual.

            Args:
                func: The function of torch that was called.
                types: Types of the arguments; not used.
                args: Positional arguments of the call.
                kwargs: Keyword arguments of the call.
            """
            options = kwargs or {}
            kind = layer_kinds.get(func)
            if kind is None:
                return func(*args, **options)
            arguments = dict(zip(kind.argument_names, args, strict=False)) | options
            run_layer = self._layer_runner(kind, arguments)
            if run_layer is None:
                return func(*args, **options)

            def run_and_list(
                block: Float[Tensor, "rows ..."],
            ) -> Float[Tensor, "rows ..."]:
                """Returns the outputs of the layer, and adds its call to the list."""
                call = run_layer(block)
                # The gradient at the output is asked for, also where nothing before
                # this layer has parameters.
                call.output.requires_grad_()
                self._calls.append(call)
                return call.output

            return OnWholeBlock.apply(run_and_list, arguments["input"])

        def _layer_runner(
            self, kind: _LayerKind, arguments: Arguments
        ) -> LayerRunner | None:
            """Returns a function that runs a layer with the shared parameters.

            Args:
                kind: Which function of torch was called.
                arguments: Its arguments by name. A parameter is among them as one
                    record's copy.

            Returns:
                The function; None for a call that is left to torch, as its weight is
                none of the parameters of the loss, or its bias is not.
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
    """Reads a call of ``linear``: outputs = weight @ inputs + bias, at each position.

    A layer of a perceptron has one position; a layer on a sequence has one for each
    step of it. With the input x and the gradient d of the loss at the output, the
    gradient of the weight is Σ d ⊗ x over positions, that of the bias Σ d.

    Args:
        names: Name of the parameter in each role.
        weight: The shared weight.
        bias: The shared bias; None without one.

    Returns:
        A function that runs the layer on a whole block.
    """
    import torch

    def run_linear(block: Float[Tensor, "rows ... inputs"]) -> LayerCall:
        """Runs the layer on all records of a block."""
        inputs = block.reshape(len(block), -1, block.shape[-1])
        position_count = inputs.shape[1]

        def parameter_gradient(
            output_gradient: Float[Tensor, "rows ... outputs"], role: str
        ) -> Float[Tensor, "rows outputs ..."]:
            """Computes the gradient of weight or bias, Σ d ⊗ x or Σ d by position."""
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

    With a patch x and the gradient d of the loss at its output, the gradient of the
    weight is Σ d ⊗ x over patches, that of the bias Σ d. In shapes, c and c2 are the
    channels of inputs and outputs, h and w the height and width of an image, kh and kw
    those of a patch, h2 and w2 those of an output.

    Args:
        arguments: Arguments of the call, by name.
        names: Name of the parameter in each role.
        weight: The shared weight.
        bias: The shared bias; None without one.

    Returns:
        A function that runs the layer on a whole block; None for a call that is left to
        torch: one with several groups of channels, or with padding given by a word.
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
            """Computes the gradient of weight or bias: Σ d ⊗ x or Σ d over patches."""
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

    Each group of channels is centred and divided by its standard deviation; then each
    channel is multiplied by its weight, and its bias is added. With a pixel x and the
    gradient d of the loss at its output, the gradient of the weight is
    Σ d · (x − mean) / std over the pixels of a channel, that of the bias Σ d.

    Args:
        arguments: Arguments of the call, by name.
        names: Name of the parameter in each role.
        weight: The shared weight, one number for each channel.
        bias: The shared bias, likewise; None without one.

    Returns:
        A function that runs the layer on a whole block.
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
            """Computes the gradient of weight or bias, a sum over pixels.

            Mean and standard deviation are the same for all pixels of a channel. So the
            sum for the weight, Σ d · (x − mean) / std, is (Σ d·x − mean · Σ d) / std.
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
