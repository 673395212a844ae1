"""Weights of public references from a discriminator, and an honest account of what they rest on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.generators.weights import effective_size, pooled
from noisegate.schema import Schema

if TYPE_CHECKING:
    from noisegate.methods.dre.design import Design
    from noisegate.networks.discriminator import Discriminator

LEAST_EFFECTIVE = 0.01
"""Part of the references below which a warning says that the weights rest on few of them."""

_ROWS = 4096


def weights_of(discriminator: Discriminator, design: Design, *, most: float) -> npt.NDArray[np.float64]:
    """Returns the weight of each reference, in proportion to w = D/(1 − D) = exp(s).

    Scores s are cut at log `most`, so that no weight is infinite however sure the discriminator is; that is a rule
    known beforehand. What is returned is divided by the largest weight, which drawing does not notice.

    Args:
        discriminator: On the CPU.
        design: The references.
        most: The largest w.

    Returns:
        (labels, references), or (1, references) where references have labels of their own, or there are none.
    """
    import torch

    from noisegate.methods.dre.training import scores_of

    vectors, parts = torch.from_numpy(design.vectors), []
    labels = None if design.labels is None else torch.from_numpy(design.labels)
    with torch.no_grad():
        for start in range(0, len(vectors), _ROWS):
            rows = slice(start, start + _ROWS)
            parts.append(scores_of(discriminator, vectors[rows], None if labels is None else labels[rows]))
    scores = np.minimum(torch.cat(parts, dim=1).numpy().astype(np.float64), math.log(most))
    weights: npt.NDArray[np.float64] = np.exp(scores - scores.max())
    return weights


def notes_of(weights: npt.NDArray[np.float64], schema: Schema, design: Design) -> dict[str, Any]:
    """Returns what a report says of weights: on how many references they rest, in all and for each label.

    Args:
        weights: (labels or 1, references).
        schema: Of the records.
        design: The references.
    """
    found = pooled(weights)
    references = weights.shape[1]
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
    by_label = _by_label(weights, design.labels, schema)
    if by_label:
        notes["effective_by_label"] = by_label
        absent = [label for label, effective in by_label.items() if not effective]
        if absent:
            warnings.append(
                f"No public record has the label {', '.join(absent)}, so none is drawn with it; with "
                "public_labels=false every public record may be drawn with every label."
            )
    return notes | ({"warning": " ".join(warnings)} if warnings else {})


def _by_label(
    weights: npt.NDArray[np.float64], labels: npt.NDArray[np.int64] | None, schema: Schema
) -> dict[str, float]:
    """Returns the effective number of references of each label, 0 where there is none; nothing without labels."""
    layout = schema.layout
    if layout.label is None:
        return {}
    column = layout.coded[layout.label]
    names = [*map(str, column.levels), *(["missing"] * (column.size - len(column.levels)))]
    each = weights if labels is None else [np.where(labels == code, weights[0], 0.0) for code in range(column.size)]
    sizes = [effective_size(row) if row.any() else 0.0 for row in each]
    return dict(zip(names, sizes, strict=True))
