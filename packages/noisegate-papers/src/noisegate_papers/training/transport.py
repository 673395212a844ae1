"""Entropic optimal transport between generated and real records: Cuturi (NeurIPS 2013), https://arxiv.org/abs/1306.0895.

The gradient of the transport cost takes Sinkhorn's plan as it is (the envelope theorem).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

Labelled: TypeAlias = tuple[Tensor, Tensor]
"""Records, (records, inputs), and their labels, (records,) int64."""

_MIN_SHARE = 1e-9
"""Weight of a real record whose label no generated record has: its logarithm must be finite."""


def transport_gradient(
    generated: Labelled,
    real: Labelled,
    *,
    first: int,
    label_cost: float,
    regularisation: float,
    iterations: int,
) -> Float[Tensor, "records inputs"]:
    """Computes the gradient of the semi-debiased loss 2·W(X₁, Y) − W(X₁, X₂) at generated records.

    X₁ are the first records that are generated and X₂ as many of the last; Y are real ones.

    Args:
        generated: The generated records with their labels.
        real: Any number of real records; without any there is no pull at all.
        first: Number of records in X₁.
        label_cost: Cost between records of different labels, beside the sum over inputs, for each input.
        regularisation: Of the transport, in units of the cost.
        iterations: Of Sinkhorn's algorithm.

    Returns:
        The gradient, (records, inputs).
    """
    if not len(real[0]):
        return torch.zeros_like(generated[0])
    records = generated[0].detach().requires_grad_()
    labels = generated[1]
    sources = (records[:first], labels[:first])

    def transport_cost(targets: Labelled) -> Float[Tensor, ""]:
        return _mean_transport_cost(
            sources,
            targets,
            label_cost=label_cost * records.shape[1],
            regularisation=regularisation,
            iterations=iterations,
        )

    to_real = transport_cost(real)
    to_generated = transport_cost((records[-first:], labels[-first:]))
    return torch.autograd.grad(2 * to_real - to_generated, records)[0]


def _mean_transport_cost(
    sources: Labelled,
    targets: Labelled,
    *,
    label_cost: float,
    regularisation: float,
    iterations: int,
) -> Float[Tensor, ""]:
    """Returns the cost of the transport to targets, the mean over parts of them about as many as there are sources.

    The bias of the cost depends on how many targets there are, and that of the second
    term of the loss must take off that of the first.

    Args:
        sources: Records X₁ with their labels.
        targets: The others.
        label_cost: Cost between records of different labels.
        regularisation: Of the transport, in units of the cost.
        iterations: Of Sinkhorn's algorithm.
    """
    records, labels = sources
    target_records, target_labels = targets
    target_count = len(target_records)
    part_count = max(round(target_count / len(records)), 1)
    part_size = math.ceil(target_count / part_count)
    # Targets are dealt out to the parts in turn; places beyond the last are empty.
    places = torch.arange(part_size * part_count).reshape(-1, part_count).T
    is_filled = places < target_count
    indices = places.clamp_max(target_count - 1)
    part_records = target_records[indices]  # (parts, part size, inputs)
    part_labels = target_labels[indices]
    has_same_label = labels[:, None] == part_labels[:, None]
    is_match = has_same_label & is_filled[:, None]  # (parts, sources, part size)

    squared_distances = (
        records.square().sum(dim=1)[:, None]
        - 2 * records @ part_records.mT
        + part_records.square().sum(dim=2)[:, None]
    )
    absolute_distances = torch.cdist(
        records.expand(part_count, -1, -1), part_records, p=1
    )
    cost = squared_distances + absolute_distances + label_cost * ~is_match

    # Targets of a label weigh together what the sources of it do, whose shares are
    # public; targets of a label that no source has weigh next to nothing.
    match_counts = is_match.sum(dim=2, keepdim=True).clamp_min(1)
    shares = (is_match / match_counts).sum(dim=1) + _MIN_SHARE * is_filled
    shares = shares / shares.sum(dim=1, keepdim=True)
    plan = transport_plan(cost.detach(), shares, regularisation, iterations)
    has_match = is_match.any(dim=2, keepdim=True)
    return (plan * cost * has_match).sum() / part_count


def transport_plan(
    cost: Float[Tensor, "*parts rows columns"],
    column_shares: Float[Tensor, "*parts columns"],
    regularisation: float,
    iterations: int,
) -> Float[Tensor, "*parts rows columns"]:
    """Computes Sinkhorn's plan between rows of equal weights and columns.

    Args:
        cost: Cost between each row and each column.
        column_shares: Weights of the columns, which sum to 1.
        regularisation: The one that is reached; it falls from the largest cost by
            halves, for few iterations to reach a small one.
        iterations: Updates of both potentials.

    Returns:
        What is moved from each row to each column; all of it sums to 1.
    """
    row_count = cost.shape[-2]
    log_shares = column_shares[..., None, :].log()
    column_potentials = torch.zeros_like(cost[..., :1, :])
    blur = float(cost.max())
    for _ in range(iterations):
        blur = max(blur / 2, regularisation)
        row_potentials = -blur * torch.logsumexp(
            (column_potentials - cost) / blur + log_shares, dim=-1, keepdim=True
        )
        column_potentials = blur * (
            math.log(row_count)
            - torch.logsumexp((row_potentials - cost) / blur, dim=-2, keepdim=True)
        )
    logits = (column_potentials - cost) / blur + log_shares
    return logits.softmax(dim=-1) / row_count
