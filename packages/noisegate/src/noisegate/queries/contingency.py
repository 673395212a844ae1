"""Contingency tables: a record's vector is the weighted indicator of the cell it falls in, one cell for each table.

Its norm is √(Σ weight²) whatever the record says. Sums are weight times count, in integers (G-12); of a weighted
record, table t gets ``integer_weights[t]`` times its part of the whole, rounded toward zero (G-31).

So a vector has the norm √(Σ weight²) whatever the record says: nothing is ever clipped,
and a table with a larger weight gets less noise in proportion. A table of no column is
the number of records. Sums are weight times count, in integers (G-12); of a weighted
record, table t gets `integer_weights[t]` times its part of the whole, rounded toward
zero (G-31).
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

MOST_COLUMNS = 4
# Rounding toward zero takes at most 0.4 % from a larger one, and a table of so small a weight has far more noise.
LEAST_WEIGHT = 256
_WHOLE = WHOLE.bit_length() - 1
# NumPy holds the interpreter lock while it counts; threads that took turns at every table would lose half their time.
_COUNTING_LOCK = threading.Lock()


@dataclass(frozen=True, kw_only=True, eq=False)
class Contingency:
    """The map from a record to its cells. Everything in it is public.

    Columns are numbered as in the layout, numeric ones first: column i is ``bins[i]``, and column len(bins) + j is the
    coded column j. The gate counts cells in integers and never builds the vectors of `__call__`, which defines them. An
    OptionError if there is no table, a table names an unknown column or one twice, or a weight is unusable.
    """

    bins: tuple[NumericBins, ...]  # cells of each numeric column of the layout
    coded: tuple[int, ...]  # number of codes of each coded column of the layout
    tables: tuple[
        tuple[int, ...], ...
    ]  # columns of each, at most four, each once; () is the number of records
    weights: tuple[
        float, ...
    ]  # of each table the value at the cell that a record falls in, positive
    nonnegative: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.tables or len(self.tables) != len(self.weights):
            cure = "give at least one table, and one weight for each."
            raise OptionError(
                f"tables and weights: {len(self.tables)} tables and {len(self.weights)} weights; {cure}"
            )
        if any(size < 1 for size in self.coded):
            raise OptionError(
                f"coded={self.coded!r}: every coded column has at least one code."
            )
        known = range(len(self.sizes))
        for table in self.tables:
            if (
                len(table) > MOST_COLUMNS
                or len(set(table)) != len(table)
                or any(c not in known for c in table)
            ):
                raise OptionError(
                    f"table {table!r}: expected at most {MOST_COLUMNS} different columns, numbered from 0 to "
                    f"{len(self.sizes) - 1}, numeric ones first."
                )
        for table, weight in zip(self.tables, self.weights, strict=True):
            # The vectors are float32, so that is where a weight must be a number.
            if (
                not 0 < weight <= float(np.finfo(np.float32).max)
                or np.float32(weight) == 0
            ):
                raise OptionError(
                    f"table {table!r}: its weight {weight!r} must be a positive finite number."
                )

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each column."""
        return (*(bins.size for bins in self.bins), *self.coded)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the cells of each table begin in a vector, and the end of the last."""
        sizes = (
            math.prod(self.sizes[column] for column in table) for table in self.tables
        )
        return tuple(accumulate(sizes, initial=0))

    @property
    def dim(self) -> int:
        """Number of cells of all tables."""
        return self.starts[-1]

    @cached_property
    def norm(self) -> float:
        """Norm of every vector, √(Σ weight²)."""
        return math.hypot(*self.weights)

    def codes(self, records: EncodedTable) -> npt.NDArray[np.int32]:
        """Returns the cell of each record in each column, (rows, columns), each column contiguous in memory."""
        return column_cells(self.bins, records)

    def __call__(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Returns the vectors, (rows, dim): in each table its weight at the record's cell, and zero elsewhere."""
        vectors = np.zeros((len(records), self.dim), dtype=np.float32)
        codes, rows = self.codes(records), np.arange(len(records))
        for table, weight, start in zip(
            self.tables, self.weights, self.starts[:-1], strict=True
        ):
            vectors[rows, start + self.cells(codes, table)] = weight
        return vectors

    def cells(
        self, codes: npt.NDArray[np.int32], table: tuple[int, ...]
    ) -> npt.NDArray[np.intp]:
        """Returns the cell of each record in one table, (rows,), counted with its last column fastest."""
        cells = np.zeros(len(codes), dtype=np.intp)
        for column in table:
            cells *= self.sizes[column]
            cells += codes[:, column]
        return cells

    def integer_weights(self, grid: Grid) -> npt.NDArray[np.int64]:
        """Returns weights in grid units, (tables,); an OptionError if a vector leaves the ball or one rounds away."""
        # The operations of `Grid.quantise` on each coordinate.
        with np.errstate(over="ignore"):
            scaled = np.asarray(self.weights, dtype=np.float32) * np.float32(grid.scale)
        units = grid.bound.units
        weights: npt.NDArray[np.int64] = np.minimum(
            scaled, np.float32(units + 1)
        ).astype(np.int64)
        if sum(weight * weight for weight in weights.tolist()) > units * units:
            raise OptionError(
                f"the vectors of the contingency tables have norm {self.norm:g}, the query was planned with "
                f"norm={grid.norm:g}; plan it with the norm of its map, or a larger one."
            )
        least = int(weights.argmin())
        if weights[least] < LEAST_WEIGHT:
            raise OptionError(
                f"table {self.tables[least]!r}: its weight {self.weights[least]:g} is too small beside the norm "
                f"{grid.norm:g} of all, below {LEAST_WEIGHT / grid.scale:g}; give it more weight, or leave it out."
            )
        return weights

    def exact_sum(self, grid: Grid) -> ExactSum | None:
        """Returns the counts of cells, each times its weight in grid units; see `ExactMap`."""
        if grid.centre is not None:
            return None
        weights = self.integer_weights(grid).tolist()

        def add(sums: npt.NDArray[np.int64], records: EncodedTable) -> None:
            codes, parts = (
                self.codes(records),
                records.weights if isinstance(records, WeightedRows) else None,
            )
            with _COUNTING_LOCK:
                columns = codes.T.astype(np.intp)
                work = base = np.empty(len(records), dtype=np.intp)
                first: tuple[int, ...] | None = None
                for place, table in enumerate(self.tables):
                    cells = sums[self.starts[place] : self.starts[place + 1]]
                    each = None if parts is None else weights[place] * parts >> _WHOLE
                    if not table:
                        cells += (
                            weights[place] * len(records)
                            if each is None
                            else int(each.sum())
                        )
                        continue
                    if table[:-1] != first:
                        first, base = table[:-1], self.cells(codes, table[:-1])
                    np.multiply(base, self.sizes[table[-1]], out=work)
                    work += columns[table[-1]]
                    # A code that no column has would make this longer than the table, which NumPy refuses to add.
                    if each is None:
                        cells += weights[place] * np.bincount(
                            work, minlength=len(cells)
                        )
                    else:
                        # Whole numbers below 2²³, of which float64 adds up 2³⁰ exactly.
                        cells += np.bincount(work, each, minlength=len(cells)).astype(
                            np.int64
                        )

        return ExactSum(
            squared_norm=sum(weight * weight for weight in weights),
            add=add,
            weighted=True,
        )

    def counts(self, values: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
        """Returns each table of a (noisy) sum of vectors, (dim,), in records, shaped by the table's columns."""
        tables = zip(self.tables, self.weights, pairwise(self.starts), strict=True)
        return [
            (values[start:end] / weight).reshape(
                [self.sizes[column] for column in table]
            )
            for table, weight, (start, end) in tables
        ]


def column_cells(
    bins: tuple[NumericBins, ...], records: EncodedTable
) -> npt.NDArray[np.int32]:
    """Returns the cell of each record in each column, (rows, columns), each column contiguous in memory."""
    codes = np.empty((len(bins) + records.codes.shape[1], len(records)), dtype=np.int32)
    for place, each in enumerate(bins):
        codes[place] = each.codes(records.numeric[:, place])
    codes[len(bins) :] = records.codes.T
    return codes.T


def equally_weighted(
    bins: tuple[NumericBins, ...],
    coded: tuple[int, ...],
    tables: Sequence[tuple[int, ...]],
) -> Contingency:
    """Returns the map of tables of equal weight and of norm 1 in all: known before the tables, or their number, are."""
    weight = 1 / math.sqrt(len(tables))
    return Contingency(
        bins=bins, coded=coded, tables=tuple(tables), weights=(weight,) * len(tables)
    )


MOST_GROUPS = 2_000_000
"""Most groups of columns that a method goes through: the pairs of 2,000 columns, gigabytes of counts at the gate."""
Tables = tuple[tuple[int, ...], ...]


def check_groups(columns: int, setting: str, instead: str, *, size: int = 2) -> None:
    """Refuses a table too wide for the `setting` that goes through its groups of columns; `instead` is the cure."""
    number = math.comb(columns, size)
    if number > MOST_GROUPS:
        raise OptionError(
            f"{setting}: {columns:,} columns have {number:,} groups of {size}, and at most {MOST_GROUPS:,} are gone "
            f"through. Give {instead}, or put columns that are not needed under `ignore` in the schema."
        )


def tables_up_to(
    sizes: tuple[int, ...], *, degree: int, most_cells: float = math.inf
) -> Tables:
    """Returns all tables of `degree` columns with more than one cell; where too large, their parts that are not."""
    columns = [column for column, size in enumerate(sizes) if size > 1]
    tables: list[tuple[int, ...]] = []
    covered: set[tuple[int, ...]] = set()
    for count in range(min(degree, len(columns)), 0, -1):
        for table in combinations(columns, count):
            if table in covered or (
                count > 1 and math.prod(sizes[column] for column in table) > most_cells
            ):
                continue
            tables.append(table)
            covered |= {
                part for n in range(1, count) for part in combinations(table, n)
            }
    return tuple(tables)
