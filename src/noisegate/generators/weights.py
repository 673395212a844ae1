"""Weights of public references: what they rest on, and how to draw by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

Weights = npt.NDArray[np.float64]


def effective_size(weights: Weights) -> float:
    """Returns the effective sample size of weights, (Σw)² / Σw²: the number of references, if all weigh the same.

    It is how many draws from the weighted distribution itself would estimate a mean about as well (Kish, 1965).

    Args:
        weights: (references,), nonnegative with a positive sum.
    """
    shares = weights / weights.sum()
    return float(1 / np.square(shares).sum())


def pooled(weights: Weights) -> dict[str, float]:
    """Returns what the weights rest on, for reports: those of one reference with all its labels are added up.

    Args:
        weights: (labels, references).

    Returns:
        "effective", the effective sample size in references, and "largest_share", that of the heaviest reference.
    """
    of_references = weights.sum(axis=0)
    return {
        "effective": effective_size(of_references),
        "largest_share": float(of_references.max() / of_references.sum()),
    }


def spread(weights: Weights, rows: int, random: torch.Generator) -> npt.NDArray[np.intp]:
    """Returns `rows` places in random order, each as often as its share of the weights says, rounded up or down.

    Systematic sampling: one uniform shift of an even comb on the cumulated weights. Each place alone is a draw by
    weight, and fewer references are drawn twice than in independent draws.

    Args:
        weights: (places,), nonnegative with a positive sum.
        rows: How many.
        random: Public randomness, on the CPU.
    """
    import torch

    ends = np.cumsum(weights)
    shift = float(torch.rand((), generator=random, dtype=torch.float64))
    comb = (np.arange(rows) + shift) / max(rows, 1) * ends[-1]
    # The last tooth may meet the end by rounding; a place of weight 0 is never met from the right.
    places = np.minimum(np.searchsorted(ends, comb, side="right"), np.flatnonzero(weights)[-1])
    shuffled: npt.NDArray[np.intp] = places[torch.randperm(rows, generator=random).numpy()]
    return shuffled
