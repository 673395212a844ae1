"""Contingency tables: a record's vector marks the cell that it falls into.

The vector has one block for each table, with the table's weight at the record's cell
and zero elsewhere. So its norm is √(Σ weight²) whatever the record says: nothing is
ever clipped, and a table with a larger weight gets less noise in proportion. A table of
no column is the number of records.

The gate adds such vectors up without building them, as counts of cells times weights,
in integers (G-12). A weighted record adds to table t the part of its integer weight
that it weighs itself, rounded toward zero (G-31).
"""

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, combinations, pairwise
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.privacy.grid import Grid
from noisegate.queries.binning import NumericBins
from noisegate.queries.feature_map import ExactSum
from noisegate.records import WHOLE, WeightedRows
from noisegate.schema import EncodedTable

Tables = tuple[tuple[int, ...], ...]
"""The columns of each table, by number."""

MAX_COLUMNS = 4
"""Most columns of a table."""
MIN_WEIGHT = 256
"""Least weight of a table in grid units.

Rounding toward zero takes at most 0.4 % from a larger one, and a table of so small a
weight has far more noise than that.
"""
MAX_GROUPS = 2_000_000
"""Most groups of columns that a method considers.

They are the pairs of 2,000 columns, which need gigabytes of counts at the gate.
"""

# Dividing by WHOLE, a power of two, is a shift by so many bits.
_WHOLE_BITS = WHOLE.bit_length() - 1
# Sums of so many weighed rows are exact in float64.
_MAX_WEIGHTED_ROWS = 1 << 30
# NumPy holds the interpreter lock while it counts. Threads that took turns at every
# table would lose half of their time.
_COUNTING_LOCK = threading.Lock()


@dataclass(frozen=True, kw_only=True, eq=False)
class Contingency:
    """The map from a record to its cell in each of several tables; all of it is public.

    Columns are numbered as in the layout, numeric ones first: column i is ``bins[i]``,
    and column ``len(bins) + j`` is the coded column j.

    Attributes:
        bins: Bins of each numeric column of the layout.
        coded: Number of codes of each coded column of the layout.
        tables: Columns of each table, at most `MAX_COLUMNS`, each once. ``()`` is the
            number of records.
        weights: Value of a vector at the record's cell, for each table; positive.

    Raises:
        OptionError: if there is no table, a table names an unknown column or one twice,
            or a weight is no positive finite float32.

    Examples:
        >>> import numpy as np
        >>> from noisegate.queries.binning import NumericBins
        >>> from noisegate.queries.contingency import Contingency
        >>> from noisegate.records import Rows
        >>> records = Rows(np.array([[0.2], [0.9]]), np.array([[1], [1]], np.int32))
        >>> bins = (NumericBins(cuts=(0.5,)),)
        >>> tables = ((1,), (0, 1))
        >>> feature_map = Contingency(
        ...     bins=bins, coded=(2,), tables=tables, weights=(1.0, 3.0)
        ... )
        >>> feature_map(records).tolist()
        [[0.0, 1.0, 0.0, 3.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0, 3.0]]
        >>> feature_map.counts(feature_map(records).sum(axis=0))[1].tolist()
        [[0.0, 1.0], [0.0, 1.0]]
    """

    bins: tuple[NumericBins, ...]
    coded: tuple[int, ...]
    tables: Tables
    weights: tuple[float, ...]
    nonnegative: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Checks tables and weights."""
        if not self.tables or len(self.tables) != len(self.weights):
            raise OptionError(
                f"tables and weights: {len(self.tables)} tables and "
                f"{len(self.weights)} weights; give at least one table, and one weight "
                "for each."
            )
        if any(code_count < 1 for code_count in self.coded):
            raise OptionError(
                f"coded={self.coded!r}: every coded column has at least one code."
            )
        for table, weight in zip(self.tables, self.weights, strict=True):
            self._check_columns(table)
            _check_weight(table, weight)

    def _check_columns(self, table: tuple[int, ...]) -> None:
        """Refuses a table with too many, unknown or repeated columns."""
        column_count = len(self.sizes)
        is_known = all(column in range(column_count) for column in table)
        is_distinct = len(set(table)) == len(table)
        if len(table) > MAX_COLUMNS or not is_distinct or not is_known:
            raise OptionError(
                f"table {table!r}: expected at most {MAX_COLUMNS} different columns, "
                f"numbered from 0 to {column_count - 1}, numeric ones first."
            )

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each column."""
        return (*(bins.size for bins in self.bins), *self.coded)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Index at which each table's block begins in a vector, and the last ends."""
        cell_counts = (
            math.prod(self.sizes[column] for column in table) for table in self.tables
        )
        return tuple(accumulate(cell_counts, initial=0))

    @property
    def dim(self) -> int:
        """Number of cells of all tables."""
        return self.starts[-1]

    @cached_property
    def norm(self) -> float:
        """Norm of every vector, √(Σ weight²)."""
        return math.hypot(*self.weights)

    def codes(self, records: EncodedTable) -> npt.NDArray[np.int32]:
        """Finds the cell of each record in each column; see `column_cells`."""
        return column_cells(self.bins, records)

    def __call__(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Computes the vectors of records.

        Returns:
            For each table its weight at the record's cell and zero elsewhere,
            (rows, dim).
        """
        vectors = np.zeros((len(records), self.dim), dtype=np.float32)
        codes = self.codes(records)
        row_indices = np.arange(len(records))
        blocks = zip(self.tables, self.weights, self.starts[:-1], strict=True)
        for table, weight, start in blocks:
            vectors[row_indices, start + self.cells(codes, table)] = weight
        return vectors

    def cells(
        self, codes: npt.NDArray[np.int32], table: tuple[int, ...]
    ) -> npt.NDArray[np.intp]:
        """Finds the cell of each record in one table.

        Args:
            codes: The cell of each record in each column, (rows, columns).
            table: Columns of the table.

        Returns:
            Indices in the flattened table, whose last column varies fastest, (rows,).
        """
        cells = np.zeros(len(codes), dtype=np.intp)
        for column in table:
            cells *= self.sizes[column]
            cells += codes[:, column]
        return cells

    def integer_weights(self, grid: Grid) -> npt.NDArray[np.int64]:
        """Returns the weight of each table in grid units, rounded toward zero.

        Args:
            grid: The grid on which the gate sums.

        Returns:
            Weights, (tables,), at least `MIN_WEIGHT`.

        Raises:
            OptionError: if the vectors would leave the ball of the grid, or a weight is
                too small for it.
        """
        # These are the operations of `Grid.quantise` on each coordinate. What is beyond
        # the ball becomes one unit more than its radius, and is refused below.
        with np.errstate(over="ignore"):
            scaled = np.asarray(self.weights, dtype=np.float32) * np.float32(grid.scale)
        radius = grid.bound.units
        weights: npt.NDArray[np.int64] = np.minimum(
            scaled, np.float32(radius + 1)
        ).astype(np.int64)

        # In integers of Python, which never overflow.
        squared_norm = sum(weight * weight for weight in weights.tolist())
        if squared_norm > radius * radius:
            raise OptionError(
                f"the vectors of the contingency tables have norm {self.norm:g}, the "
                f"query was planned with norm={grid.norm:g}; plan it with the norm of "
                "its map, or a larger one."
            )
        lightest = int(weights.argmin())
        if weights[lightest] < MIN_WEIGHT:
            raise OptionError(
                f"table {self.tables[lightest]!r}: its weight "
                f"{self.weights[lightest]:g} is too small beside the norm "
                f"{grid.norm:g} of all, below {MIN_WEIGHT / grid.scale:g}; give it "
                "more weight, or leave it out."
            )
        return weights

    def exact_sum(self, grid: Grid) -> ExactSum | None:
        """Returns how vectors are summed on a grid: by counting; see `ExactMap`.

        Returns:
            The sum; None for a grid with a centre, where zeros are not zero.

        Raises:
            OptionError: as `integer_weights`.
        """
        if grid.centre is not None:
            return None
        weights = self.integer_weights(grid).tolist()

        def add(sums: npt.NDArray[np.int64], records: EncodedTable) -> None:
            self._add_counts(sums, records, weights)

        return ExactSum(
            squared_norm=sum(weight * weight for weight in weights),
            add=add,
            weighted=True,
        )

    def _add_counts(
        self,
        sums: npt.NDArray[np.int64],
        records: EncodedTable,
        weights: list[int],
    ) -> None:
        """Adds the vectors of records to sums, in grid units.

        Records are counted table by table, which gives the same integers as adding
        vectors and builds none. A change must keep that a record adds to one cell of
        each table, and that its cells follow from that record alone.

        Args:
            sums: The sums, (dim,); changed in place.
            records: The records, which may have weights.
            weights: Weight of each table in grid units.
        """
        codes = self.codes(records)
        parts = records.weights if isinstance(records, WeightedRows) else None
        with _COUNTING_LOCK:
            # `np.bincount` takes indices of this type without a copy.
            columns = codes.T.astype(np.intp)
            cells = np.empty(len(records), dtype=np.intp)
            # Tables that differ in the last column alone follow each other often. They
            # share the cells of the columns before.
            prefix: tuple[int, ...] = ()
            prefix_cells = self.cells(codes, prefix)
            for index, table in enumerate(self.tables):
                table_sums = sums[self.starts[index] : self.starts[index + 1]]
                if table:
                    if table[:-1] != prefix:
                        prefix = table[:-1]
                        prefix_cells = self.cells(codes, prefix)
                    np.multiply(prefix_cells, self.sizes[table[-1]], out=cells)
                    cells += columns[table[-1]]
                    _add_weighted_counts(table_sums, cells, weights[index], parts)
                else:
                    table_sums += _weigh_records(len(records), weights[index], parts)

    def counts(self, values: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
        """Splits a sum of vectors into tables of counts of records.

        Args:
            values: The sum, exact or noisy, (dim,) or (dim, 1).

        Returns:
            One array for each table, with an axis for each of its columns.
        """
        tables = zip(self.tables, self.weights, pairwise(self.starts), strict=True)
        return [
            (values[start:end] / weight).reshape(
                [self.sizes[column] for column in table]
            )
            for table, weight, (start, end) in tables
        ]


def _check_weight(table: tuple[int, ...], weight: float) -> None:
    """Refuses a weight that is not positive and finite as a float32, as vectors are."""
    is_in_range = 0 < weight <= float(np.finfo(np.float32).max)
    if not is_in_range or np.float32(weight) == 0:
        raise OptionError(
            f"table {table!r}: its weight {weight!r} must be a positive finite number."
        )


def _add_weighted_counts(
    table_sums: npt.NDArray[np.int64],
    cells: npt.NDArray[np.intp],
    weight: int,
    parts: npt.NDArray[np.int64] | None,
) -> None:
    """Adds records to the sums of one table.

    A record that weighs 1 adds the weight a of the table to its cell, and one that
    weighs w / `WHOLE` adds ⌊a w / `WHOLE`⌋ (G-31). The sums are exact:

    - a is at most 2²², the radius `UNITS` of the ball: `integer_weights` refuses more.
    - w is at most `WHOLE` = 2²⁰: `WeightedRows` refuses more. So a w is at most 2⁴², in
      64 bits, and what a record adds is at most 2²², below 2²³.
    - `np.bincount` with weights adds up in float64, in which integers up to 2⁵³ are
      exact: `_MAX_WEIGHTED_ROWS` records, 2³⁰, of less than 2²³ each. Sources take
      32,768 at a time; a batch of more rows is refused.
    - The sums of all batches are int64, whose number of records is limited by
      `privacy.grid.check_record_limit`.

    Args:
        table_sums: Sums of the table's cells, (cells,); changed in place.
        cells: The cell of each record, (rows,). NumPy refuses one that the table has
            not, as its counts would be longer than the sums.
        weight: Weight of the table, in grid units.
        parts: What each record weighs, in units of 1/`WHOLE`, (rows,); None if all
            weigh 1.

    Raises:
        OverflowError: if a batch of weighed records has too many rows.
    """
    if parts is None:
        table_sums += weight * np.bincount(cells, minlength=len(table_sums))
    else:
        if len(cells) > _MAX_WEIGHTED_ROWS:
            raise OverflowError(
                f"a batch of more than {_MAX_WEIGHTED_ROWS:,} weighed rows: their sums "
                "could leave what floating point holds exactly."
            )
        record_weights = weight * parts >> _WHOLE_BITS
        # Exact in float64, see above.
        sums = np.bincount(cells, record_weights, minlength=len(table_sums))
        table_sums += sums.astype(np.int64)


def _weigh_records(
    row_count: int, weight: int, parts: npt.NDArray[np.int64] | None
) -> int:
    """Returns what records add to the table without columns, in grid units.

    It is the sum of what `_add_weighted_counts` adds to a cell, exact in int64.

    Args:
        row_count: Number of records.
        weight: Weight of the table, in grid units.
        parts: What each record weighs, in units of 1/`WHOLE`, (rows,); None if all
            weigh 1.
    """
    if parts is None:
        return weight * row_count
    return int((weight * parts >> _WHOLE_BITS).sum())


def column_cells(
    bins: tuple[NumericBins, ...], records: EncodedTable
) -> npt.NDArray[np.int32]:
    """Finds the cell of each record in each column.

    Args:
        bins: Bins of each numeric column.
        records: The records.

    Returns:
        Cells, numeric columns first, (rows, columns). Each column is contiguous in
        memory.
    """
    column_count = len(bins) + records.codes.shape[1]
    cells = np.empty((column_count, len(records)), dtype=np.int32)
    for column, column_bins in enumerate(bins):
        cells[column] = column_bins.codes(records.numeric[:, column])
    cells[len(bins) :] = records.codes.T
    return cells.T


def equally_weighted(
    bins: tuple[NumericBins, ...],
    coded: tuple[int, ...],
    tables: Sequence[tuple[int, ...]],
) -> Contingency:
    """Returns the map of tables with equal weights, whose vectors have norm 1.

    The norm is the same for any tables, so that a query can be planned before they are
    chosen.
    """
    weight = 1 / math.sqrt(len(tables))
    return Contingency(
        bins=bins, coded=coded, tables=tuple(tables), weights=(weight,) * len(tables)
    )


def check_groups(columns: int, setting: str, instead: str, *, size: int = 2) -> None:
    """Refuses a table with more groups of columns than a method can consider.

    Args:
        columns: Number of columns.
        setting: The setting or method that considers all groups, for the message.
        instead: What to give in its place, for the message.
        size: Columns in a group.

    Raises:
        OptionError: if there are more than `MAX_GROUPS` groups.
    """
    group_count = math.comb(columns, size)
    if group_count > MAX_GROUPS:
        raise OptionError(
            f"{setting}: {columns:,} columns have {group_count:,} groups of "
            f"{size}, and at most {MAX_GROUPS:,} are supported. Give {instead}, or "
            "put columns that are not needed under `ignore` in the schema."
        )


def tables_up_to(
    sizes: tuple[int, ...], *, degree: int, max_cells: float = math.inf
) -> Tables:
    """Returns the largest tables of up to `degree` columns that are not too large.

    Columns of a single cell are left out. A table that is part of another one is too.

    Args:
        sizes: Number of cells of each column.
        degree: Most columns of a table.
        max_cells: Most cells of a table; one column may have more.

    Returns:
        Columns of each table, those of most columns first.

    Examples:
        >>> from noisegate.queries.contingency import tables_up_to
        >>> tables_up_to((2, 3, 50), degree=2, max_cells=100)
        ((0, 1), (0, 2))
    """
    columns = [column for column, size in enumerate(sizes) if size > 1]
    tables: list[tuple[int, ...]] = []
    parts_of_tables: set[tuple[int, ...]] = set()
    for column_count in range(min(degree, len(columns)), 0, -1):
        for table in combinations(columns, column_count):
            if table in parts_of_tables:
                continue
            cell_count = math.prod(sizes[column] for column in table)
            if column_count > 1 and cell_count > max_cells:
                continue
            tables.append(table)
            parts_of_tables.update(
                part
                for part_size in range(1, column_count)
                for part in combinations(table, part_size)
            )
    return tuple(tables)
