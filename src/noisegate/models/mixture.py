"""A mixture of product distributions: given its component, the cells of a record are independent.

So the probability of a region and conditional distributions are sums over components, in closed form. Inside its cell,
a number follows a public histogram of fine cells: intervals whose values are equally likely, or single values (a zero,
a cap, a round number). In a column of whole steps the values are the steps, so that what is drawn decodes to exactly
the step that was meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from noisegate.features.binning import NumericBins
from noisegate.models.choice import MOST_GROUPS, Choice, stratified_uniforms
from noisegate.models.record_model import Array
from noisegate.schema import Continuous, EncodedTable, Layout, NumericColumn, Region, Schema
from noisegate.schema.columns import numbers_at, positions_of
from noisegate.schema.positions import Span, positions_of_ranks, ranks_at, ranks_within

if TYPE_CHECKING:
    import torch

    from noisegate.schema.columns import SteppedColumn

_BLOCK = 2**21  # numbers of a block of rows x components
_MOST_COLUMNS = 4

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class WithinCell:
    """Fine cells of one numeric column, in ascending order.

    Attributes:
        column: Says the bounds and whether values are whole steps.
        bins: The cells that a model knows.
        low: Lower ends in encoded units, (fine,). In a column of steps, both ends are steps.
        high: Upper ends, (fine,); a fine cell with equal ends is a single value.
        shares: Of the bin that a fine cell lies in, (fine,); 1 in all over each bin that holds any.
    """

    column: NumericColumn
    bins: NumericBins
    low: Floats
    high: Floats
    shares: Floats

    @classmethod
    def from_edges(
        cls,
        column: NumericColumn,
        bins: NumericBins,
        *,
        edges: Floats,
        masses: Floats,
        spikes: npt.NDArray[np.bool_] | None = None,
    ) -> Self:
        """Returns the fine cells that a histogram says. A bin in which all masses are zero is filled evenly.

        Args:
            column: The column.
            bins: Its bins.
            edges: Ends of the fine cells from 0 to 1, (fine + 1,), ascending; every cut of the bins is one of them. As
                in `NumericBins`, a value on an edge belongs to the cell above it.
            masses: Non-negative, (fine,), for instance noisy counts after clipping.
            spikes: Which fine cells are single values, (fine,): the value at the lower edge, in the last cell the
                upper bound. None for none; cells that hold one step need no flag.
        """
        spikes = np.zeros(len(masses), dtype=np.bool_) if spikes is None else spikes
        if not (len(edges) == len(masses) + 1 == len(spikes) + 1) or not np.isin(bins.cuts, edges).all():
            raise ValueError(f"column {column.name!r}: edges, masses, spikes and cuts do not fit together")
        if edges[0] != 0 or edges[-1] != 1 or not (np.diff(edges) > 0).all():
            raise ValueError(f"column {column.name!r}: fine edges must ascend from 0 to 1")
        if not (np.isfinite(masses).all() and (masses >= 0).all()):
            raise ValueError(f"column {column.name!r}: masses must be finite and not negative")
        low, high, size = _ends(column, edges)
        at = np.where(np.arange(len(masses)) < len(masses) - 1, low, 1.0)
        low, high = np.where(spikes, at, low), np.where(spikes, at, high)
        held = size > 0
        low, high, masses = low[held], high[held], masses[held]
        size = np.where(spikes, 0.0, size)[held]
        bin_of = bins.codes(low)
        intervals = len(bins.cuts) + 1
        if len(np.unique(bin_of)) < intervals:
            raise ValueError(f"column {column.name!r}: a bin holds no value that the column can have")
        for fallback in (size, np.ones(len(masses))):
            empty = np.bincount(bin_of, masses, intervals)[bin_of] == 0
            masses = np.where(empty, fallback, masses)
        return cls(
            column=column, bins=bins, low=low, high=high, shares=masses / np.bincount(bin_of, masses, intervals)[bin_of]
        )

    @cached_property
    def bin_of(self) -> npt.NDArray[np.int32]:
        """The bin of each fine cell, (fine,)."""
        return self.bins.codes(self.low)

    def draw(self, cells: npt.NDArray[np.integer], random: torch.Generator) -> Floats:
        """Returns a value in each of `cells`, in encoded units, (rows,); NaN for the cell of missing values.

        Each value alone has the distribution of its cell; those of one cell are spread out, see `Mixture.draw`.
        """
        values = np.full(len(cells), np.nan)
        present = np.flatnonzero(cells <= len(self.bins.cuts))
        held = cells[present]
        chosen = self._choice.pick(held, stratified_uniforms(held, random))
        low, high = self.low[chosen], self.high[chosen]
        uniform = stratified_uniforms(chosen, random)
        if isinstance(self.column, Continuous):
            values[present] = low + uniform * (high - low)
        else:
            start, stop = ranks_at(self.column, low), ranks_at(self.column, high)
            ranks = start + np.minimum(uniform * (stop - start + 1), stop - start).astype(np.int64)
            values[present] = positions_of_ranks(self.column, ranks)
        return values

    def restricted(self, span: Span) -> tuple[Self, Floats]:
        """Returns what lies in a closed interval of numbers, and the share of each cell that this is, (bins.size,)."""
        column = self.column
        if isinstance(column, Continuous):
            start, stop = positions_of(column, np.asarray(span))
            low, high = np.maximum(self.low, start), np.minimum(self.high, stop)
            width = self.high - self.low
            part = np.divide(np.maximum(high - low, 0), width, out=np.zeros_like(width), where=width > 0)
            numbers = numbers_at(column, self.low)
            single = (width == 0) & (numbers >= span[0]) & (numbers <= span[1])
            low, high, part = np.where(single, self.low, low), np.where(single, self.high, high), part + single
        else:
            first, last = ranks_at(column, self.low), ranks_at(column, self.high)
            lowest, highest = ranks_within(column, span)
            start, stop = np.maximum(first, lowest), np.minimum(last, highest)
            part = np.maximum(stop - start + 1, 0) / (last - first + 1)
            low, high = positions_of_ranks(column, start), positions_of_ranks(column, stop)
        held = self.shares * part > 0
        bin_of, shares = self.bin_of[held], (self.shares * part)[held]
        kept = np.bincount(bin_of, shares, self.bins.size)
        return replace(self, low=low[held], high=high[held], shares=shares / kept[bin_of]), np.minimum(kept, 1.0)

    @cached_property
    def _choice(self) -> Choice:
        return Choice(self.shares, self.bin_of)


@dataclass(frozen=True, kw_only=True, eq=False)
class Mixture:
    """K components, each with one distribution over the cells of every column.

    Attributes:
        layout: The columns; numeric ones come first, then coded ones, the label among them.
        within: For each numeric column, its bins and where in them values lie.
        weights: Share of each component, (K,).
        probabilities: For each column, (K, cells); a row sums to 1.
    """

    layout: Layout
    within: tuple[WithinCell, ...]
    weights: npt.NDArray[np.floating[Any]]
    probabilities: tuple[npt.NDArray[np.floating[Any]], ...]

    kind: ClassVar[str] = "mixture"

    def __post_init__(self) -> None:
        shapes = tuple(np.shape(table) for table in self.probabilities)
        expected = tuple((len(self.weights), size) for size in self.sizes)
        if shapes != expected or not 1 <= len(self.weights) <= MOST_GROUPS:
            raise ValueError(f"expected probabilities of shape {expected}, found {shapes}")
        for masses in (self.weights[None], *self.probabilities):
            if not ((masses >= 0).all() and np.allclose(masses.sum(axis=1, dtype=np.float64), 1, atol=1e-3)):
                raise ValueError("weights and probabilities must not be negative and must sum to 1")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each column, numeric ones first."""
        return (*(cells.bins.size for cells in self.within), *(column.size for column in self.layout.coded))

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` records, spread out over the mixture; `random` is public randomness, on the CPU.

        Each record alone is a draw from the mixture, so the expected share of records in any set is its probability.
        Together they are not independent but negatively dependent, as in a stratified survey: components come in their
        expected numbers up to one, and so do the cells of each column in the records of a component up to two. What is
        counted over several columns varies at most n / (n - 1) times as much as in independent records of a component,
        n their number, and mostly less (Stein, 1987; Owen, 1997). Records come in random order.
        """
        whole = np.zeros(rows, dtype=np.int64)
        component = self._components.pick(whole, stratified_uniforms(whole, random, systematic=True))
        cells = [
            choice.pick(component, stratified_uniforms(component, random)) - component * size
            for choice, size in zip(self._choices, self.sizes, strict=True)
        ]
        numeric = [within.draw(cells[place], random) for place, within in enumerate(self.within)]
        return EncodedTable(_columns(numeric, rows, np.float64), _columns(cells[len(numeric) :], rows, np.int32))

    def cells(self, records: EncodedTable) -> npt.NDArray[np.int32]:
        """Returns the cell of each record in each column, (rows, columns)."""
        numeric = [within.bins.codes(records.numeric[:, place]) for place, within in enumerate(self.within)]
        return np.stack([*numeric, *records.codes.T], axis=1)

    def log_probability(self, cells: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float64]:
        """Returns the natural logarithm of the probability of each row of cells, (rows,); -inf where it is zero.

        Args:
            cells: As `cells` gives them, (rows, columns).
        """
        return self._log_sums(cells, self._tables, self._weights[:, None])[:, 0]

    def log_joint(self, cells: npt.NDArray[np.integer[Any]], column: int) -> npt.NDArray[np.float64]:
        """Returns log p(x, k) for every cell k of a column, (rows, cells), x the row's cells in all others."""
        others = [table for place, table in enumerate(self._tables) if place != column]
        return self._log_sums(np.delete(cells, column, axis=1), others, self._weights[:, None] * self._tables[column])

    def marginal(self, columns: Sequence[int]) -> npt.NDArray[np.float64]:
        """Returns the joint distribution of one to four columns, shaped by their numbers of cells.

        Args:
            columns: Distinct numbers of columns, numeric ones first.

        Raises:
            ValueError: if there are none, more than four, or one twice.
        """
        if not 1 <= len(columns) <= _MOST_COLUMNS or len(set(columns)) < len(columns):
            raise ValueError(f"a marginal is of one to four distinct columns, found {list(columns)}")
        chosen = [self._tables[column] for column in columns]
        half = (len(chosen) + 1) // 2
        # Two halves, so that most of the work is one matrix product.
        left = _outer([self._weights[:, None], *chosen[:half]])
        joint = left.T @ _outer(chosen[half:]) if half < len(chosen) else left.sum(axis=0)
        return np.asarray(joint.reshape([self.sizes[column] for column in columns]))

    def probability(self, region: Region) -> float:
        """Returns the probability that a record lies in `region`."""
        return float(self._shares(self.factors(region)).sum())

    def given(self, region: Region) -> Mixture:
        """Returns the mixture of the records in `region`, or a ValueError where its probability is zero.

        Components are reweighed, and the columns that it names are cut down to it.
        """
        factors = self.factors(region)
        shares = self._shares(factors)
        live = shares > 0
        if not live.any():
            raise ValueError("the region has probability zero")
        tables = []
        for column, table in enumerate(self._tables):
            kept = table[live] * factors.get(column, 1.0)
            tables.append(kept / kept.sum(axis=1, keepdims=True))
        spans = region.spans.items()
        cut = {place: self.within[place].restricted(span)[0] for place, span in spans if span is not None}
        within = tuple(cut.get(place, cells) for place, cells in enumerate(self.within))
        weights = shares[live] / shares.sum()
        return replace(self, within=within, weights=weights, probabilities=tuple(tables))

    def tensors(self) -> dict[str, Array]:
        """Returns weights, probabilities and fine cells."""
        tensors: dict[str, Array] = {"weights": self.weights}
        tensors |= {f"probabilities/{column}": table for column, table in enumerate(self.probabilities)}
        for place, cells in enumerate(self.within):
            parts = {"cuts": np.asarray(cells.bins.cuts), "low": cells.low, "high": cells.high, "shares": cells.shares}
            tensors |= {f"within/{place}/{name}": part for name, part in parts.items()}
        return tensors

    def to_json(self) -> dict[str, Any]:
        """Returns the number of components and of cells; everything else is in `tensors`."""
        return {"components": len(self.weights), "cells": list(self.sizes)}

    @classmethod
    def from_saved(cls, schema: Schema, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> Self:
        """Returns the model that `tensors` and `to_json` describe."""
        layout = schema.layout
        within = []
        for place, column in enumerate(layout.numeric):
            cuts, low, high, shares = (tensors[f"within/{place}/{name}"] for name in ("cuts", "low", "high", "shares"))
            nullable = description["cells"][place] > len(cuts) + 1
            bins = NumericBins(tuple(cuts.tolist()), nullable)
            within.append(WithinCell(column=column, bins=bins, low=low, high=high, shares=shares))
        columns = len(layout.numeric) + len(layout.coded)
        probabilities = tuple(tensors[f"probabilities/{column}"] for column in range(columns))
        return cls(layout=layout, within=tuple(within), weights=tensors["weights"], probabilities=probabilities)

    @cached_property
    def _weights(self) -> Floats:
        weights = self.weights.astype(np.float64)
        return np.asarray(weights / weights.sum())

    @cached_property
    def _tables(self) -> tuple[Floats, ...]:
        """Probabilities whose rows sum to 1 to float64's precision, whatever they were fitted in."""
        tables = (table.astype(np.float64) for table in self.probabilities)
        return tuple(table / table.sum(axis=1, keepdims=True) for table in tables)

    def _log_sums(
        self, cells: npt.NDArray[np.integer[Any]], tables: Sequence[Floats], shares: Floats
    ) -> npt.NDArray[np.float64]:
        """Returns log Σ_j shares_jk Π_i tables_i[j, cells_i] for each row and k, in blocks of rows; -inf for zero."""
        sums, block = np.empty((len(cells), shares.shape[1])), max(_BLOCK // len(shares), 1)
        with np.errstate(divide="ignore"):
            logs = [np.log(table.T) for table in tables]
            for start in range(0, len(cells), block):
                terms = np.zeros((len(cells[start : start + block]), len(shares)))
                for log, codes in zip(logs, cells[start : start + block].T, strict=True):
                    terms += log[codes]
                highest = terms.max(axis=1, keepdims=True)
                shift = np.where(np.isfinite(highest), highest, 0.0)
                sums[start : start + block] = shift + np.log(np.exp(terms - shift) @ shares)
        return sums

    @cached_property
    def _components(self) -> Choice:
        return Choice(self._weights, np.zeros(len(self.weights), dtype=np.int64))

    @cached_property
    def _choices(self) -> tuple[Choice, ...]:
        """For each column, the cells of all components, one group a component."""
        groups = np.arange(len(self.weights))
        return tuple(Choice(table.ravel(), np.repeat(groups, table.shape[1])) for table in self._tables)

    def factors(self, region: Region) -> dict[int, Floats]:
        """Returns, for each column that the region names, the share of each cell that lies in it, (cells,)."""
        factors = {}
        for place, span in region.spans.items():
            cells = self.within[place]
            missing = np.arange(cells.bins.size) > len(cells.bins.cuts)
            factors[place] = missing.astype(np.float64) if span is None else cells.restricted(span)[1]
        for place, code in region.codes.items():
            factors[len(self.within) + place] = np.eye(self.layout.coded[place].size)[code]
        return factors

    def _shares(self, factors: Mapping[int, Floats]) -> Floats:
        """Returns the probability of each component together with the region, (K,)."""
        shares = self._weights
        for column, factor in factors.items():
            shares = shares * (self._tables[column] @ factor)
        return shares


def _columns(columns: Sequence[npt.NDArray[Any]], rows: int, kind: type) -> npt.NDArray[Any]:
    """Returns columns side by side, (rows, columns), of which there may be none."""
    return np.stack(columns, axis=1).astype(kind) if columns else np.empty((rows, 0), dtype=kind)


def _ends(column: NumericColumn, edges: Floats) -> tuple[Floats, Floats, Floats]:
    """Returns lowest and highest value of each cell between edges, and how much it holds: its width, or its steps."""
    if isinstance(column, Continuous):
        return edges[:-1], edges[1:], np.diff(edges)
    start = _first_step(column, edges[:-1])
    stop = np.append(start[1:], column.last + 1) - 1
    return positions_of_ranks(column, start), positions_of_ranks(column, stop), (stop - start + 1).astype(np.float64)


def _first_step(column: SteppedColumn, edges: Floats) -> npt.NDArray[np.int64]:
    """Returns the rank of the first step at or above each edge, by the comparison that puts encoded steps into bins."""
    rank: npt.NDArray[np.int64] = np.maximum(ranks_at(column, edges) - 2, 0)
    for _ in range(4):
        rank += positions_of_ranks(column, rank) < edges
    return rank


def _outer(tables: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """Returns the products of one entry of each table, component by component, (K, product of their widths)."""
    joint = tables[0]
    for table in tables[1:]:
        joint = (joint[:, :, None] * table[:, None, :]).reshape(len(joint), -1)
    return joint
