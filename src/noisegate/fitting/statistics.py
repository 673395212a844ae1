"""Batch normalisation of an averaged network."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


def settle(network: nn.Module, batches: Iterable[tuple[Tensor, ...]]) -> None:
    """Gives a network the statistics of its own weights, and leaves it in evaluation mode.

    The running statistics of a network whose weights are averages belong to none of the networks that were averaged;
    they are measured anew, as in stochastic weight averaging (Izmailov et al. 2018, section 3.3). Nothing is taken from
    `batches` when there is nothing to normalise.

    Args:
        network: Changed in place.
        batches: Inputs of the network, each a tuple of its arguments.
    """
    network.eval()
    normalised = [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d)]
    if not normalised:
        return
    for layer in normalised:
        layer.reset_running_stats()
        layer.momentum = None  # the plain average over batches
        layer.train()
    with torch.no_grad():
        for batch in batches:
            network(*batch)
    network.eval()
