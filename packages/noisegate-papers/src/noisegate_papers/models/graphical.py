"""A graphical model of records as one conditional table for each column, drawn from with NumPy alone.

A graphical model whose graph is triangulated is a Bayesian network along the reverse of
its elimination order: so the fitted model needs no inference any more, nor the package
that fitted it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from noisegate.models.record_model import Array
from noisegate.models.stratified import CellSampler, stratified_uniforms
from noisegate.models.within_cell import WithinCell
from noisegate.queries.binning import NumericBins
from noisegate.schema import EncodedTable, Schema
from noisegate.seeds import uniform

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True, eq=False)
class Conditional:
    """The distribution of one column given others, columns numbered numeric ones first.

    `probabilities` have one axis for each parent and a last one for the column's cells, along which they sum to 1.
    """

    column: int
    parents: tuple[int, ...]
    probabilities: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        values = self.probabilities
        if values.ndim != len(self.parents) + 1 or not values.size:
            raise ValueError(
                f"column {self.column}: a table of shape {values.shape} for {len(self.parents)} parents"
            )
        if not (
            np.isfinite(values).all()
            and (values >= 0).all()
            and np.allclose(values.sum(axis=-1), 1, atol=1e-6)
        ):
            raise ValueError(f"column {self.column}: the table holds no probabilities")

    def given(self, cells: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Returns for each record the row of the table that the cells of its parents stand for."""
        rows = np.zeros(cells.shape[1], dtype=np.int64)
        for parent, size in zip(self.parents, self.probabilities.shape, strict=False):
            rows = rows * size + cells[parent]
        return rows

    def draw(
        self, cells: npt.NDArray[np.int32], uniform: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.int32]:
        """Returns a cell for each record; of all `cells`, (columns, rows), the parents' are drawn already."""
        size = self.probabilities.shape[-1]
        cumulative = self.probabilities.reshape(-1, size).cumsum(axis=1)
        cumulative[:, -1] = 1
        given = self.given(cells)
        # One sorted sequence for all rows of the table: row r lies in [r, r + 1].
        sequence = (cumulative + np.arange(len(cumulative))[:, None]).ravel()
        found = np.searchsorted(sequence, given + uniform, side="right") - given * size
        return np.asarray(np.clip(found, 0, size - 1), dtype=np.int32)


@dataclass(frozen=True, kw_only=True, eq=False)
class ConditionalTables:
    """The tables that a graphical model consists of."""

    bins: tuple[NumericBins, ...]
    """Cells of the numeric columns."""
    coded: tuple[int, ...]
    """Number of codes of each coded column."""
    factors: tuple[Conditional, ...]
    """One for each column, in an order in which parents come first."""

    def __post_init__(self) -> None:
        sizes = (*(bins.size for bins in self.bins), *self.coded)
        known: set[int] = set()
        for factor in self.factors:
            shape = tuple(sizes[column] for column in (*factor.parents, factor.column))
            if (
                not known.issuperset(factor.parents)
                or factor.probabilities.shape != shape
            ):
                raise ValueError(
                    f"the table of column {factor.column} does not fit the columns that it depends on"
                )
            known.add(factor.column)
        if sorted(known) != list(range(len(sizes))) or len(self.factors) != len(sizes):
            raise ValueError(
                f"{len(self.factors)} tables for {len(sizes)} columns; each column has one"
            )

    def table_tensors(self) -> dict[str, Array]:
        """Returns the tables and the cuts, by name."""
        tables = {
            f"table/{factor.column}": factor.probabilities for factor in self.factors
        }
        return {
            **tables,
            **{
                f"cuts/{place}": np.asarray(bins.cuts)
                for place, bins in enumerate(self.bins)
            },
        }

    def to_json(self) -> dict[str, Any]:
        """Returns the order of the columns, and what each depends on."""
        return {
            "factors": [
                {"column": factor.column, "parents": list(factor.parents)}
                for factor in self.factors
            ]
        }

    @staticmethod
    def saved_tables(
        schema: Schema, tensors: Mapping[str, Array], description: Mapping[str, Any]
    ) -> ConditionalTables:
        """Returns the tables that `table_tensors` and `to_json` describe."""
        layout = schema.layout
        return ConditionalTables(
            bins=tuple(
                NumericBins(
                    cuts=tuple(tensors[f"cuts/{index}"].tolist()),
                    nullable=column.missing,
                )
                for index, column in enumerate(layout.numeric)
            ),
            coded=tuple(column.size for column in layout.coded),
            factors=tuple(
                Conditional(
                    column=int(factor["column"]),
                    parents=tuple(map(int, factor["parents"])),
                    probabilities=tensors[f"table/{factor['column']}"].astype(
                        np.float64
                    ),
                )
                for factor in description["factors"]
            ),
        )


class GraphicalModel(ConditionalTables):
    """A graphical model; inside a cell of a numeric column values are uniform."""

    kind: ClassVar[str] = "graphical"

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` independent records; `random` is public randomness, on the CPU."""
        cells = np.zeros((len(self.factors), rows), dtype=np.int32)
        for factor in self.factors:
            cells[factor.column] = factor.draw(cells, uniform(random, rows))
        numeric = np.empty((rows, len(self.bins)))
        for place, bins in enumerate(self.bins):
            ends = np.asarray((0.0, *bins.cuts, 1.0))
            missing = [np.nan] * bins.nullable
            low, high = np.append(ends[:-1], missing), np.append(ends[1:], missing)
            numeric[:, place] = (
                low[cells[place]] + uniform(random, rows) * (high - low)[cells[place]]
            )
        return EncodedTable(numeric, np.ascontiguousarray(cells[len(self.bins) :].T))

    def tensors(self) -> dict[str, Array]:
        """Returns the tables and the cuts."""
        return self.table_tensors()

    @classmethod
    def from_saved(
        cls,
        schema: Schema,
        tensors: Mapping[str, Array],
        description: Mapping[str, Any],
    ) -> Self:
        """Returns the model that `tensors` and `to_json` describe."""
        saved = cls.saved_tables(schema, tensors, description)
        return cls(bins=saved.bins, coded=saved.coded, factors=saved.factors)


_PARTS = ("low", "high", "shares")


@dataclass(frozen=True, kw_only=True, eq=False)
class BayesianNetwork(ConditionalTables):
    """A graphical model whose numbers follow fine histograms `within` their cells, one for each numeric column."""

    within: tuple[WithinCell, ...]

    kind: ClassVar[str] = "bayesian-network"

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` records, spread out; `random` is public randomness, on the CPU."""
        # Each record alone is a draw from the network. Records whose parents of a column are the same take that
        # column's cells in their expected numbers, up to two (`stratified_uniforms`).
        cells = np.zeros((len(self.factors), rows), dtype=np.int32)
        for factor in self.factors:
            size, given = factor.probabilities.shape[-1], factor.given(cells)
            table = factor.probabilities.reshape(-1, size)
            sampler = CellSampler(table.ravel(), np.repeat(np.arange(len(table)), size))
            cells[factor.column] = (
                sampler.pick(given, stratified_uniforms(given, random)) - given * size
            )
        numeric = np.empty((rows, len(self.within)))
        for place, within in enumerate(self.within):
            numeric[:, place] = within.draw(cells[place], random)
        return EncodedTable(numeric, np.ascontiguousarray(cells[len(self.within) :].T))

    def tensors(self) -> dict[str, Array]:
        """Returns the tables, the cuts and the fine cells."""
        fine = {
            f"within/{place}/{part}": getattr(cells, part)
            for place, cells in enumerate(self.within)
            for part in _PARTS
        }
        return self.table_tensors() | fine

    @classmethod
    def from_saved(
        cls,
        schema: Schema,
        tensors: Mapping[str, Array],
        description: Mapping[str, Any],
    ) -> Self:
        """Returns the network that `tensors` and `to_json` describe."""
        graph = cls.saved_tables(schema, tensors, description)
        within = tuple(
            WithinCell(
                column=column,
                bins=bins,
                **{part: tensors[f"within/{place}/{part}"] for part in _PARTS},
            )
            for place, (column, bins) in enumerate(
                zip(schema.layout.numeric, graph.bins, strict=True)
            )
        )
        return cls(
            bins=graph.bins, coded=graph.coded, factors=graph.factors, within=within
        )
