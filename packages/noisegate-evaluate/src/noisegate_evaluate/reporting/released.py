"""What a release says of columns and pairs: noisy shares beside those of records that were drawn from the model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import combinations, pairwise, product

import numpy as np
import numpy.typing as npt

from noisegate.answers.released import Table, best_table
from noisegate.queries.binning import NumericBins
from noisegate.schema import (
    CodedColumn,
    Column,
    Continuous,
    Date,
    Datetime,
    EncodedTable,
    Layout,
    NumericColumn,
)
from noisegate.schema.layout import bound_positions

Floats = npt.NDArray[np.float64]
MISSING = "(missing)"
_CLOSE = 1e-9  # the width of a cell that holds a single real number
_ABSOLUTE = math.sqrt(2 / math.pi)  # the mean of |z| in standard deviations


@dataclass(frozen=True, kw_only=True)
class Released:
    """The tables of a release: noisy counts of columns, numeric ones first; and the number of records if public."""

    layout: Layout
    bins: Sequence[NumericBins]
    tables: Sequence[Table]
    known: float | None = None

    @cached_property
    def total(self) -> tuple[float, float] | None:
        """How many records there are, and twice the standard deviation of the noise on that; None if nothing says."""
        if self.known is not None:
            return self.known, 0.0
        best = best_table(self.tables, ())
        return None if best is None else (float(best[0]), 2 * best[1])

    @cached_property
    def records(self) -> float:
        """The same, at least 1: what counts are divided by."""
        return max(self.total[0], 1.0) if self.total else 1.0

    @cached_property
    def columns(self) -> list[Column]:
        """All columns, as tables number them."""
        return [*self.layout.numeric, *self.layout.coded]


@dataclass(frozen=True, kw_only=True)
class Marginal:
    """A table of some columns, cell by cell, in shares of the records."""

    columns: tuple[Column, ...]
    cells: Sequence[str]
    noisy: Floats  # as released
    two_sigma: float  # of the noise on a cell
    synthetic: Floats  # of the synthetic records
    drawn: int  # how many these are
    error: float  # records that noise alone puts into a wrong one, in the mean, before anything is denoised

    @property
    def name(self) -> str:
        """Those of the columns."""
        return " × ".join(column.name for column in self.columns)

    @property
    def variance(self) -> Floats:
        """What noise and draw do to each difference, as a variance."""
        return (self.two_sigma / 2) ** 2 + self.synthetic * (1 - self.synthetic) / max(
            self.drawn, 1
        )

    @property
    def explained(self) -> int:
        """How many cells differ by no more than two standard deviations of noise and draw together."""
        return int(
            (
                np.abs(self.noisy - self.synthetic)
                <= 2 * np.sqrt(self.variance) + 1e-12
            ).sum()
        )


@dataclass(frozen=True, kw_only=True)
class PairError:
    """How many records the noise alone puts into a wrong cell of a pair of columns, as a share; and its cells."""

    columns: tuple[str, str]
    cells: int
    error: float


def noisy_marginals(released: Released, drawn: EncodedTable) -> list[Marginal]:
    """Returns every column of which the release has a table, in the order of the tables' numbers."""
    by_column: dict[int, list[Table]] = {}
    for table in released.tables:
        for place in table.columns:
            by_column.setdefault(place, []).append(table)
    found = (
        (place, best_table(by_column.get(place, ()), (place,)))
        for place in range(len(released.columns))
    )
    return [
        _marginal(released, (place,), *best, drawn)
        for place, best in found
        if best is not None
    ]


def noisy_tables(released: Released, drawn: EncodedTable) -> list[Marginal]:
    """Returns every table as it was released."""
    shown = (
        (table.columns, table.counts, table.noise_std) for table in released.tables
    )
    return [_marginal(released, *table, drawn, apart=" · ") for table in shown]


def typical_error(several: Sequence[Marginal]) -> float:
    """Returns the root mean square error of a cell, in shares, beyond what noise and draw do to it."""
    squares = [np.square(one.noisy - one.synthetic) - one.variance for one in several]
    return math.sqrt(max(float(np.concatenate(squares).mean()), 0.0))


def _marginal(
    released: Released,
    places: tuple[int, ...],
    counts: Floats,
    std: float,
    drawn: EncodedTable,
    *,
    apart: str = "",
) -> Marginal:
    both = [_cells(released, place, drawn) for place in places]
    sizes = [len(names) for names, _ in both]
    # A long name is cut at its end, so what is short comes first.
    order = sorted(range(len(both)), key=lambda axis: max(map(len, both[axis][0])))
    names = [
        apart.join(cell[axis] for axis in order)
        for cell in product(*(names for names, _ in both))
    ]
    codes = np.ravel_multi_index(tuple(codes for _, codes in both), sizes)
    return Marginal(
        columns=tuple(released.columns[place] for place in places),
        cells=numbered(names),
        noisy=counts.ravel() / released.records,
        two_sigma=2 * std / released.records,
        synthetic=np.bincount(codes, minlength=len(names)) / max(len(codes), 1),
        drawn=len(codes),
        error=_misplaced(counts.size, std, released.records),
    )


def _cells(
    released: Released, place: int, drawn: EncodedTable
) -> tuple[list[str], npt.NDArray[np.int32]]:
    """Returns the names of a column's cells, and in which of them each record is."""
    layout = released.layout
    if place < len(layout.numeric):
        bins = released.bins[place]
        return cell_names(layout.numeric[place], bins), bins.codes(
            drawn.numeric[:, place]
        )
    coded = place - len(layout.numeric)
    return level_names(layout.coded[coded]), drawn.codes[:, coded]


def pair_errors(released: Released) -> list[PairError]:
    """Returns every pair of columns that a table of the release holds, by the table that says it best."""
    columns, found = released.columns, []
    by_pair: dict[tuple[int, int], list[Table]] = {}
    for table in released.tables:
        for pair in combinations(sorted(table.columns), 2):
            by_pair.setdefault(pair, []).append(table)
    for pair in sorted(by_pair):
        best = best_table(by_pair[pair], pair)
        assert best is not None
        counts, std = best
        names = columns[pair[0]].name, columns[pair[1]].name
        found.append(
            PairError(
                columns=names,
                cells=counts.size,
                error=_misplaced(counts.size, std, released.records),
            )
        )
    return found


def error_matrix(names: Sequence[str], errors: Sequence[PairError]) -> Floats:
    """Returns errors as a symmetric matrix, (names, names); NaN where a pair was not measured."""
    place = {name: number for number, name in enumerate(names)}
    matrix = np.full((len(names), len(names)), math.nan)
    for error in errors:
        first, second = (place[name] for name in error.columns)
        matrix[first, second] = matrix[second, first] = error.error
    return matrix


def _misplaced(cells: int, noise_std: float, records: float) -> float:
    return min(noise_std * cells * _ABSOLUTE / 2 / records, 1.0)


def at(column: NumericColumn, unit: float) -> str:
    """Returns the value at a position of a column, as the scale between its bounds says it: 4.2M, 0.35, 2024-05-01."""
    lower, upper = bound_positions(column)
    unit = (unit - lower) / (upper - lower)
    if isinstance(column, Date | Datetime):
        start, end = column.unit_bounds
        day = (
            timedelta(days=1) if isinstance(column, Date) else timedelta(microseconds=1)
        )
        moment = datetime(1970, 1, 1) + day * round(start + unit * (end - start))
        return f"{moment:%Y-%m-%d}"
    number = float(column.lower) + unit * (float(column.upper) - float(column.lower))
    for size, letter in ((1e9, "G"), (1e6, "M")):
        if size <= abs(number) < 1e13:
            return f"{number / size:.3g}{letter}"
    return f"{number:,.0f}" if 1e4 <= abs(number) < 1e6 else f"{number:.4g}"


def level_names(column: CodedColumn) -> list[str]:
    """Returns the name of each code of a column."""
    names = [str(level) for level in column.levels]
    return [*names, MISSING][: column.size]


def cell_names(column: NumericColumn, bins: NumericBins) -> list[str]:
    """Returns the name of each cell: the values between two cuts, or the one value that is there."""
    names = [
        span_name(column, low, high) or ""
        for low, high in pairwise((0.0, *bins.cuts, 1.0))
    ]
    return [*names, MISSING] if bins.nullable else names


def numbered(names: Sequence[str]) -> list[str]:
    """Returns names that differ: those that read alike get a number behind them."""
    seen: dict[str, int] = {}
    told = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        told.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return told


def span_name(column: NumericColumn, low: float, high: float) -> str | None:
    """Returns the values from one position up to another, the last bound with it; None where there are none."""
    if isinstance(column, Continuous):
        # A bound is a cell of its own, and the next one begins at the float64 above it.
        ends = (
            [round(low, 12)]
            if high - low < _CLOSE
            else [round(low, 12), round(high, 12)]
        )
    else:
        first = math.ceil(low * column.last_rank - _CLOSE)
        last = (
            column.last_rank
            if high == 1.0
            else math.ceil(high * column.last_rank - _CLOSE) - 1
        )
        if last < first:
            return None
        ends = [first / column.last_rank, last / column.last_rank]
    return " – ".join(dict.fromkeys(at(column, end) for end in ends))
