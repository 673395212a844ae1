"""Losses of one record that several methods take gradients of; the gate differentiates them, record by record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from noisegate.models.classifier_inputs import Inputs
from noisegate.schema import Schema

if TYPE_CHECKING:
    from torch import Tensor, nn

    from noisegate.gate.per_example.losses import RecordLoss
    from noisegate.networks.discriminator import Discriminator

RowInputs = Callable[["Tensor", "Tensor"], "Tensor"]
"""From one record's numeric columns and codes to what a network takes, without a batch axis."""


def scaled_inputs(inputs: Inputs, schema: Schema) -> RowInputs:
    """Returns the inputs of a record, less its label, over their scale: entries of size 1."""
    others = [j for j in range(len(schema.layout.coded)) if j != schema.layout.label]
    return lambda numeric, codes: inputs(numeric, codes[..., others]) / inputs.scale


def cross_entropy(scores: Tensor, label: Tensor) -> Tensor:
    """Returns −log softmax(scores) at a label, a scalar: `scores` (classes,), `label` a code."""
    import torch

    wanted = torch.arange(len(scores), device=scores.device) == label
    return torch.logsumexp(scores, dim=0) - torch.where(wanted, scores, 0.0).sum()


def label_loss(network: nn.Module, inputs: RowInputs, label: int) -> RecordLoss:
    """Returns the cross-entropy of a record's label, by a classifier."""
    from noisegate.gate.per_example.losses import module_loss

    def criterion(run: Callable[[Tensor], Tensor], numeric: Tensor, codes: Tensor) -> Tensor:
        return cross_entropy(run(inputs(numeric, codes)[None])[0], codes[label])

    return module_loss(network, criterion)


def real_loss(discriminator: Discriminator, inputs: RowInputs, schema: Schema) -> RecordLoss:
    """Returns −log D of a real record, beside its label as a one-hot code if it has one."""
    import torch
    from torch.nn.functional import softplus

    from noisegate.gate.per_example.losses import module_loss

    label = schema.layout.label

    def criterion(run: Callable[[Tensor], Tensor], numeric: Tensor, codes: Tensor) -> Tensor:
        parts = [inputs(numeric, codes)]
        if label is not None:
            parts.append((torch.arange(discriminator.classes, device=codes.device) == codes[label]).to(numeric.dtype))
        return softplus(-run(torch.cat(parts)[None]))[0]

    return module_loss(discriminator, criterion)


def classes_of(schema: Schema) -> int:
    """Returns how many codes the label has; 0 without one."""
    layout = schema.layout
    return 0 if layout.label is None else layout.coded[layout.label].size
