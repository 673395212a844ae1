"""The record model that is a set of records itself: drawing is choosing among them, each as often as any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from noisegate.models.record_model import Array
from noisegate.schema import EncodedTable, Region, Schema

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True, eq=False)
class PointSet:
    """Records that were made once; no record is ever between two of them.

    Attributes:
        records: The set, at least one record.
        label: Place of the label among the coded columns, or None.
    """

    records: EncodedTable
    label: int | None

    kind: ClassVar[str] = "point-set"

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` records in random order: whole copies of the set, and a random part of it without repetition.

        The part takes from each label its share of the set, rounded up or down; so `rows` equal to the size of the set
        gives each record once.

        Args:
            rows: Number of records.
            random: Public randomness, on the CPU.
        """
        import torch

        size = len(self.records)
        copies, rest = divmod(rows, size)
        chosen = np.concatenate([np.tile(np.arange(size), copies), self._spread(random)[:rest]])
        return self.records.rows(chosen[torch.randperm(rows, generator=random).numpy()])

    def probability(self, region: Region) -> float:
        """Returns the share of the set that lies in `region`."""
        return float(region.contains(self.records).mean())

    def given(self, region: Region) -> PointSet:
        """Returns the records in `region`, of which there is at least one."""
        return PointSet(records=self.records.rows(region.contains(self.records)), label=self.label)

    def tensors(self) -> dict[str, Array]:
        """Returns the encoded columns."""
        return {"numeric": self.records.numeric, "codes": self.records.codes}

    def to_json(self) -> dict[str, Any]:
        """Returns the size of the set."""
        return {"records": len(self.records)}

    @classmethod
    def from_saved(cls, schema: Schema, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> Self:
        """Returns the set that `tensors` and `to_json` describe.

        Raises:
            KeyError, TypeError, ValueError: if they describe none, or one that does not fit the schema.
        """
        layout, numeric, codes = schema.layout, tensors["numeric"], tensors["codes"]
        shapes = [(description["records"], len(layout.numeric)), (description["records"], len(layout.coded))]
        if [numeric.shape, codes.shape] != shapes or not len(numeric):
            raise ValueError(f"records of shapes {numeric.shape} and {codes.shape} do not fit the schema")
        records = EncodedTable(numeric, codes)
        missing = np.isnan(numeric).any(axis=0)
        if (missing & ~np.array([column.missing for column in layout.numeric], dtype=bool)).any():
            raise ValueError("a value is missing where the schema allows none")
        if not (np.isnan(numeric) | ((numeric >= 0) & (numeric <= 1))).all():
            raise ValueError("a number lies outside of the bounds of its column")
        if ((codes < 0) | (codes >= [column.size for column in layout.coded])).any():
            raise ValueError("a code stands for no level of its column")
        return cls(records=records, label=layout.label)

    def _spread(self, random: torch.Generator) -> npt.NDArray[np.int64]:
        """Returns all places in an order of which every beginning holds the labels in their shares."""
        import torch

        size = len(self.records)
        order = torch.randperm(size, generator=random).numpy()
        labels = np.zeros(size, np.int64) if self.label is None else self.records.codes[order, self.label]
        place = np.empty(size)
        for label in np.unique(labels):
            mine = np.flatnonzero(labels == label)
            # One shift for the whole label, so that no label comes first more often than others of its size.
            place[mine] = (np.arange(len(mine)) + float(torch.rand((), generator=random))) / len(mine)
        return order[np.argsort(place, kind="stable")]
