"""A Bayesian network over the cells of columns, whose numbers follow fine histograms inside their cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from noisegate.models.record_model import Array
from noisegate.models.within_cell import Choice, WithinCell, stratified_uniforms
from noisegate.schema import EncodedTable, Schema
from noisegate_papers.models.graphical import GraphicalModel

if TYPE_CHECKING:
    import torch

_PARTS = ("low", "high", "shares")


@dataclass(frozen=True, kw_only=True, eq=False)
class BayesianNetwork(GraphicalModel):
    """Conditional tables in an order in which parents come first, and where in its cell a number lies.

    Attributes:
        within: For each numeric column, the values in its cells.
    """

    within: tuple[WithinCell, ...]

    kind: ClassVar[str] = "bayesian-network"

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` records, spread out; `random` is public randomness, on the CPU.

        Each record alone is a draw from the network. Records whose parents of a column are the same take that column's
        cells in their expected numbers, up to two (`stratified_uniforms`).
        """
        cells = np.zeros((len(self.factors), rows), dtype=np.int32)
        for factor in self.factors:
            size = factor.probabilities.shape[-1]
            table = factor.probabilities.reshape(-1, size)
            given = np.zeros(rows, dtype=np.int64)
            for parent, parent_size in zip(factor.parents, factor.probabilities.shape, strict=False):
                given = given * parent_size + cells[parent]
            choice = Choice(table.ravel(), np.repeat(np.arange(len(table)), size))
            cells[factor.column] = choice.pick(given, stratified_uniforms(given, random)) - given * size
        numeric = np.empty((rows, len(self.within)))
        for place, within in enumerate(self.within):
            numeric[:, place] = within.draw(cells[place], random)
        return EncodedTable(numeric, np.ascontiguousarray(cells[len(self.within) :].T))

    def tensors(self) -> dict[str, Array]:
        """Returns the tables, the cuts and the fine cells."""
        fine = {
            f"within/{place}/{part}": getattr(cells, part) for place, cells in enumerate(self.within) for part in _PARTS
        }
        return super().tensors() | fine

    @classmethod
    def from_saved(cls, schema: Schema, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> Self:
        """Returns the network that `tensors` and `to_json` describe."""
        graph = GraphicalModel.from_saved(schema, tensors, description)
        within = tuple(
            WithinCell(column=column, bins=bins, **{part: tensors[f"within/{place}/{part}"] for part in _PARTS})
            for place, (column, bins) in enumerate(zip(schema.layout.numeric, graph.bins, strict=True))
        )
        return cls(bins=graph.bins, coded=graph.coded, factors=graph.factors, within=within)
