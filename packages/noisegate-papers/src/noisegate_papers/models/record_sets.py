"""Record models that are sets of records, made once, or public and weighed: drawing is choosing among them.

Records that were made once (`PointSet`) come each as often as any other. Public ones
(`WeightedReference`) come by weights that follow from what was released: only how often
each one comes says anything of private records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from noisegate.models.record_model import Array
from noisegate.records import Images, Rows
from noisegate.schema import Region, Schema
from noisegate.seeds import permutation, uniform, uniform32

if TYPE_CHECKING:
    import torch


Weights = npt.NDArray[np.float64]

LEAST_EFFECTIVE = 0.01  # part of the references below which a warning says that the weights rest on few of them

_AT_ONCE = 2048  # references examined at once, to tell which lie in a region


@dataclass(frozen=True, kw_only=True, eq=False)
class PointSet:
    """Records that were made once, one at least; no record is ever between two of them. `label` is a coded column."""

    records: Rows
    label: int | None

    kind: ClassVar[str] = "point-set"

    def draw(self, rows: int, random: torch.Generator) -> Rows:
        """Returns `rows` records in random order: copies of the set, and a part with each label's share, rounded."""
        size = len(self.records)
        copies, rest = divmod(rows, size)
        chosen = np.concatenate(
            [np.tile(np.arange(size), copies), self._spread(random)[:rest]]
        )
        return self.records.rows(chosen[permutation(random, rows)])

    def probability(self, region: Region) -> float:
        """Returns the share of the set that lies in `region`."""
        return float(region.contains(self.records).mean())

    def given(self, region: Region) -> PointSet:
        """Returns the records in `region`, of which there is at least one."""
        return PointSet(
            records=self.records.rows(region.contains(self.records)), label=self.label
        )

    def tensors(self) -> dict[str, Array]:
        """Returns the encoded columns."""
        return {"numeric": self.records.numeric, "codes": self.records.codes}

    def to_json(self) -> dict[str, Any]:
        """Returns the size of the set."""
        return {"records": len(self.records)}

    @classmethod
    def from_saved(
        cls,
        schema: Schema,
        tensors: Mapping[str, Array],
        description: Mapping[str, Any],
    ) -> Self:
        """Returns the set that `tensors` and `to_json` describe."""
        numeric, codes = tensors["numeric"], tensors["codes"]
        _check_records(schema, numeric, codes, records=description["records"])
        return cls(records=Rows(numeric, codes), label=schema.layout.label)

    def _spread(self, random: torch.Generator) -> npt.NDArray[np.int64]:
        """Returns all places in an order of which every beginning holds the labels in their shares."""
        size = len(self.records)
        order = permutation(random, size)
        labels = (
            np.zeros(size, np.int64)
            if self.label is None
            else self.records.codes[order, self.label]
        )
        place = np.empty(size)
        for label in np.unique(labels):
            mine = np.flatnonzero(labels == label)
            # One shift for the whole label, so that no label comes first more often than others of its size.
            place[mine] = (np.arange(len(mine)) + float(uniform32(random, 1)[0])) / len(
                mine
            )
        return order[np.argsort(place, kind="stable")]


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedReference:
    """Public records, one at least, drawn by weight."""

    records: Rows
    weights: Weights  # nonnegative, with a positive sum: (1, records) by their own labels, or (labels, records)
    label: (
        int | None
    )  # the coded column of labels that each record may be drawn with, or None

    kind: ClassVar[str] = "weighted-reference"

    def draw(self, rows: int, random: torch.Generator) -> Rows:
        """Returns `rows` records in random order: each as often as its share of the weights says, rounded."""
        labels, places = np.divmod(
            systematic_sample(self.weights.reshape(-1), rows, random), len(self.records)
        )
        return self._labelled(places, labels)

    def probability(self, region: Region) -> float:
        """Returns the share of the weights whose records lie in `region`."""
        return float(self._within(region).sum() / self.weights.sum())

    def given(self, region: Region) -> WeightedReference:
        """Returns the records in `region`, with their weights; the sum of these must be positive."""
        weights = self._within(region)
        held = np.flatnonzero(weights.any(axis=0))
        return WeightedReference(
            records=self.records.rows(held),
            weights=np.ascontiguousarray(weights[:, held]),
            label=self.label,
        )

    def tensors(self) -> dict[str, Array]:
        """Returns the public records and their weights."""
        return {**tensors_of(self.records), "weights": self.weights}

    def to_json(self) -> dict[str, Any]:
        """Returns the size of the set, and what it weighs."""
        return {"records": len(self.records), **weight_summary(self.weights)}

    @classmethod
    def from_saved(
        cls,
        schema: Schema,
        tensors: Mapping[str, Array],
        description: Mapping[str, Any],
    ) -> Self:
        """Returns the set that `tensors` and `to_json` describe."""
        records, weights, label = (
            records_from(schema, tensors),
            tensors["weights"],
            schema.layout.label,
        )
        labels = {1} if label is None else {1, schema.layout.coded[label].size}
        if (
            weights.ndim != 2
            or weights.shape[0] not in labels
            or weights.shape[1] != len(records)
        ):
            raise ValueError(
                f"weights of shape {weights.shape} for {len(records)} records"
            )
        if description["records"] != len(records):
            raise ValueError(
                f"{len(records)} records in place of {description['records']}"
            )
        if (
            not np.isfinite(weights).all()
            or (weights < 0).any()
            or not weights.sum() > 0
        ):
            raise ValueError(
                "weights must be finite numbers, none below 0 and one above"
            )
        return cls(records=records, weights=weights.astype(np.float64), label=label)

    def _labelled(
        self, places: npt.NDArray[np.intp], labels: npt.NDArray[np.intp]
    ) -> Rows:
        """Returns the records at some places, with labels in place of their own where every label has weights."""
        records = self.records.rows(places)
        if len(self.weights) > 1:
            assert self.label is not None
            # Picked by a list of places, so this is a copy.
            records.codes[:, self.label] = labels
        return records

    def _within(self, region: Region) -> Weights:
        weights, total = self.weights.copy(), len(self.records)
        for label in range(len(weights)):
            for start in range(0, total, _AT_ONCE):
                places = np.arange(start, min(start + _AT_ONCE, total))
                inside = region.contains(
                    self._labelled(places, np.full(len(places), label))
                )
                weights[label, places[~inside]] = 0.0
        return weights


def tensors_of(records: Rows) -> dict[str, Array]:
    """Returns records as safetensors keep them: intensities of images as bytes, (records, pixels), and codes."""
    images = (
        records.pixels.reshape(len(records), -1)
        if isinstance(records, Images)
        else None
    )
    return {
        "numeric": records.numeric if images is None else images,
        "codes": records.codes,
    }


def records_from(schema: Schema, tensors: Mapping[str, Array]) -> Rows:
    """Returns the records that `tensors_of` wrote; a KeyError or ValueError if they do not fit the schema."""
    numeric, codes = tensors["numeric"], tensors["codes"]
    if (
        numeric.dtype != (np.float64 if schema.images is None else np.uint8)
        or codes.dtype != np.int32
    ):
        raise ValueError(f"records of types {numeric.dtype} and {codes.dtype}")
    _check_records(schema, numeric, codes, records=len(numeric))
    if schema.images is not None:
        return Images(
            numeric.reshape(-1, *schema.images.shape.axes),
            codes[:, 0] if codes.size else None,
        )
    return Rows(numeric, codes)


def _check_records(
    schema: Schema, numeric: Array, codes: Array, *, records: int
) -> None:
    """Checks saved records, which anybody may have edited: their shapes, numbers and codes; raises a ValueError."""
    layout = schema.layout
    if (numeric.shape, codes.shape) != (
        (records, len(layout.numeric)),
        (records, len(layout.coded)),
    ) or not records:
        raise ValueError(
            f"records of shapes {numeric.shape} and {codes.shape} do not fit the schema"
        )
    if ((codes < 0) | (codes >= [column.size for column in layout.coded])).any():
        raise ValueError("a code stands for no level of its column")
    if numeric.dtype == np.uint8:
        return
    absent = np.isnan(numeric)
    if (
        absent.any(axis=0)
        & ~np.array([column.missing for column in layout.numeric], dtype=bool)
    ).any():
        raise ValueError("a value is missing where the schema allows none")
    if not (absent | ((numeric >= 0) & (numeric <= 1))).all():
        raise ValueError("a number lies outside of the bounds of its column")


def weight_notes(
    weights: Weights, schema: Schema, labels: npt.NDArray[np.int64] | None
) -> dict[str, Any]:
    """Returns what a report says of weights as `density_ratios` gives: on how many references they rest, by label."""
    found, references = weight_summary(weights), weights.shape[1]
    notes: dict[str, Any] = {
        "references": references,
        "effective_references": found["effective"],
    }
    notes["largest_share"] = found["largest_share"]
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
            cure = "with public_labels=false every public record may be drawn with every label."
            warnings.append(
                f"No public record has the label {', '.join(absent)}, so none is drawn with it; {cure}"
            )
    return notes | ({"warning": " ".join(warnings)} if warnings else {})


def _by_label(
    weights: Weights, labels: npt.NDArray[np.int64] | None, schema: Schema
) -> dict[str, float]:
    """Returns the effective number of references of each label, 0 where there is none; nothing without labels."""
    layout = schema.layout
    if layout.label is None:
        return {}
    column = layout.coded[layout.label]
    names = [
        *map(str, column.levels),
        *(["missing"] * (column.size - len(column.levels))),
    ]
    each = (
        weights
        if labels is None
        else [np.where(labels == code, weights[0], 0.0) for code in range(column.size)]
    )
    return {
        name: effective_size(row) if row.any() else 0.0
        for name, row in zip(names, each, strict=True)
    }


def effective_size(weights: Weights) -> float:
    """Returns (Σw)² / Σw² of nonnegative weights (Kish, 1965): as many draws by them tell of a mean about as well."""
    shares = weights / weights.sum()
    return float(1 / np.square(shares).sum())


def weight_summary(weights: Weights) -> dict[str, float]:
    """Returns effective size and largest share of references, whose weights, (labels, references), are added up."""
    of_references = weights.sum(axis=0)
    largest = float(of_references.max() / of_references.sum())
    return {"effective": effective_size(of_references), "largest_share": largest}


def systematic_sample(
    weights: Weights, rows: int, random: torch.Generator
) -> npt.NDArray[np.intp]:
    """Returns `rows` places in random order, each as often as its share, rounded; each alone is a draw by weight."""
    ends = np.cumsum(weights)
    shift = float(uniform(random, 1)[0])
    comb = (np.arange(rows) + shift) / max(rows, 1) * ends[-1]
    # The last tooth may meet the end by rounding; a place of weight 0 is never met from the right.
    places = np.minimum(
        np.searchsorted(ends, comb, side="right"), np.flatnonzero(weights)[-1]
    )
    return np.asarray(places[permutation(random, rows)])
