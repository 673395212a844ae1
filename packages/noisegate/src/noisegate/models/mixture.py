"""A mixture of product distributions over the cells of all columns.

A record belongs to one of K components, and given its component its cells are
independent::

    p(x) = Σ_k w_k Π_j p_kj(x_j)

with the weight w_k of component k and its probability p_kj(c) of cell c of column j. So
the probability of a region and conditional distributions are sums over components, in
closed form, and a mixture under a condition is a mixture again.

Where in its cell a number lies is decided by `within_cell`, and how numbers go together
there by `copula`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from noisegate.models.copula import Copula
from noisegate.models.record_model import Array
from noisegate.models.stratified import (
    MAX_GROUPS,
    CellSampler,
    stratified_uniforms,
)
from noisegate.models.within_cell import WithinCell
from noisegate.queries.binning import NumericBins
from noisegate.schema import EncodedTable, Layout, Region, Schema
from noisegate.seeds import uniform

if TYPE_CHECKING:
    import torch

    from noisegate.models.completion import PartialRecords

Floats = npt.NDArray[np.float64]

# Numbers in a block of rows x components: what bounds the memory of `log_joint`.
_BLOCK_SIZE = 2**21
_MAX_MARGINAL_COLUMNS = 4  # the joint table of more columns may not fit into memory
# Known values that a component rules out would leave a record without any.
_MIN_PROBABILITY = 1e-30
# How far the sums of weights and of probabilities may be from 1, since these may be
# stored in float32.
_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True, kw_only=True, eq=False)
class Mixture:
    """K components, each with one distribution over the cells of every column.

    Columns are numbered with the numeric ones first, then the coded ones, among which
    the label is. A column's cells are numbered from 0.

    Raises:
        ValueError: if the arrays do not fit together, or are no probabilities.
    """

    layout: Layout  # the columns
    # For each numeric column its cells, and where in them values lie.
    within: tuple[WithinCell, ...]
    weights: npt.NDArray[np.floating[Any]]  # share of each component, (K,)
    # For each column the probabilities of its cells, (K, cells); a row sums to 1.
    probabilities: tuple[npt.NDArray[np.floating[Any]], ...]
    # Whether numbers that go together by their cells do so within them, see `Copula`.
    copula: bool = False

    kind: ClassVar[str] = "mixture"

    def __post_init__(self) -> None:
        component_count = len(self.weights)
        shapes = tuple(np.shape(table) for table in self.probabilities)
        expected_shapes = tuple((component_count, size) for size in self.sizes)
        if shapes != expected_shapes or not 1 <= component_count <= MAX_GROUPS:
            raise ValueError(
                f"expected probabilities of shape {expected_shapes}, found {shapes}"
            )
        for distributions in (self.weights[None], *self.probabilities):
            sums = distributions.sum(axis=1, dtype=np.float64)
            is_nonnegative = (distributions >= 0).all()
            if not is_nonnegative or not np.allclose(sums, 1, atol=_SUM_TOLERANCE):
                raise ValueError(
                    "weights and probabilities must not be negative and must sum to 1"
                )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each column, numeric ones first."""
        numeric_sizes = [cells.bins.size for cells in self.within]
        coded_sizes = [column.size for column in self.layout.coded]
        return (*numeric_sizes, *coded_sizes)

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Draws records that are spread out over the mixture, in random order.

        Each record alone is a draw from the mixture. Together they are negatively
        dependent, as in a stratified survey: the number of records in a component is
        less than one off its expectation, and in these records the number in a cell of
        a column less than two. What is counted over several columns varies at most
        n / (n - 1) times as much as in n independent records of a component, and mostly
        less (Stein, 1987; Owen, 1997).

        Args:
            rows: How many records.
            random: Public randomness, on the CPU. If it is `independent`, so are the
                records.
        """
        cells = self._draw_cells(rows, random)
        numeric_count = len(self.within)
        values = self._draw_values(cells[:numeric_count], random)
        return EncodedTable(
            _side_by_side(values, rows, np.float64),
            _side_by_side(cells[numeric_count:], rows, np.int32),
        )

    def _draw_cells(
        self, rows: int, random: torch.Generator
    ) -> list[npt.NDArray[np.intp]]:
        """Draws a component for each record, and then its cell in each column.

        Returns:
            Cells, (rows,) for each column.
        """
        component_sampler = CellSampler(
            self._weights, np.zeros(len(self.weights), dtype=np.int64)
        )
        one_group = np.zeros(rows, dtype=np.int64)
        components = component_sampler.pick(
            one_group, stratified_uniforms(one_group, random, systematic=True)
        )
        # A sampler numbers the cells of all components, one component after the other.
        return [
            sampler.pick(components, stratified_uniforms(components, random))
            - components * size
            for sampler, size in zip(self._samplers, self.sizes, strict=True)
        ]

    def complete(
        self, partial: PartialRecords, random: torch.Generator
    ) -> EncodedTable:
        """Draws what is not known of each record, given what is.

        A record's component follows p(k | known) ∝ w_k Π_j p_kj(x_j) over its known
        columns; given the component, its other cells are independent.

        Args:
            partial: The records.
            random: Public randomness, on the CPU.
        """
        known_cells = self.cells(partial.records)
        components = self._components_given(partial, known_cells, random)
        numeric_count = len(self.within)
        cells = []
        for column, table in enumerate(self._tables):
            is_unknown = ~partial.is_known[:, column]
            cells_of_column = known_cells[:, column].astype(np.intp)
            chances = table[components[is_unknown]]
            if self.may_be_missing(column):
                # The last cell of such a column is that of missing values.
                chances[partial.is_value[is_unknown, column], -1] = 0.0
            cells_of_column[is_unknown] = pick_cells(chances, random)
            cells.append(cells_of_column)
        values = self._draw_values(cells[:numeric_count], random)
        drawn = _side_by_side(values, len(partial), np.float64)
        is_known_number = partial.is_known[:, :numeric_count]
        return EncodedTable(
            np.where(is_known_number, partial.records.numeric, drawn),
            _side_by_side(cells[numeric_count:], len(partial), np.int32),
        )

    def _components_given(
        self,
        partial: PartialRecords,
        known_cells: npt.NDArray[np.int32],
        random: torch.Generator,
    ) -> npt.NDArray[np.intp]:
        """Draws the component of each record given what is known of it.

        Args:
            partial: Says what is known.
            known_cells: The cell of each known value, (records, columns).
            random: Public randomness.
        """
        with np.errstate(divide="ignore"):
            scores = np.tile(np.log(self._weights), (len(partial), 1))
        for column, table in enumerate(self._tables):
            log_table = np.log(np.maximum(table, _MIN_PROBABILITY)).T
            is_known = partial.is_known[:, column]
            scores[is_known] += log_table[known_cells[is_known, column]]
            if self.may_be_missing(column):
                present = np.maximum(1.0 - table[:, -1], _MIN_PROBABILITY)
                scores[partial.is_value[:, column]] += np.log(present)
        scores -= scores.max(axis=1, keepdims=True)
        return pick_cells(np.exp(scores), random)

    def may_be_missing(self, column: int) -> bool:
        """Returns whether the last cell of a column is that of missing values."""
        if column < len(self.within):
            return self.within[column].bins.nullable
        return self.layout.coded[column - len(self.within)].missing

    def _draw_values(
        self, numeric_cells: Sequence[npt.NDArray[np.intp]], random: torch.Generator
    ) -> list[Floats]:
        """Draws a value in the cell of each record in each numeric column.

        Args:
            numeric_cells: Cells, (rows,) for each numeric column.
            random: Public randomness.

        Returns:
            Values in encoded units, (rows,) for each numeric column.
        """
        positions_in_cells: dict[int, Floats] = {}
        if self._copula is not None:
            positions_in_cells = self._copula.draw(numeric_cells, random)
        return [
            within.draw(numeric_cells[column], random, positions_in_cells.get(column))
            for column, within in enumerate(self.within)
        ]

    def cells(self, records: EncodedTable) -> npt.NDArray[np.int32]:
        """Returns the cell of each record in each column, (rows, columns)."""
        numeric_cells = [
            within.bins.codes(records.numeric[:, column])
            for column, within in enumerate(self.within)
        ]
        return np.stack([*numeric_cells, *records.codes.T], axis=1)

    def log_joint(self, cells: npt.NDArray[np.integer[Any]], column: int) -> Floats:
        """Computes log p(x, k) for every cell k of one column.

        Args:
            cells: Cells of records, (rows, columns); x is those of a row in all columns
                but `column`.
            column: The column whose cells are tried.

        Returns:
            Natural logarithms, (rows, cells of the column); -inf for probability zero.
        """
        other_tables = [
            table for index, table in enumerate(self._tables) if index != column
        ]
        other_cells = np.delete(cells, column, axis=1)
        weighted_table = self._weights[:, None] * self._tables[column]
        other_sizes = [table.shape[1] for table in other_tables]
        if not other_sizes or math.prod(other_sizes) >= len(cells):
            return _log_mixed_products(other_cells, other_tables, weighted_table)

        # Many records are alike: each combination of cells is computed once.
        strides = np.append(np.cumprod(other_sizes[:0:-1], dtype=np.int64)[::-1], 1)
        _, first_row, combination_of_row = np.unique(
            other_cells @ strides, return_index=True, return_inverse=True
        )
        log_joint = _log_mixed_products(
            other_cells[first_row], other_tables, weighted_table
        )
        return log_joint[combination_of_row]

    def marginal(self, columns: Sequence[int]) -> Floats:
        """Computes the joint distribution of some columns by their cells.

        Args:
            columns: One to four distinct columns.

        Returns:
            Probabilities, one axis for each of `columns`, in their order.

        Raises:
            ValueError: if there are other columns.
        """
        is_distinct = len(set(columns)) == len(columns)
        if not 1 <= len(columns) <= _MAX_MARGINAL_COLUMNS or not is_distinct:
            raise ValueError(
                f"a marginal is of one to four distinct columns, found {list(columns)}"
            )
        tables = [self._tables[column] for column in columns]
        # Two halves, so that most of the work is one matrix product.
        half = (len(tables) + 1) // 2
        left = _componentwise_products([self._weights[:, None], *tables[:half]])
        if half < len(tables):
            joint = left.T @ _componentwise_products(tables[half:])
        else:
            joint = left.sum(axis=0)
        return np.asarray(joint.reshape([self.sizes[column] for column in columns]))

    def probability(self, region: Region) -> float:
        """Returns the probability that a record lies in a region, from 0 to 1."""
        shares_inside = self.shares_inside(region)
        return float(self._probabilities_with_components(shares_inside).sum())

    def given(self, region: Region) -> Mixture:
        """Conditions the mixture on a region.

        Returns:
            The mixture of the records in the region. Components without any are left
            out.

        Raises:
            ValueError: if the region has probability zero.
        """
        shares_inside = self.shares_inside(region)
        component_probabilities = self._probabilities_with_components(shares_inside)
        is_possible = component_probabilities > 0
        if not is_possible.any():
            raise ValueError("the region has probability zero")

        conditional_tables = []
        for column, table in enumerate(self._tables):
            inside = table[is_possible] * shares_inside.get(column, 1.0)
            conditional_tables.append(inside / inside.sum(axis=1, keepdims=True))

        restricted_within = list(self.within)
        for column, span in region.spans.items():
            if span is not None:
                restricted_within[column], _ = self.within[column].restricted(span)

        return replace(
            self,
            within=tuple(restricted_within),
            weights=component_probabilities[is_possible]
            / component_probabilities.sum(),
            probabilities=tuple(conditional_tables),
        )

    def shares_inside(self, region: Region) -> dict[int, Floats]:
        """Computes how much of each cell lies in a region.

        Returns:
            For each column that the region names the share of each of its cells that
            lies inside, from 0 to 1, (cells,).
        """
        shares_inside: dict[int, Floats] = {}
        for column, span in region.spans.items():
            within = self.within[column]
            if span is None:
                is_missing = np.arange(within.bins.size) > len(within.bins.cuts)
                shares_inside[column] = is_missing.astype(np.float64)
            else:
                _, shares_inside[column] = within.restricted(span)
        for coded_index, code in region.codes.items():
            size = self.layout.coded[coded_index].size
            shares_inside[len(self.within) + coded_index] = np.eye(size)[code]
        for column in region.present:
            # The last cell of a column is that of missing values.
            is_value = np.ones(self.sizes[column])
            is_value[-1] = 0.0
            shares_inside[column] = is_value
        return shares_inside

    def tensors(self) -> dict[str, Array]:
        """Returns the weights, the probabilities and the fine cells, by name."""
        tensors: dict[str, Array] = {"weights": self.weights}
        for column, table in enumerate(self.probabilities):
            tensors[f"probabilities/{column}"] = table
        for column, within in enumerate(self.within):
            tensors[f"within/{column}/cuts"] = np.asarray(within.bins.cuts)
            tensors[f"within/{column}/low"] = within.low
            tensors[f"within/{column}/high"] = within.high
            tensors[f"within/{column}/shares"] = within.shares
        return tensors

    def to_json(self) -> dict[str, Any]:
        """Returns the numbers of components and of cells, and whether it has a copula.

        Everything else is in `tensors`.
        """
        return {
            "components": len(self.weights),
            "cells": list(self.sizes),
            "copula": self.copula,
        }

    @classmethod
    def from_saved(
        cls,
        schema: Schema,
        tensors: Mapping[str, Array],
        description: Mapping[str, Any],
    ) -> Self:
        """Rebuilds a mixture that was saved; see `RecordModel.from_saved`."""
        layout = schema.layout
        within = []
        for index, column in enumerate(layout.numeric):
            cuts = tensors[f"within/{index}/cuts"]
            has_missing_cell = description["cells"][index] > len(cuts) + 1
            within.append(
                WithinCell(
                    column=column,
                    bins=NumericBins(tuple(cuts.tolist()), has_missing_cell),
                    low=tensors[f"within/{index}/low"],
                    high=tensors[f"within/{index}/high"],
                    shares=tensors[f"within/{index}/shares"],
                )
            )
        column_count = len(layout.numeric) + len(layout.coded)
        return cls(
            layout=layout,
            within=tuple(within),
            weights=tensors["weights"],
            probabilities=tuple(
                tensors[f"probabilities/{column}"] for column in range(column_count)
            ),
            copula=description.get("copula", False),  # older models have none
        )

    @cached_property
    def _weights(self) -> Floats:
        """The weights, which sum to 1 to the precision of float64, (K,)."""
        weights = self.weights.astype(np.float64)
        return np.asarray(weights / weights.sum())

    @cached_property
    def _tables(self) -> tuple[Floats, ...]:
        """The probabilities, whose rows sum to 1 to the precision of float64."""
        tables = (table.astype(np.float64) for table in self.probabilities)
        return tuple(table / table.sum(axis=1, keepdims=True) for table in tables)

    @cached_property
    def _copula(self) -> Copula | None:
        """How numbers go together within their cells; None if they do not."""
        if not self.copula or len(self.within) < 2:
            return None
        tables_of_present = [
            table[:, : len(within.bins.cuts) + 1]
            for table, within in zip(self._tables, self.within, strict=False)
        ]
        return Copula.of_mixture(self._weights, tables_of_present)

    @cached_property
    def _samplers(self) -> tuple[CellSampler, ...]:
        """For each column a sampler of its cells, with a group for each component."""
        components = np.arange(len(self.weights))
        return tuple(
            CellSampler(table.ravel(), np.repeat(components, table.shape[1]))
            for table in self._tables
        )

    def _probabilities_with_components(
        self, shares_inside: Mapping[int, Floats]
    ) -> Floats:
        """Computes the probability of a region together with each component.

        Args:
            shares_inside: The region, as `shares_inside` returns it.

        Returns:
            Probabilities, (K,), which sum to that of the region.
        """
        probabilities = self._weights
        for column, share in shares_inside.items():
            probabilities = probabilities * (self._tables[column] @ share)
        return probabilities


def _side_by_side(
    columns: Sequence[npt.NDArray[Any]], rows: int, dtype: type[np.generic]
) -> npt.NDArray[Any]:
    """Returns columns side by side, (rows, columns), of which there may be none."""
    if not columns:
        return np.empty((rows, 0), dtype=dtype)
    return np.stack(columns, axis=1).astype(dtype)


def _componentwise_products(tables: Sequence[Floats]) -> Floats:
    """Multiplies every entry of a table by every one of the others in its component.

    Args:
        tables: (K, width) for each, of any widths.

    Returns:
        Products, (K, product of the widths); the last table's entries vary fastest.
    """
    products = tables[0]
    for table in tables[1:]:
        products = (products[:, :, None] * table[:, None, :]).reshape(len(products), -1)
    return products


def _log_mixed_products(
    cells: npt.NDArray[np.integer[Any]],
    tables: Sequence[Floats],
    weighted_table: Floats,
) -> Floats:
    """Computes log Σ_k Π_j tables_j[k, cells_j] · weighted_table[k], block by block.

    Args:
        cells: The cells of each row, (rows, columns).
        tables: For each column the probabilities of its cells, (K, cells).
        weighted_table: Weights of components times the probabilities of the cells of
            one more column, (K, cells).

    Returns:
        Logarithms, (rows, cells of that column), computed without underflow.
    """
    component_count = len(weighted_table)
    log_sums = np.empty((len(cells), weighted_table.shape[1]))
    block_rows = max(_BLOCK_SIZE // component_count, 1)
    with np.errstate(divide="ignore"):  # the logarithm of zero is -inf, as it should be
        log_tables = [np.log(table.T) for table in tables]
        for start in range(0, len(cells), block_rows):
            block = slice(start, start + block_rows)
            log_products = np.zeros((len(cells[block]), component_count))
            for log_table, codes in zip(log_tables, cells[block].T, strict=True):
                log_products += log_table[codes]
            highest = log_products.max(axis=1, keepdims=True)
            shift = np.where(np.isfinite(highest), highest, 0.0)
            scaled_sums = np.exp(log_products - shift) @ weighted_table
            log_sums[block] = shift + np.log(scaled_sums)
    return log_sums


def pick_cells(chances: Floats, random: torch.Generator) -> npt.NDArray[np.intp]:
    """Picks a cell for each row, independently.

    Args:
        chances: In proportion to the probability of each cell, not negative,
            (rows, cells); in no row all are 0.
        random: Public randomness.
    """
    cumulative = np.cumsum(chances, axis=1)
    levels = uniform(random, len(chances)) * cumulative[:, -1]
    picked = (cumulative <= levels[:, None]).sum(axis=1)
    return np.asarray(np.minimum(picked, chances.shape[1] - 1), dtype=np.intp)
