"""Weights of public references: from a discriminator, what they rest on, and how to draw by them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.schema import Schema
from noisegate.seeds import permutation, uniform

if TYPE_CHECKING:
    import torch

    from noisegate.networks.discriminator import Discriminator

Weights = npt.NDArray[np.float64]

LEAST_EFFECTIVE = 0.01
"""Part of the references below which a warning says that the weights rest on few of them."""

_ROWS = 4096


def density_ratios(
    discriminator: Discriminator,
    vectors: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int64] | None,
    *,
    most: float,
) -> Weights:
    """Returns the weight of each reference, in proportion to w = D/(1 − D) = exp(s).

    Scores s are cut at log `most`, so that no weight is infinite however sure the discriminator is; that is a rule
    known beforehand. What is returned is divided by the largest weight, which drawing does not notice.

    Args:
        discriminator: On the CPU.
        vectors: Features of the references, (references, features).
        labels: Their labels, (references,); None where they have none.
        most: The largest w.

    Returns:
        (labels, references), or (1, references) where references have labels of their own, or there are none.
    """
    import torch

    parts = []
    with torch.no_grad():
        for start in range(0, len(vectors), _ROWS):
            rows = slice(start, start + _ROWS)
            own = None if labels is None else torch.from_numpy(labels[rows])
            parts.append(discriminator.label_scores(torch.from_numpy(vectors[rows]), own))
    scores = np.minimum(torch.cat(parts, dim=1).numpy().astype(np.float64), math.log(most))
    weights: Weights = np.exp(scores - scores.max())
    return weights


def weight_notes(weights: Weights, schema: Schema, labels: npt.NDArray[np.int64] | None) -> dict[str, Any]:
    """Returns what a report says of weights: on how many references they rest, in all and for each label.

    Args:
        weights: (labels or 1, references).
        schema: Of the records.
        labels: Of the references, (references,); None where they have none.
    """
    found, references = weight_summary(weights), weights.shape[1]
    notes: dict[str, Any] = {
        "references": references,
        "effective_references": found["effective"],
        "largest_share": found["largest_share"],
    }
    warnings = []
    if found["effective"] < LEAST_EFFECTIVE * references:
        warnings.append(
            f"The weights rest on few public records: {found['effective']:.0f} of {references:,} count, so that few "
            "different ones are drawn, again and again. Give public records that are more like the private ones, or "
            "a larger epsilon."
        )
    if by_label := _by_label(weights, labels, schema):
        notes["effective_by_label"] = by_label
        if absent := [label for label, effective in by_label.items() if not effective]:
            warnings.append(
                f"No public record has the label {', '.join(absent)}, so none is drawn with it; with "
                "public_labels=false every public record may be drawn with every label."
            )
    return notes | ({"warning": " ".join(warnings)} if warnings else {})


def _by_label(weights: Weights, labels: npt.NDArray[np.int64] | None, schema: Schema) -> dict[str, float]:
    """Returns the effective number of references of each label, 0 where there is none; nothing without labels."""
    layout = schema.layout
    if layout.label is None:
        return {}
    column = layout.coded[layout.label]
    names = [*map(str, column.levels), *(["missing"] * (column.size - len(column.levels)))]
    each = weights if labels is None else [np.where(labels == code, weights[0], 0.0) for code in range(column.size)]
    return {name: effective_size(row) if row.any() else 0.0 for name, row in zip(names, each, strict=True)}


def effective_size(weights: Weights) -> float:
    """Returns the effective sample size of weights, (Σw)² / Σw²: the number of references, if all weigh the same.

    It is how many draws from the weighted distribution itself would estimate a mean about as well (Kish, 1965).

    Args:
        weights: (references,), nonnegative with a positive sum.
    """
    shares = weights / weights.sum()
    return float(1 / np.square(shares).sum())


def weight_summary(weights: Weights) -> dict[str, float]:
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


def systematic_sample(weights: Weights, rows: int, random: torch.Generator) -> npt.NDArray[np.intp]:
    """Returns `rows` places in random order, each as often as its share of the weights says, rounded up or down.

    One uniform shift of an even comb on the cumulated weights. Each place alone is a draw by
    weight, and fewer references are drawn twice than in independent draws.

    Args:
        weights: (places,), nonnegative with a positive sum.
        rows: How many.
        random: Public randomness, on the CPU.
    """
    ends = np.cumsum(weights)
    shift = float(uniform(random, 1)[0])
    comb = (np.arange(rows) + shift) / max(rows, 1) * ends[-1]
    # The last tooth may meet the end by rounding; a place of weight 0 is never met from the right.
    places = np.minimum(np.searchsorted(ends, comb, side="right"), np.flatnonzero(weights)[-1])
    shuffled: npt.NDArray[np.intp] = places[permutation(random, rows)]
    return shuffled
