"""The record model that is a set of public records with weights: drawing is choosing among them, the heavy ones often.

What is handed out are public records themselves. Only how often each one comes says anything of private records, and
the weights follow from what was released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from noisegate.models.record_model import Array
from noisegate.models.weights import systematic_sample, weight_summary
from noisegate.records import Images, Rows
from noisegate.schema import Region, Schema

if TYPE_CHECKING:
    import torch

# References looked at at once, to tell which lie in a region.
_AT_ONCE = 2048


def tensors_of(records: Rows) -> dict[str, Array]:
    """Returns records as safetensors keep them: intensities of images as bytes, (records, pixels), and codes."""
    images = records.pixels.reshape(len(records), -1) if isinstance(records, Images) else None
    return {"numeric": records.numeric if images is None else images, "codes": records.codes}


def records_from(schema: Schema, tensors: Mapping[str, Array]) -> Rows:
    """Returns the records that `tensors_of` wrote.

    Raises:
        KeyError, ValueError: if there are none, or they do not fit the schema.
    """
    layout, numeric, codes = schema.layout, tensors["numeric"], tensors["codes"]
    shapes = (len(numeric), len(layout.numeric)), (len(numeric), len(layout.coded))
    if (numeric.shape, codes.shape) != shapes or not len(numeric):
        raise ValueError(f"records of shapes {numeric.shape} and {codes.shape} do not fit the schema")
    if numeric.dtype != (np.float64 if schema.images is None else np.uint8) or codes.dtype != np.int32:
        raise ValueError(f"records of types {numeric.dtype} and {codes.dtype}")
    if ((codes < 0) | (codes >= [column.size for column in layout.coded])).any():
        raise ValueError("a code stands for no level of its column")
    if schema.images is not None:
        return Images(numeric.reshape(-1, *schema.images.shape.axes), codes[:, 0] if layout.coded else None)
    absent = np.isnan(numeric)
    if (absent.any(axis=0) & ~np.array([column.missing for column in layout.numeric], dtype=bool)).any():
        raise ValueError("a value is missing where the schema allows none")
    if not (absent | ((numeric >= 0) & (numeric <= 1))).all():
        raise ValueError("a number lies outside of the bounds of its column")
    return Rows(numeric, codes)


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedReference:
    """Public records, drawn by weight.

    Attributes:
        records: The public reference set, at least one record.
        weights: Nonnegative, with a positive sum: (1, records), where each record has the label that it came with, or
            (labels, records), where each may be drawn with every label.
        label: Place of the label among the coded columns; needed where there are several rows of weights.
    """

    records: Rows
    weights: npt.NDArray[np.float64]
    label: int | None

    kind: ClassVar[str] = "weighted-reference"

    def draw(self, rows: int, random: torch.Generator) -> Rows:
        """Returns `rows` records in random order: each as often as its share of the weights says, rounded up or down.

        Args:
            rows: Number of records.
            random: Public randomness, on the CPU.
        """
        labels, places = np.divmod(systematic_sample(self.weights.reshape(-1), rows, random), len(self.records))
        return self._labelled(places, labels)

    def probability(self, region: Region) -> float:
        """Returns the share of the weights whose records lie in `region`."""
        return float(self._within(region).sum() / self.weights.sum())

    def given(self, region: Region) -> WeightedReference:
        """Returns the records in `region`, with their weights; the sum of these must be positive."""
        weights = self._within(region)
        held = np.flatnonzero(weights.any(axis=0))
        return WeightedReference(
            records=self.records.rows(held), weights=np.ascontiguousarray(weights[:, held]), label=self.label
        )

    def tensors(self) -> dict[str, Array]:
        """Returns the public records and their weights."""
        return {**tensors_of(self.records), "weights": self.weights}

    def to_json(self) -> dict[str, Any]:
        """Returns the size of the set, and what it weighs."""
        return {"records": len(self.records), **weight_summary(self.weights)}

    @classmethod
    def from_saved(cls, schema: Schema, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> Self:
        """Returns the set that `tensors` and `to_json` describe.

        Raises:
            KeyError, TypeError, ValueError: if they describe none, or one that does not fit the schema.
        """
        records, weights, label = records_from(schema, tensors), tensors["weights"], schema.layout.label
        labels = {1} if label is None else {1, schema.layout.coded[label].size}
        if weights.ndim != 2 or weights.shape[0] not in labels or weights.shape[1] != len(records):
            raise ValueError(f"weights of shape {weights.shape} for {len(records)} records")
        if description["records"] != len(records):
            raise ValueError(f"{len(records)} records in place of {description['records']}")
        if not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
            raise ValueError("weights must be finite numbers, none below 0 and one above")
        return cls(records=records, weights=weights.astype(np.float64), label=label)

    def _labelled(self, places: npt.NDArray[np.intp], labels: npt.NDArray[np.intp]) -> Rows:
        """Returns the records at some places, with labels in place of their own where every label has weights."""
        records = self.records.rows(places)
        if len(self.weights) > 1:
            assert self.label is not None
            # Picked by a list of places, so this is a copy.
            records.codes[:, self.label] = labels
        return records

    def _within(self, region: Region) -> npt.NDArray[np.float64]:
        """Returns the weights, with zero for what does not lie in `region`."""
        weights, total = self.weights.copy(), len(self.records)
        for label in range(len(weights)):
            for start in range(0, total, _AT_ONCE):
                places = np.arange(start, min(start + _AT_ONCE, total))
                inside = region.contains(self._labelled(places, np.full(len(places), label)))
                weights[label, places[~inside]] = 0.0
        return weights
