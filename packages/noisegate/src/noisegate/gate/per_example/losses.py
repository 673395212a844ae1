"""The loss of one record, as a method states it: of any function, of a network, and of one that is linear first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from noisegate.errors import OptionError
from noisegate.schema import Schema

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Int64, Shaped
    from torch import Tensor, nn


RowInputs = Callable[["Tensor", "Tensor"], "Tensor"]
"""From one record's numeric columns and codes to what a network takes, without a batch axis."""


class RecordLoss(Protocol):
    """The loss of one record. It draws no randomness and knows no other record."""

    def __call__(
        self, parameters: Mapping[str, Tensor], numeric: Float32[Tensor, " numeric"], codes: Int64[Tensor, " coded"], /
    ) -> Float[Tensor, ""]:
        """Returns the loss, a scalar, of the parameters of the step and one record.

        Its numeric columns are (numeric columns,), float32, positions in [0, 1], NaN where missing; its codes are
        (coded columns,), int64.
        """
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
    module: nn.Module, criterion: Callable[[Callable[[Tensor], Tensor], Tensor, Tensor], Tensor]
) -> RecordLoss:
    """Returns the loss of a module whose parameters are ``dict(module.named_parameters())``.

    Args:
        module: A network without layers that mix records or draw randomness.
        criterion: Of a function that runs the module on a batch of one, and one record's numeric and coded columns: the
            loss, a scalar.

    Raises:
        OptionError: if a layer computes over the batch or draws randomness; the message names it.

    Examples:
        >>> import torch
        >>> from noisegate.gate.per_example.losses import module_loss
        >>> model = torch.nn.Linear(2, 1)
        >>> loss = module_loss(model, lambda run, numeric, codes: (run(numeric[:2]) - numeric[2]).square().sum())
        >>> loss(dict(model.named_parameters()), torch.zeros(3), torch.zeros(0)).shape
        torch.Size([])
    """
    from torch.func import functional_call

    _check_layers(module)
    buffers = dict(module.named_buffers())

    def loss(
        parameters: Mapping[str, Tensor], numeric: Float[Tensor, " numeric"], codes: Shaped[Tensor, " coded"], /
    ) -> Float[Tensor, ""]:
        def run(batch: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
            output: Tensor = functional_call(module, {**parameters, **buffers}, (batch,))
            return output

        return criterion(run, numeric, codes)

    return loss


def cross_entropy(scores: Float[Tensor, " classes"], label: Int64[Tensor, ""]) -> Float[Tensor, ""]:
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
        lambda run, numeric, codes: cross_entropy(run(inputs(numeric, codes)[None])[0], codes[label]),
    )


def real_loss(discriminator: nn.Module, inputs: RowInputs, schema: Schema) -> RecordLoss:
    """Returns −log D of a real record, beside its label as a one-hot code if it has one."""
    import torch
    from torch.nn.functional import softplus

    label, classes = schema.layout.label, schema.layout.classes

    def criterion(
        run: Callable[[Tensor], Tensor], numeric: Float[Tensor, " numeric"], codes: Int64[Tensor, " coded"]
    ) -> Float[Tensor, ""]:
        parts = [inputs(numeric, codes)]
        if label is not None:
            parts.append((torch.arange(classes, device=codes.device) == codes[label]).to(numeric.dtype))
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
        if isinstance(layer, _BatchNorm) or (isinstance(layer, _InstanceNorm) and layer.track_running_stats):
            raise OptionError(
                f"layer {name!r} is {kind}, which computes statistics over the batch, so that a record's gradient "
                "would depend on its neighbours. Use GroupNorm or LayerNorm, or freeze it by module.eval()."
            )
        if isinstance(layer, _DropoutNd) and layer.p > 0:
            raise OptionError(
                f"layer {name!r} is {kind}, which draws randomness, so that a record's gradient is no function of the "
                "record. Take it out, or use module.eval()."
            )
