"""What a method says of its model: the loss of one record. The gate takes gradients of it, record by record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from noisegate.errors import OptionError

if TYPE_CHECKING:
    from torch import Tensor, nn


class RecordLoss(Protocol):
    """The loss of one record. It draws no randomness and knows no other record."""

    def __call__(self, parameters: Mapping[str, Tensor], numeric: Tensor, codes: Tensor, /) -> Tensor:
        """Returns the loss, a scalar.

        Args:
            parameters: The parameters of the step.
            numeric: (numeric columns,), float32, positions in [0, 1], NaN where missing.
            codes: (coded columns,), int64.
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

    def loss(parameters: Mapping[str, Tensor], numeric: Tensor, codes: Tensor, /) -> Tensor:
        def run(batch: Tensor) -> Tensor:
            output: Tensor = functional_call(module, {**parameters, **buffers}, (batch,))
            return output

        return criterion(run, numeric, codes)

    return loss


def _check_layers(module: nn.Module) -> None:
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.modules.dropout import _DropoutNd
    from torch.nn.modules.instancenorm import _InstanceNorm

    for name, layer in module.named_modules():
        kind = type(layer).__name__
        # Kept statistics are private; in evaluation mode they are frozen, and as public as the module.
        if layer.training and (
            isinstance(layer, _BatchNorm) or (isinstance(layer, _InstanceNorm) and layer.track_running_stats)
        ):
            raise OptionError(
                f"layer {name!r} is {kind}, which computes statistics over the batch, so that a record's gradient "
                "would depend on its neighbours. Use GroupNorm or LayerNorm, or freeze it by module.eval()."
            )
        if layer.training and isinstance(layer, _DropoutNd) and layer.p > 0:
            raise OptionError(
                f"layer {name!r} is {kind}, which draws randomness, so that a record's gradient is no function of the "
                "record. Take it out, or use module.eval()."
            )
