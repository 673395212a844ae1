"""What a release says of some columns: sums of products of their terms, each with its noise and what it may be off by.

Two sources are weighed by how far each is off: second moments that the plan asked for, and tables of counts, in which
a number stands for the mean of its cell. The noise is Gaussian of a known variance, independent between entries but
for what margins share; what a table may be off by is the width of its cells (see `_CELL_CORRELATION`).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.answers.measurements import Measurements
from noisegate.answers.noisy_table import NoisyTable
from noisegate.answers.released import Floats
from noisegate.errors import OptionError, UserError
from noisegate.methods.registry import method_of
from noisegate.models.synthesizer import Synthesizer
from noisegate.models.within_cell import WithinCell
from noisegate.privacy.events import Adjacency
from noisegate.queries.binning import NumericBins
from noisegate.queries.moments import Moments, moments_of
from noisegate.schema import EncodedTable, NumericColumn
from noisegate.schema.layout import bound_positions, bounds_of
from noisegate.seeds import public_random

_CELL_CORRELATION = 0.5  # what two numbers within the same cells may be correlated by
_EXCESS = 0.25  # how far a number that is clipped lies beyond its range, in half ranges
# Part of the records that may lie beyond a range for its moments to be used, and for its cells to tell anything.
_MOST_BEYOND, _DROWNED = 0.03, 0.25
_SAMPLE = 20_000  # records of the model, for how much sums vary between samples of a population
# How far the mean within a cell may be off, in its standard deviations: it follows from a noisy histogram.
_MEAN_ERROR, _SQUARE_ERROR = 0.4, 0.5


class NotMeasuredError(OptionError):
    """The release has no answer, as columns were not measured, or not together."""


class DrownedError(Exception):
    """The noise hides in which range a column lies; its name."""


Columns = tuple[int, ...]
Causes = dict[
    Any, float
]  # what a value may be off by beside its noise: standard deviations, by what each comes from


@dataclass(frozen=True, kw_only=True)
class Sums:
    """What is known of the sums of the entries of a map, (dim,) each."""

    terms: Moments
    values: Floats
    variance: Floats  # of the noise
    bias: Floats  # what each may be off by beside, by its independent causes, (dim, causes)
    clipped: tuple[str, ...]

    def matrix(self, values: Floats) -> Floats:
        """Returns the products of all terms by all, (1 + terms, 1 + terms), of sums of entries."""
        left, right = self.terms.entries
        found = np.zeros((len(self.terms.terms) + 1,) * 2)
        found[left, right] = found[right, left] = values
        alone = values[: len(found)]
        for at, (column, code) in enumerate(self.terms.terms):
            if code is not None:  # what is 0 or 1 is its own square
                found[at + 1, at + 1] = alone[at + 1]
            elif (column, -1) in self.terms.terms:  # a number is 0 where it is missing
                found[at + 1, at + 2] = found[at + 2, at + 1] = alone[at + 1]
        return found


class Evidence:
    """What the release of a model says; an OptionError if it is not of one table, or its method released none."""

    def __init__(self, model: Synthesizer) -> None:
        if model.schema.images is not None:
            raise OptionError(
                "infer answers from models of tables; this one is of images."
            )
        self.layout, release = model.schema.layout, model.release
        try:
            self._method: Any = method_of(release.certificate)
            self.bins, self.tables = self._method.released_tables(release)
        except UserError as error:
            raise OptionError(
                f"infer needs what the method of the model released: {error}"
            ) from None
        if not self.tables:
            says = f"method={release.certificate.method!r} released no counts that answers could rest on"
            raise OptionError(f"{says}; fit with 'pairwise', the default of tables.")
        moments = getattr(self._method, "released_moments", lambda _: None)(release)
        self._moments: Moments | None = None
        if moments is not None:
            self._moments, self._sums, self._moments_std = moments
        public = release.certificate.public
        exact = (
            release.certificate.adjacency is Adjacency.REPLACE_ONE
            and public.get("records") is not None
        )
        self._known = float(public["records"]) if exact else None
        self._model = model
        self.names = [
            column.name for column in (*self.layout.numeric, *self.layout.coded)
        ]

    @cached_property
    def measurements(self) -> Measurements:
        """All that the release states, as tables of named columns."""
        measurements: Measurements = self._method.measurements(self._model.release)
        return measurements

    @cached_property
    def records(self) -> tuple[float, float]:
        """The number of records, and the variance of its noise."""
        if self._known is not None:
            return self._known, 0.0
        found = [
            (float(table.counts.sum()), table.counts.size * table.noise_std**2)
            for table in self.tables
        ]
        if self._moments is not None:
            found.append((float(self._sums[0]), self._moments_std**2))
        return _weighed([(value, variance, {}) for value, variance in found])[:2]

    @cached_property
    def sample(self) -> EncodedTable:
        """Records of the model."""
        return self._model.model.draw(_SAMPLE, public_random(0))

    def column(self, name: str) -> int:
        """Returns the number of a column, numeric ones first; an OptionError if there is none."""
        if name not in self.names:
            raise OptionError(
                f"no column {name!r}; the columns are {', '.join(self.names)}."
            )
        return self.names.index(name)

    def numeric(self, column: int) -> NumericColumn | None:
        """Returns a numeric column, or None of one with levels."""
        return (
            self.layout.numeric[column] if column < len(self.layout.numeric) else None
        )

    def levels(self, column: int) -> list[Any]:
        """Returns the levels of a coded column, None for missing."""
        coded = self.layout.coded[column - len(self.layout.numeric)]
        return [*coded.levels, *([None] * (coded.size - len(coded.levels)))]

    @cached_property
    def _tables_alone(self) -> Measurements:
        """What the release states without second moments.

        `sums` weighs these against estimates by tables, which must not hold them.
        """
        return replace(self.measurements, moments=None)

    def table(self, columns: Columns) -> NoisyTable | None:
        """Returns the counts of some columns by all tables that hold them.

        Args:
            columns: Numbers of the columns, in the order of the axes to be.

        Returns:
            The counts; None where no table holds the columns.
        """
        try:
            return self._tables_alone.best([self.names[column] for column in columns])
        except LookupError:
            return None

    def fine_counts(self, place: int) -> tuple[tuple[float, ...], Floats, float]:
        """Returns cuts, noisy counts and variance of the finest cells of a numeric column, missing left out."""
        found = self._first_round.get(place)
        if found:
            return found[0]
        bins, counted = self.bins[place], self.table((place,))
        if counted is None:
            raise NotMeasuredError(f"{self.names[place]!r} was not measured.")
        variance = float(counted.variance.max())
        return bins.cuts, counted.counts[: len(bins.cuts) + 1], variance

    def coarse_counts(self, place: int) -> list[tuple[NumericBins, Floats, float]]:
        """Returns the same of coarser histograms."""
        return [
            (NumericBins(cuts), counts, off)
            for cuts, counts, off in self._first_round.get(place, [])[1:]
        ]

    @cached_property
    def _first_round(self) -> dict[int, list[tuple[tuple[float, ...], Floats, float]]]:
        """The histograms that cells were cut from, the fine one first, by column."""
        read = getattr(self._method, "released_histograms", None)
        released: dict[int, Any] = {} if read is None else read(self._model.release)
        return {
            place: [
                (bins.cuts, table.counts[: len(bins.cuts) + 1], table.noise_std**2)
                for bins, table in found
            ]
            for place, found in released.items()
        }

    def linear(self, place: int) -> tuple[float, float]:
        """Returns what a numeric column is at position 0, and how much more at 1, as if its bounds were there."""
        column = self.layout.numeric[place]
        (start, stop), (low, high) = (
            bound_positions(column),
            map(float, bounds_of(column)),
        )
        slope = (high - low) / (stop - start)
        return low - start * slope, slope

    def sums(self, columns: Sequence[int]) -> Sums:
        """Returns all products of the terms of some columns; an OptionError if two were never measured together."""
        # A DrownedError if the noise hides where a number lies.
        columns = tuple(sorted(set(columns)))
        for one in () if self._moments is None else self._moments.numeric:
            if one.index in columns and one.tail > _DROWNED * self.records[0]:
                raise DrownedError(self.names[one.index])
        terms = moments_of(self.layout, columns, self._ranges)
        of = [(columns[column], code) for column, code in terms.terms]
        known = self._by_moments()
        (values, variance), causes = np.empty((2, terms.dim)), []
        for entry, (left, right) in enumerate(zip(*terms.entries, strict=True)):
            key = tuple(of[at - 1] for at in (left, right) if at)
            found = [known[key]] if key in known else []
            if entry == 0:
                found = [(*self.records, {})]
            elif (counted := self._by_tables(key, terms)) is not None:
                found.append(counted)
            if not found and (
                hidden := [
                    self.names[column]
                    for column, code in key
                    if (column, code) in self._hidden
                ]
            ):
                raise DrownedError(hidden[0])
            if not found:
                names = list(
                    dict.fromkeys(repr(self.names[column]) for column, _ in key)
                )
                how = (
                    "was not measured"
                    if len(names) == 1
                    else "were not measured together"
                )
                raise NotMeasuredError(
                    f"{' and '.join(names)} {how}, so this release has no answer. Ask for second moments next time, by "
                    "the setting moments_share=0.43 of method='pairwise', or for all pairs, by pairs='all'."
                )
            values[entry], variance[entry], off = _weighed(found)
            causes.append(off)
        causes = [
            off | extra
            for off, extra in zip(causes, _clipped(terms, values), strict=True)
        ]
        names = sorted({cause for off in causes for cause in off}, key=repr)
        bias = np.array([[off.get(name, 0.0) for name in names] for off in causes])
        clipped = tuple(
            f"{self.names[one.index]} outside {low:g} to {high:g} counts as the nearer of these"
            for one in terms.numeric
            if (one.low, one.high) != (one.start, one.stop)
            for low, high in [
                tuple(np.polyval(self.linear(one.index)[::-1], [one.low, one.high]))
            ]
        )
        return Sums(
            terms=terms, values=values, variance=variance, bias=bias, clipped=clipped
        )

    @cached_property
    def _ranges(self) -> dict[int, tuple[float, float, float]]:
        """Ranges of the numbers of moments and about how many records lie beyond, of columns where these are few."""
        asked, most = (
            (() if self._moments is None else self._moments.numeric),
            _MOST_BEYOND * self.records[0],
        )
        return {
            one.index: (one.low, one.high, one.tail)
            for one in asked
            if one.tail <= most
        }

    def _by_moments(
        self,
    ) -> dict[tuple[tuple[int, int | None], ...], tuple[float, float, Causes]]:
        """Returns value, variance of the noise and no bias of each entry that was asked for, by its terms."""
        if (asked := self._moments) is None:
            return {}
        first = len(self.layout.numeric)
        at = [
            *(one.index for one in asked.numeric),
            *(first + place for place, _ in asked.coded),
        ]
        of = [(at[column], code) for column, code in asked.terms]
        keys = [
            tuple(of[term - 1] for term in pair if term)
            for pair in zip(*(e.tolist() for e in asked.entries), strict=True)
        ]
        return {
            key: (float(value), self._moments_std**2, {})
            for key, value in zip(keys, self._sums, strict=True)
            if not self._hidden.intersection(key)
        }

    @cached_property
    def _hidden(self) -> set[tuple[int, int | None]]:
        """The terms whose moments are within ranges beyond which many records may lie."""
        asked = () if self._moments is None else self._moments.numeric
        return {(one.index, None) for one in asked if one.index not in self._ranges}

    def _by_tables(
        self, key: tuple[tuple[int, int | None], ...], terms: Moments
    ) -> tuple[float, float, Causes] | None:
        """Returns value, variance of the noise and possible bias of an entry by the tables of its columns."""
        columns = tuple(dict.fromkeys(column for column, _ in key))
        counted = self.table(columns)
        if counted is None:
            return None
        each = [self._cells(column, code, terms) for column, code in key]
        if len(key) == 2 and len(columns) == 1:  # z²
            means, errors, deviations = each[0]
            each = [
                (
                    means**2 + deviations**2,
                    2 * np.abs(means) * errors
                    + errors**2
                    + _SQUARE_ERROR * deviations**2,
                    np.zeros_like(means),
                )
            ]
        if len(each) == 1:
            means, errors, _ = each[0]
            off = _of_cells(columns[0], key, counted.counts * errors)
            sums, variance = counted.contract({self.names[columns[0]]: means[:, None]})
            return float(sums[0]), float(variance[0]), off
        (a, a_off, a_std), (b, b_off, b_std) = each
        # Errors of means differ from cell to cell; that two numbers go together within cells is everywhere the same.
        off = _of_cells(columns[0], None, counted.counts @ b * a_off)
        off |= _of_cells(columns[1], None, a @ counted.counts * b_off)
        if columns[0] < len(
            self.layout.numeric
        ):  # levels are no cells: two columns of them are counted as they are
            off[key] = _CELL_CORRELATION * float(
                a_std @ np.maximum(counted.counts, 0) @ b_std
            )
        first, second = (self.names[column] for column in columns)
        sums, variance = counted.contract({first: a[:, None], second: b[:, None]})
        return float(sums[0, 0]), float(variance[0, 0]), off

    def _cells(
        self, column: int, code: int | None, terms: Moments
    ) -> tuple[Floats, Floats, Floats]:
        """Returns of a term in each cell of its column the mean, what that may be off by, and the deviation within."""
        if column >= len(self.layout.numeric):
            found = np.eye(self.layout.coded[column - len(self.layout.numeric)].size)[
                code
            ]
            return found, np.zeros_like(found), 0.5 * found
        bins = self.bins[column]
        if code == -1:
            present = np.arange(bins.size) <= len(bins.cuts)
            return present.astype(np.float64), np.zeros(bins.size), np.zeros(bins.size)
        scaled = next(one for one in terms.numeric if one.index == column)
        low, high, shares, of = self._fine(column, bins)
        z_low, z_high = (
            np.clip(
                (2 * at - scaled.low - scaled.high) / (scaled.high - scaled.low), -1, 1
            )
            for at in (low, high)
        )
        middle, width = (z_low + z_high) / 2, z_high - z_low
        size = bins.size
        means: Floats = np.bincount(of, shares * middle, size).astype(np.float64)
        squares = np.bincount(of, shares * (middle**2 + width**2 / 12), size)
        deviations = np.sqrt(np.maximum(squares - means**2, 0))
        return (
            means,
            np.hypot(
                np.bincount(of, shares * width, size) / 4, _MEAN_ERROR * deviations
            ),
            deviations,
        )

    def _fine(
        self, column: int, bins: NumericBins
    ) -> tuple[Floats, Floats, Floats, npt.NDArray[np.int32]]:
        """Returns ends, share and cell of each fine cell: of the model where it has them, else cells as they are."""
        mixture = getattr(self._model.model, "mixture", self._model.model)
        within: Sequence[WithinCell] = getattr(mixture, "within", ())
        if len(within) > column and within[column].bins == bins:
            one = within[column]
            return one.low, one.high, one.shares, one.bin_of
        edges = np.asarray([0.0, *bins.cuts, 1.0])
        return (
            edges[:-1],
            edges[1:],
            np.ones(len(edges) - 1),
            np.arange(len(edges) - 1, dtype=np.int32),
        )


def _clipped(terms: Moments, values: Floats) -> Iterator[Causes]:
    """Yields what each entry may be off by since numbers are clipped, by `_EXCESS` for each record beyond the range."""
    alone, squares = values[: len(terms.terms) + 1] / max(values[0], 1.0), {}
    tails = [0.0] + [
        math.sqrt(2) * terms.numeric[at].tail if code is None else 0.0
        for at, code in terms.terms
    ]
    for entry, (left, right) in enumerate(zip(*terms.entries, strict=True)):
        if left == right:
            squares[left] = math.sqrt(
                max(float(values[entry]) / max(values[0], 1.0), 0.0)
            )
    for left, right in zip(*terms.entries, strict=True):
        sizes = {
            at: squares.get(at, abs(float(alone[at]))) if at else 1.0
            for at in (left, right)
        }
        off = (
            {("clipped", left, left == right): _EXCESS * tails[left] * sizes[right]}
            if tails[left]
            else {}
        )
        if tails[right] and left != right:
            off["clipped", right, False] = _EXCESS * tails[right] * sizes[left]
        yield off


def _of_cells(column: int, key: Any, off: Floats) -> Causes:
    """Returns what the mean of a number within each cell may be off by; of squares, `key`, by other causes."""
    square = key if key is not None and len(key) == 2 else None
    return {
        (column, cell, square): float(each) for cell, each in enumerate(off) if each
    }


def _weighed(found: Sequence[tuple[Any, float, Causes]]) -> tuple[Any, float, Causes]:
    """Returns one estimate of several (value, variance, causes), weighted by how far each may be off."""
    weights = np.array(
        [
            1 / max(one[1] + sum(each * each for each in one[2].values()), 1e-12)
            for one in found
        ]
    )
    weights = weights / weights.sum()
    value = sum(weight * one[0] for weight, one in zip(weights, found, strict=True))
    variance = sum(
        weight**2 * one[1] for weight, one in zip(weights, found, strict=True)
    )
    off: Causes = {}
    for weight, (_, _, causes) in zip(weights.tolist(), found, strict=True):
        for cause, each in causes.items():
            off[cause] = off.get(cause, 0.0) + weight * each
    return value, float(variance), off
