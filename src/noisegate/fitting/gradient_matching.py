"""How far two gradients of a network point apart, and how the records behind one of them would bring them together.

The distance is that of dataset condensation (Zhao, Mopuri, Bilen, ICLR 2021), which PSG uses (Chen, Kerkouche, Fritz,
NeurIPS 2022, Equation 7): for each weight with two or more dimensions, the sum over its output rows of 1 − cos. Biases
and the shifts and scales of normalisations are left out. No length matters, so sums of gradients do as well as means.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

AT_ONCE = 128
"""Records whose second derivatives are held at once: some hundred megabytes for small images at 128 channels."""

_TINY = 1e-12


def row_distance(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> Tensor:
    """Returns the sum over weights and their output rows of 1 − cos, a scalar.

    Args:
        found: Gradients, of two or more dimensions each, outputs first.
        wanted: Gradients of the same shapes; others are not looked at.
    """
    total = torch.zeros(())
    for name, gradient in found.items():
        mine, theirs = gradient.flatten(1), wanted[name].flatten(1)
        lengths = (mine.square().sum(1) * theirs.square().sum(1) + _TINY**2).sqrt()
        total = total.to(mine) + (1 - (mine * theirs).sum(1) / lengths).sum()
    return total


def matching_slopes(
    network: nn.Module, inputs: Tensor, labels: Tensor, wanted: Mapping[str, Tensor]
) -> tuple[float, Tensor]:
    """Returns the distance of the mean loss's gradient from a wanted one, and its slope at each input.

    Memory does not grow with the number of records: the slope of the distance at the gradient is found first, then the
    gradient of each block of records is pulled along it.

    Args:
        network: From inputs to logits; it treats records alone.
        inputs: (records, …).
        labels: (records,) int64.
        wanted: Gradient by name of the network's parameters.

    Returns:
        The distance, and the slopes, of the shape of `inputs`.
    """
    weights = {name: value for name, value in network.named_parameters() if value.dim() > 1}
    if len(inputs) <= AT_ONCE:
        points = inputs.detach().requires_grad_()
        distance = row_distance(_gradient(network, points, labels, len(inputs), weights, graph=True), wanted)
        (slopes,) = torch.autograd.grad(distance, points)
        return float(distance.detach()), slopes
    blocks = list(zip(torch.split(inputs, AT_ONCE), torch.split(labels, AT_ONCE), strict=True))
    parts = [_gradient(network, part, coded, len(inputs), weights, graph=False) for part, coded in blocks]
    whole = {name: sum((part[name] for part in parts[1:]), parts[0][name]).requires_grad_() for name in weights}
    distance = row_distance(whole, wanted)
    pull = torch.autograd.grad(distance, list(whole.values()))
    found = []
    for part, coded in blocks:
        points = part.detach().requires_grad_()
        own = _gradient(network, points, coded, len(inputs), weights, graph=True)
        found.append(torch.autograd.grad(list(own.values()), points, pull)[0])
    return float(distance.detach()), torch.cat(found)


def _gradient(
    network: nn.Module, inputs: Tensor, labels: Tensor, records: int, weights: Mapping[str, Tensor], *, graph: bool
) -> dict[str, Tensor]:
    """Returns what these records add to the gradient of the mean loss over `records`."""
    loss = cross_entropy(network(inputs), labels, reduction="sum") / records
    gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=graph)
    return dict(zip(weights, gradients, strict=True))
