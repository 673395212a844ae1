"""Sums of products of some columns, as a release states them, and their errors.

Two sources state such a sum, and are weighted by how far each may be off:

- second moments that the plan asked for: noise alone;
- tables of counts, in which a number stands for the mean of its cell: noise, and a bias
  by the width of the cells.

The noise is Gaussian of known variance. Sums that contradict each other, such as those
of levels that do not add up to the records, are made to agree, which takes noise off
and leaves that of different sums correlated. A bias is stated as a standard deviation
for each of its independent causes, such as the mean within one cell, which the same
entry of several sums may share.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from noisegate.answers.domain import (
    CellProfile,
    Floats,
    HasCellProfiles,
    Level,
    NumberRange,
    number_ranges,
)
from noisegate.answers.logarithms import logarithmic_column, parse_logarithm
from noisegate.answers.measurements import Measurements
from noisegate.answers.noisy_moments import (
    MomentEstimates,
    ProductSums,
    Term,
)
from noisegate.answers.noisy_table import NoisyNumber
from noisegate.answers.reading import measurements_of, terms_of
from noisegate.errors import OptionError
from noisegate.privacy.release import Release
from noisegate.queries.moments import Moments, Ranges, ScaledNumber, moments_of
from noisegate.schema import EncodedTable, NumericColumn, Schema
from noisegate.schema.layout import (
    bounds_of,
    is_outer_atom,
    numbers_at,
    positions_of,
)
from noisegate.seeds import public_random

if TYPE_CHECKING:
    import torch

# What two numbers within the same cells may be correlated by.
_CELL_CORRELATION = 0.5
# How fast a tail falls off is read from the range's end and from where this part of the
# numbers, or so many times those beyond the end, are larger.
_BASE_PART = 0.1
_MIN_BASE_RATIO = 3.0
_MAX_BASE_PART = 0.5
# What an exponential tail has beyond a range, times this, counts as a standard error.
# Tails of normal numbers have .6 of it; lognormal ones, of a spread of 1, have 1.7.
_EXCESS_ERROR = 1.5
# The moments of a number are used if at most this part of the records may lie beyond
# its range. Beyond the second part, not even cells tell where the number lies.
_MAX_PART_BEYOND = 0.03
_MAX_PART_HIDDEN = 0.25
# Records of the model, by which sums vary between samples of a population.
_SAMPLE_SIZE = 20_000
# How far the mean of a number, and of its square, within a cell may be off, in standard
# deviations within the cell: they follow from a noisy histogram.
_MEAN_ERROR = 0.4
_SQUARE_ERROR = 0.5
# Keeps the weight of an exact estimate finite.
_MIN_VARIANCE = 1e-12

Causes = Mapping[Hashable, float]
"""What a sum may be off by beside its noise: a standard deviation for each cause."""


class NotMeasuredError(OptionError):
    """The release has no answer, as columns were not measured, or not together."""


class TooNoisyError(Exception):
    """A column is too noisy to be located; its message is the column."""


class DrawnModel(Protocol):
    """A distribution that records can be drawn from; see `models.record_model`."""

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Draws records."""
        ...


class ReleasedModel(Protocol):
    """A fitted model with the release that it was fitted to."""

    @property
    def schema(self) -> Schema:
        """Public schema of the records."""
        ...

    @property
    def release(self) -> Release:
        """The release."""
        ...

    @property
    def model(self) -> DrawnModel:
        """What was fitted."""
        ...


class SumEstimate(NamedTuple):
    """An estimate of a sum over the records.

    Attributes:
        value: The estimate.
        variance: Variance of its noise.
        bias: What it may be off by beside.
    """

    value: float
    variance: float
    bias: Causes


class FineCells(NamedTuple):
    """Parts of the cells of a numeric column, (fine,) each.

    Attributes:
        low: Lowest position of each part.
        high: Highest position.
        shares: Share of each part in its cell.
        cell_index: The cell of each part.
        is_amount: Whether a part holds numbers, and no atom outside the bounds.
    """

    low: Floats
    high: Floats
    shares: Floats
    cell_index: npt.NDArray[np.integer]
    is_amount: npt.NDArray[np.bool_]


class CellScores(NamedTuple):
    """What a term is in each cell of its column, (cells,) each.

    A number is 0 in a record that has none: a missing value, or an atom outside the
    bounds such as a limit.

    Attributes:
        means: Its mean over the records of the cell.
        errors: What the mean may be off by, as a standard deviation. It has a sign
            where numbers share a cell with an atom outside the bounds: if more of its
            records have a number, the sum of numbers is as much larger, or smaller.
        deviations: Its standard deviation within the cell.
    """

    means: Floats
    errors: Floats
    deviations: Floats


class Evidence:
    """What a release says, and records of the model for what it leaves open.

    Args:
        model: A model of one table.
        measurements: What its release states; None to read it.
        sample: Records of the model; None to draw some.

    Attributes:
        measurements: All that the release states.
        layout: The columns.

    Raises:
        OptionError: if the release is of images, or its method counts nothing.
    """

    def __init__(
        self,
        model: ReleasedModel,
        measurements: Measurements | None = None,
        sample: EncodedTable | None = None,
    ) -> None:
        self.layout = model.schema.layout
        if measurements is None:
            measurements = measurements_of(model.release)
        self.measurements: Measurements = measurements
        self._model = model
        self._sample = sample

    @cached_property
    def names(self) -> list[str]:
        """Names of all columns, numeric ones first."""
        return [column.name for column in (*self.layout.numeric, *self.layout.coded)]

    @property
    def weights(self) -> str | None:
        """The column of survey weights that the schema names, or None."""
        return self._model.schema.weights

    @property
    def label(self) -> str | None:
        """The label if it has levels, which tables then hold besides; else None."""
        label = self.layout.label
        return None if label is None else self.layout.coded[label].name

    def of_group(self, column: str, level: Level) -> Evidence:
        """Returns what the release says of the records with one level of a column.

        Args:
            column: A column with levels.
            level: One of them.
        """
        codes = self.sample.codes[:, self.layout.coded_places[column]]
        is_of_group = codes == self.levels(column).index(level)
        return Evidence(
            self._model,
            self.measurements.of_group(column, level),
            self.sample.rows(np.flatnonzero(is_of_group)),
        )

    @property
    def total(self) -> NoisyNumber:
        """The number of records."""
        return self.measurements.total

    @cached_property
    def sample(self) -> EncodedTable:
        """Records of the model, the same whenever they are asked for."""
        if self._sample is not None:
            return self._sample
        return self._model.model.draw(_SAMPLE_SIZE, public_random(0))

    def check_column(self, name: str) -> None:
        """Requires that a column of this name was measured; an OptionError if not."""
        if name in self.names:
            return
        if parse_logarithm(name, self.names) is not None:
            raise OptionError(
                f"{name!r}: logarithms are terms of means, correlations and "
                "regressions; this analysis takes the column itself."
            )
        for relation in self._model.schema.relations:
            if name in relation.computed:
                raise OptionError(
                    f"column {name!r} was not measured, as it is computed by the "
                    f"relation {relation!s}; the measured columns are "
                    f"{', '.join(self.names)}."
                )
        raise OptionError(
            f"no column {name!r}; the columns are {', '.join(self.names)}."
        )

    def check_term(self, name: str) -> None:
        """Requires a column that was measured, or the logarithm of one."""
        self.check_column(self.column_of_term(name))

    def column_of_term(self, name: str) -> str:
        """Returns the column of a term: its own name, or what the logarithm is of."""
        logarithm = parse_logarithm(name, self.names)
        return name if logarithm is None else logarithm.column

    def numeric_column(self, name: str) -> NumericColumn | None:
        """Returns a numeric column; None of one with levels, an OptionError of none.

        Args:
            name: Name of the column, or of its logarithm.
        """
        column_name = self.column_of_term(name)
        self.check_column(column_name)
        for column in self.layout.numeric:
            if column.name == column_name:
                return column
        return None

    def limit_text(self, name: str, number: float) -> str | None:
        """Returns the limit for which a number of a column stands; None for others."""
        column = self.numeric_column(name)
        return None if column is None else column.limit_of(number)

    def within_bounds(self, name: str, numbers: Floats) -> Floats:
        """Moves numbers of a column with limits to its bounds; others stay.

        Args:
            name: A numeric column.
            numbers: The numbers, of any shape.
        """
        column = self.numeric_column(name)
        if column is None or not column.limits:
            return numbers
        return np.clip(numbers, *bounds_of(column))

    def levels(self, name: str) -> tuple[Level, ...]:
        """Returns the levels of a column that is no number, and None for missing."""
        return self.measurements.domain.by_name[name]

    def moments(self, columns: Sequence[str]) -> MomentEstimates:
        """Estimates the sums of all products of the terms of some columns.

        They agree: those of a column's levels add up to the records, whatever other
        columns are asked for.

        Args:
            columns: Names of columns, or of their logarithms.

        Raises:
            OptionError: if a logarithm is undefined.
            NotMeasuredError: if two of them were never measured together.
            TooNoisyError: if a number is too noisy to be located.
        """
        feature_map, terms = self._terms(columns, self._ranges)
        for scaled in self._released_numbers:
            is_wanted = self.names[scaled.index] in columns
            if is_wanted and scaled.tail > _MAX_PART_HIDDEN * self.total.value:
                raise TooNoisyError(self.names[scaled.index])
        scores = _TermScores(self, feature_map, terms)
        left, right = feature_map.entries
        estimates = []
        for i, j in zip(left.tolist(), right.tolist(), strict=True):
            product = [terms[index - 1] for index in (i, j) if index > 0]
            estimates.append(self._estimate(product, scores))
        values = np.array([estimate.value for estimate in estimates])
        bias = _bias_matrix([estimate.bias for estimate in estimates])
        excesses = self._excesses(feature_map, max(float(values[0]), 1.0))
        bias = np.column_stack([bias, *excesses])
        return MomentEstimates.agreeing(
            ProductSums(feature_map=feature_map, terms=terms, values=values),
            source_std=np.sqrt([estimate.variance for estimate in estimates]),
            bias=bias,
        )

    def _terms(
        self, columns: Sequence[str], ranges: Ranges
    ) -> tuple[Moments, tuple[Term, ...]]:
        """Returns the products of columns and logarithms, and what their terms are.

        Args:
            columns: Names of columns, or of their logarithms.
            ranges: Of numbers whose range is not their bounds; see `moments_of`.
        """
        name_of_index = {
            self.names.index(self.column_of_term(name)): name for name in columns
        }
        feature_map = moments_of(self.layout, sorted(name_of_index), ranges)
        numeric: list[ScaledNumber] = []
        logarithms: dict[str, Term] = {}
        for scaled in feature_map.numeric:
            name = name_of_index[scaled.index]
            logarithm = parse_logarithm(name, self.names)
            if logarithm is None:
                numeric.append(scaled)
                continue
            column = self.layout.numeric[scaled.index]
            of_logarithm = logarithmic_column(logarithm, column, scaled)
            numeric.append(of_logarithm)
            logarithms[column.name] = Term(
                name,
                "number",
                centre=(of_logarithm.low + of_logarithm.high) / 2,
                scale=(of_logarithm.high - of_logarithm.low) / 2,
            )
        terms = []
        for term in terms_of(self.layout, feature_map):
            logarithm_term = logarithms.get(term.column)
            if logarithm_term is None:
                terms.append(term)
            elif term.kind == "number":
                terms.append(logarithm_term)
            else:
                terms.append(term._replace(column=logarithm_term.column))
        return replace(feature_map, numeric=tuple(numeric)), tuple(terms)

    def number_scores(self, name: str) -> CellScores:
        """Returns what a number is in each cell of its column, in its unit.

        Args:
            name: A numeric column, or the logarithm of one.

        Returns:
            The scores. Those of the cell of missing values mean nothing.
        """
        column = self.column_of_term(name)
        feature_map, (term, *_) = self._terms([name], ranges={})
        scaled = feature_map.numeric[0]
        n_cells = len(self.measurements.domain.by_name[column])
        scores = _number_scores(self.fine_cells(column), scaled, n_cells=n_cells)
        presence = _presence_scores(self.presence(column))
        return CellScores(
            means=term.centre * presence.means + term.scale * scores.means,
            errors=np.abs(term.centre * presence.errors + term.scale * scores.errors),
            deviations=term.scale * scores.deviations,
        )

    def presence(self, name: str) -> Floats:
        """Returns the share of records in each cell that have a number, (cells,).

        It is 0 for missing values and for atoms outside the bounds, such as limits.

        Args:
            name: A numeric column.
        """
        fine = self.fine_cells(name)
        n_cells = len(self.measurements.domain.by_name[name])
        if fine.is_amount.all():
            cells = self.measurements.domain.by_name[name]
            return np.array([cell is not None for cell in cells], dtype=np.float64)
        shares = np.bincount(fine.cell_index, fine.shares * fine.is_amount, n_cells)
        return np.asarray(np.clip(shares, 0.0, 1.0), dtype=np.float64)

    def clipping_notes(self, moments: ProductSums) -> tuple[str, ...]:
        """Says of which numbers the sums of products count only a range."""
        clipped_columns = {
            self.names[scaled.index]
            for scaled in moments.feature_map.numeric
            if scaled.is_clipped
        }
        notes = []
        for term in moments.terms:
            if term.kind == "number" and term.column in clipped_columns:
                low = term.centre - term.scale
                high = term.centre + term.scale
                notes.append(
                    f"{term.column} outside {low:g} to {high:g} is clipped to the "
                    "nearer of these"
                )
        return tuple(notes)

    def _tails(self, feature_map: Moments) -> list[_Tail]:
        """Returns what may lie beyond each end of a range within a column's bounds."""
        tails = []
        for index, (column, code) in enumerate(feature_map.terms, 1):
            if code is not None:
                continue
            scaled = feature_map.numeric[column]
            positions = self.sample.numeric[:, scaled.index]
            is_present = scaled.is_present(positions)
            if not scaled.is_clipped or not is_present.any():
                continue
            numbers = np.where(is_present, scaled.unclipped(positions), np.nan)
            min_part = scaled.tail / max(self.total.value, 1.0)
            for sign, is_inside in (
                (-1, scaled.low > scaled.start),
                (1, scaled.high < scaled.stop),
            ):
                if is_inside:
                    tail = _Tail.extrapolated(index, sign, numbers, min_part=min_part)
                    tails.append(tail)
        return tails

    def _excesses(self, feature_map: Moments, records: float) -> list[Floats]:
        """Estimates what numbers beyond a range may add to sums that clip them.

        A number at ±(1 + e) counts as ±1. In products with another term it adds ±e
        times that term, of which the model's records beyond tell the mean; in its own
        square 2e + e², where e² has the mean 2h² if e has the mean h.

        Args:
            feature_map: The products that are summed.
            records: Number of records.

        Returns:
            For each tail how much it may add to each sum, as standard deviations with
            signs, (products,).
        """
        tails = self._tails(feature_map)
        if not tails:
            return []
        terms = feature_map.terms_of(self.sample).astype(np.float64)
        left, right = feature_map.entries
        excesses = []
        for tail in tails:
            means = terms[tail.is_beyond].mean(axis=0)
            per_record = tail.part * tail.mean_excess
            # Of a product the other term; of the square the number itself.
            other = np.where(left == tail.term_index, right, left)
            is_of_number = (left == tail.term_index) | (right == tail.term_index)
            excess = np.where(is_of_number, tail.sign * per_record * means[other], 0.0)
            is_square = (left == tail.term_index) & (right == tail.term_index)
            excess[is_square] = 2 * per_record * (1 + tail.mean_excess)
            excesses.append(_EXCESS_ERROR * records * excess)
        return excesses

    @property
    def _released_numbers(self) -> tuple[ScaledNumber, ...]:
        """The numbers of released second moments, with their ranges."""
        released = self.measurements.moments
        return () if released is None else released.feature_map.numeric

    @cached_property
    def _ranges(self) -> Ranges:
        """Ranges of the numbers whose released moments are used; see `moments_of`."""
        max_beyond = _MAX_PART_BEYOND * self.total.value
        return {
            scaled.index: (scaled.low, scaled.high, scaled.tail)
            for scaled in self._released_numbers
            if scaled.tail <= max_beyond
        }

    @cached_property
    def _hidden_columns(self) -> set[str]:
        """Columns beyond whose range too many records may lie for its moments."""
        return {
            self.names[scaled.index]
            for scaled in self._released_numbers
            if scaled.index not in self._ranges
        }

    @cached_property
    def _released_sums(self) -> dict[tuple[Term, ...], SumEstimate]:
        """The released sums of products, by their terms in the order of the layout.

        Sums of numbers within a range that is not used are left out, as the terms of
        such numbers have another scale.
        """
        if self.measurements.moments is None:
            return {}
        released = self.measurements.moments.pooled
        sums = {}
        left, right = released.factors
        for k, (i, j) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
            product = [released.terms[index - 1] for index in (i, j) if index > 0]
            sums[self._ordered(product)] = SumEstimate(
                float(released.values[k]), float(released.variance[k]), {}
            )
        return sums

    def _ordered(self, product: Sequence[Term]) -> tuple[Term, ...]:
        """Returns the terms of a product in the order of the layout."""
        names = self.names
        return tuple(
            sorted(
                product, key=lambda term: names.index(self.column_of_term(term.column))
            )
        )

    def _estimate(self, product: Sequence[Term], scores: _TermScores) -> SumEstimate:
        """Estimates the sum of a product of terms by all that states it.

        Args:
            product: None, one or two terms.
            scores: Of all terms.
        """
        if not product:
            return SumEstimate(*self.total, {})
        if all(term.kind == "level" for term in product):
            return self._estimate_count(product)
        estimates = []
        released = self._released_sums.get(self._ordered(product))
        if released is not None:
            estimates.append(released)
        by_tables = self._estimate_by_tables(product, scores)
        if by_tables is not None:
            estimates.append(by_tables)
        if estimates:
            return _combine(estimates)
        for term in product:
            if term.kind == "number" and term.column in self._hidden_columns:
                raise TooNoisyError(term.column)
        raise _not_measured([term.column for term in product])

    def _estimate_count(self, levels: Sequence[Term]) -> SumEstimate:
        """Estimates how many records have one or two levels, without a bias."""
        columns = tuple(term.column for term in levels)
        try:
            table = self.measurements.best(columns)
        except LookupError:
            raise _not_measured(columns) from None
        cell = tuple(
            table.domain.by_name[term.column].index(term.level) for term in levels
        )
        return SumEstimate(float(table.counts[cell]), float(table.variance[cell]), {})

    @cached_property
    def _tables_alone(self) -> Measurements:
        """What the release states without second moments, which are weighed apart."""
        return replace(self.measurements, moments=None)

    def _estimate_by_tables(
        self, product: Sequence[Term], scores: _TermScores
    ) -> SumEstimate | None:
        """Estimates the sum of a product of terms by the tables of their columns.

        Returns:
            The estimate; None where no table holds the columns.
        """
        columns = tuple(
            dict.fromkeys(self.column_of_term(term.column) for term in product)
        )
        try:
            table = self._tables_alone.best(columns)
        except LookupError:
            return None
        first = scores.of(product[0])
        if len(columns) == 1:
            if len(product) == 2:
                first = _squared(first)
            sums, variance = table.contract({columns[0]: first.means[:, None]})
            bias = _cell_causes(
                columns[0],
                table.counts * first.errors,
                is_square=len(product) == 2,
            )
            return SumEstimate(float(sums[0]), float(variance[0]), bias)
        second = scores.of(product[1])
        sums, variance = table.contract(
            {columns[0]: first.means[:, None], columns[1]: second.means[:, None]}
        )
        # Errors of means differ from cell to cell.
        bias = {
            **_cell_causes(columns[0], table.counts @ second.means * first.errors),
            **_cell_causes(columns[1], first.means @ table.counts * second.errors),
        }
        if product[0].kind == "number":
            # That two numbers go together within cells is everywhere the same. Levels
            # are no cells: two columns of them are counted as they are.
            within_cells = first.deviations @ np.maximum(table.counts, 0)
            together = float(within_cells @ second.deviations)
            bias["together", product[0], product[1]] = _CELL_CORRELATION * together
        return SumEstimate(float(sums[0, 0]), float(variance[0, 0]), bias)

    def fine_cells(self, name: str) -> FineCells:
        """Returns the fine cells of a numeric column, as positions.

        They are those of the model where it has them, else the cells as they are.
        """
        column_index = self.names.index(name)
        column = self.layout.numeric[column_index]
        cells = self.measurements.domain.by_name[name]
        model = self._model.model
        profiles = model.within if isinstance(model, HasCellProfiles) else ()
        if column_index < len(profiles):
            profile: CellProfile = profiles[column_index]
            if number_ranges(column, profile.bins) == cells:
                return FineCells(
                    low=profile.low,
                    high=profile.high,
                    shares=profile.shares,
                    cell_index=profile.bin_of,
                    is_amount=_hold_amounts(column, profile.low, profile.high),
                )
        ranges = [cell for cell in cells if isinstance(cell, NumberRange)]
        low = positions_of(column, np.array([cell.low for cell in ranges]))
        high = positions_of(column, np.array([cell.high for cell in ranges]))
        return FineCells(
            low=low,
            high=high,
            shares=np.ones(len(ranges)),
            cell_index=np.arange(len(ranges)),
            is_amount=_hold_amounts(column, low, high),
        )


def _hold_amounts(
    column: NumericColumn, low: Floats, high: Floats
) -> npt.NDArray[np.bool_]:
    """Returns which cells hold numbers, rather than an atom outside the bounds.

    Args:
        column: The column.
        low: Lowest position of each cell, (cells,).
        high: Highest position, (cells,).
    """
    return ~is_outer_atom(column, numbers_at(column, (low + high) / 2))


def evidence_of(model: ReleasedModel) -> Evidence:
    """Returns the evidence of a model: that which it keeps, where it does.

    Raises:
        OptionError: if the release is of images, or its method counts nothing.
    """
    if isinstance(model, KeepsEvidence):
        return model.evidence
    return Evidence(model)


@runtime_checkable
class KeepsEvidence(Protocol):
    """A model that keeps its evidence, so that records are drawn once for it."""

    @property
    def evidence(self) -> Evidence:
        """The evidence of its release."""
        ...


@dataclass(frozen=True, eq=False)
class _TermScores:
    """What terms are in the cells of their columns, computed once for each term."""

    evidence: Evidence
    feature_map: Moments
    terms: tuple[Term, ...]

    def of(self, term: Term) -> CellScores:
        """Returns the scores of a term."""
        if term not in self._computed:
            self._computed[term] = self._compute(term)
        return self._computed[term]

    @cached_property
    def _computed(self) -> dict[Term, CellScores]:
        """The scores that were asked for."""
        return {}

    def _compute(self, term: Term) -> CellScores:
        """Computes the scores of a term."""
        column = self.evidence.column_of_term(term.column)
        cells = self.evidence.measurements.domain.by_name[column]
        if term.kind == "level":
            indicator = np.zeros(len(cells))
            indicator[cells.index(term.level)] = 1.0
            # An indicator varies by a half at most.
            return CellScores(indicator, np.zeros(len(cells)), 0.5 * indicator)
        if term.kind == "present":
            return _presence_scores(self.evidence.presence(column))
        column_index = self.evidence.names.index(column)
        scaled = next(
            number
            for number in self.feature_map.numeric
            if number.index == column_index
        )
        return _number_scores(
            self.evidence.fine_cells(column), scaled, n_cells=len(cells)
        )


def _number_scores(
    fine: FineCells, scaled: ScaledNumber, *, n_cells: int
) -> CellScores:
    """Computes what a scaled number is in each cell, with values even in fine cells.

    Args:
        fine: Parts of the cells.
        scaled: The range that becomes −1 to 1.
        n_cells: Number of cells, with that of missing values, in which a number is 0.
    """
    low = np.clip(scaled.unclipped(fine.low), -1, 1)
    high = np.clip(scaled.unclipped(fine.high), -1, 1)
    middle = (low + high) / 2
    width = high - low

    def sum_in_cells(values: Floats) -> Floats:
        return np.bincount(fine.cell_index, values, n_cells).astype(np.float64)

    amount_shares = fine.shares * fine.is_amount
    means = sum_in_cells(amount_shares * middle)
    squares = sum_in_cells(amount_shares * (middle**2 + width**2 / 12))
    deviations = np.sqrt(np.maximum(squares - means**2, 0))
    withinfine_cells = sum_in_cells(amount_shares * width) / 4
    errors = np.hypot(withinfine_cells, _MEAN_ERROR * deviations)

    presence = sum_in_cells(amount_shares)
    is_mixed = (presence > 0) & (sum_in_cells(fine.shares * ~fine.is_amount) > 0)
    if is_mixed.any():
        amounts = means / np.where(presence > 0, presence, 1.0)
        spread = np.sqrt(np.maximum(squares - means * amounts, 0))
        within = np.hypot(withinfine_cells, _MEAN_ERROR * spread)
        shift = amounts * _presence_scores(np.clip(presence, 0, 1)).errors
        errors = np.where(is_mixed, shift + np.copysign(within, shift), errors)
    return CellScores(means, errors, deviations)


def _presence_scores(presence: Floats) -> CellScores:
    """Returns the scores of the term that is 1 where a number is present."""
    deviations = np.sqrt(presence * (1 - presence))
    return CellScores(presence, _MEAN_ERROR * deviations, deviations)


def _squared(scores: CellScores) -> CellScores:
    """Returns the scores of the square of a number."""
    squares = scores.means**2 + scores.deviations**2
    errors = (
        2 * np.abs(scores.means * scores.errors)
        + scores.errors**2
        + _SQUARE_ERROR * scores.deviations**2
    )
    return CellScores(squares, errors, np.zeros_like(squares))


class _Tail(NamedTuple):
    """Records that may lie beyond one end of a range, in which numbers are clipped.

    Attributes:
        term_index: The number's term among all.
        sign: 1 beyond the upper end, −1 beyond the lower.
        part: The part of all records that lie beyond.
        mean_excess: How far they lie beyond on average, in halves of the range.
        is_beyond: Which of the model's records these are, (records,).
    """

    term_index: int
    sign: int
    part: float
    mean_excess: float
    is_beyond: npt.NDArray[np.bool_]

    @classmethod
    def extrapolated(
        cls, term_index: int, sign: int, numbers: Floats, *, min_part: float
    ) -> Self:
        """Extrapolates the tail of a number beyond an end of its range.

        An exponential tail goes through the end and a point within the range. If p of
        the numbers lie beyond the end, and q beyond a point that is d before it, they
        lie d/log(q/p) beyond the end on average.

        Args:
            term_index: The number's term among all.
            sign: Of the end.
            numbers: Scaled numbers of the model's records, not clipped, NaN where one
                is missing, (records,).
            min_part: The least part of those with a number that may lie beyond.
        """
        outwards = sign * numbers
        is_present = ~np.isnan(outwards)
        part = max(float((outwards[is_present] > 1).mean()), min_part)
        part = min(part, _MAX_BASE_PART)
        base_part = min(max(_BASE_PART, _MIN_BASE_RATIO * part), _MAX_BASE_PART)
        base, first_beyond = np.nanquantile(outwards, [1 - base_part, 1 - part])
        mean_excess = 0.0
        if part < base_part:
            mean_excess = max(1 - float(base), 0.0) / math.log(base_part / part)
        return cls(
            term_index=term_index,
            sign=sign,
            part=part * float(is_present.mean()),
            mean_excess=mean_excess,
            is_beyond=outwards >= first_beyond,
        )


def _cell_causes(
    column: str, errors: Floats, *, is_square: bool = False
) -> dict[Hashable, float]:
    """Returns what a sum may be off by as the means within cells may be.

    Args:
        column: The column with the cells.
        errors: What each cell adds, (cells,).
        is_square: Whether means are of squares, whose errors have other causes.
    """
    return {
        ("cell", column, index, is_square): error
        for index, error in enumerate(errors.tolist())
        if error != 0
    }


def _combine(estimates: Sequence[SumEstimate]) -> SumEstimate:
    """Combines estimates of one sum, weighted by how far each may be off."""
    mean_squares = [
        estimate.variance + sum(error**2 for error in estimate.bias.values())
        for estimate in estimates
    ]
    weights = 1 / np.maximum(mean_squares, _MIN_VARIANCE)
    weights /= weights.sum()
    value = 0.0
    variance = 0.0
    bias: dict[Hashable, float] = {}
    for weight, estimate in zip(weights.tolist(), estimates, strict=True):
        value += weight * estimate.value
        variance += weight**2 * estimate.variance
        for cause, error in estimate.bias.items():
            bias[cause] = bias.get(cause, 0.0) + weight * error
    return SumEstimate(value, variance, bias)


def _bias_matrix(causes_of_sums: Sequence[Causes]) -> Floats:
    """Arranges what sums may be off by as a column for each cause, (sums, causes)."""
    causes = dict.fromkeys(cause for causes in causes_of_sums for cause in causes)
    column_of = {cause: index for index, cause in enumerate(causes)}
    bias = np.zeros((len(causes_of_sums), len(causes)))
    for row, causes_of_sum in enumerate(causes_of_sums):
        for cause, error in causes_of_sum.items():
            bias[row, column_of[cause]] = error
    return bias


def _not_measured(columns: Sequence[str]) -> NotMeasuredError:
    """Returns the error for columns that nothing in the release states together."""
    names = [repr(name) for name in dict.fromkeys(columns)]
    if len(names) == 1:
        verb = "was not measured"
    else:
        verb = "were not measured together"
    return NotMeasuredError(
        f"{' and '.join(names)} {verb}, so this release has no answer. Ask for second "
        "moments next time, by the setting moments_share=0.43 of method='pairwise', or "
        "for all pairs, by pairs='all'."
    )
