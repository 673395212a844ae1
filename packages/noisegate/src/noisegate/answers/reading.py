"""Reads what a release states of one table of records, as `Measurements`.

A method knows which arrays of its release are tables of which columns, on which cells.
It hands them over as the types of `released` and `queries`, whose columns are numbers;
here they become tables of named columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from noisegate.answers.cells import number_ranges
from noisegate.answers.domain import Domain, Floats, Level
from noisegate.answers.measurements import Measurements
from noisegate.answers.noisy_moments import NoisyMoments, Term
from noisegate.answers.noisy_table import NoisyTable
from noisegate.answers.released import Table
from noisegate.privacy.events import Adjacency
from noisegate.privacy.release import Release
from noisegate.queries.binning import NumericBins
from noisegate.queries.moments import Moments, ScaledColumn
from noisegate.schema import Layout
from noisegate.schema.layout import bound_positions, bounds_of

ReleasedHistograms = Mapping[int, Sequence[tuple[NumericBins, Table]]]
"""Histograms of numeric columns with their cells, by the number of the column."""
ReleasedMoments = tuple[Moments, Floats, float]
"""The map of second moments, the sums of its entries, and the noise on each."""


def read_measurements(
    release: Release,
    bins: Sequence[NumericBins],
    tables: Sequence[Table],
    histograms: ReleasedHistograms | None = None,
    moments: ReleasedMoments | None = None,
) -> Measurements:
    """Collects what a release states of its table of records.

    Args:
        release: The release.
        bins: The cells of each numeric column; empty where no table has one.
        tables: Its tables of counts on these cells.
        histograms: Its histograms on finer cells.
        moments: Its second moments.
    """
    layout = release.schema.layout
    domain = domain_of(layout, bins)
    names = [column.name for column in (*layout.numeric, *layout.coded)]
    noisy_tables = []
    for table in tables:
        table_domain = domain.project([names[column] for column in table.columns])
        noisy_tables.append(
            NoisyTable.of(table_domain, table.counts, noise_std=table.noise_std)
        )
    for column, histograms_of_column in (histograms or {}).items():
        for fine_bins, table in histograms_of_column:
            cells = number_ranges(layout.numeric[column], fine_bins)
            fine_domain = Domain.of({names[column]: cells})
            noisy_tables.append(
                NoisyTable.of(fine_domain, table.counts, noise_std=table.noise_std)
            )
    return Measurements(
        domain,
        tuple(noisy_tables),
        moments=None if moments is None else read_moments(layout, *moments),
        known_total=_known_total(release),
    )


def _known_total(release: Release) -> float | None:
    """Returns the number of records, where neighbours have the same and it is public."""
    certificate = release.certificate
    records = certificate.public.get("records")
    if certificate.adjacency is not Adjacency.REPLACE_ONE or records is None:
        return None
    return float(records)


def domain_of(layout: Layout, bins: Sequence[NumericBins]) -> Domain:
    """Returns the columns of a layout with their cells, numeric columns first.

    Args:
        layout: The columns.
        bins: The cells of each numeric column; if empty, these are left out.
    """
    cells: dict[str, tuple[Level, ...]] = {}
    if bins:
        for numeric, column_bins in zip(layout.numeric, bins, strict=True):
            cells[numeric.name] = number_ranges(numeric, column_bins)
    for coded in layout.coded:
        has_missing = coded.size > len(coded.levels)
        cells[coded.name] = (
            (*coded.levels, None) if has_missing else tuple(coded.levels)
        )
    return Domain.of(cells)


def read_moments(
    layout: Layout, moments: Moments, values: Floats, noise_std: float
) -> NoisyMoments:
    """Arranges released sums of products as a matrix.

    Args:
        layout: The columns.
        moments: The map that was asked for.
        values: The sums of its entries, (dim,).
        noise_std: Standard deviation of the noise on each.
    """
    terms = _terms(layout, moments)
    size = len(terms) + 1
    sums = np.zeros((size, size))
    # Two levels of one column have no record in common, which is exact.
    variance = np.zeros((size, size))
    left, right = moments.entries
    for rows, columns in ((left, right), (right, left)):
        sums[rows, columns] = values
        variance[rows, columns] = noise_std**2
    for index in range(1, size):
        other = _same_product(terms, index)
        if other is not None:
            # Its product with the other is the term itself, which was measured.
            for row, column in ((index, other), (other, index)):
                sums[row, column] = sums[0, index]
                variance[row, column] = variance[0, index]
    return NoisyMoments(tuple(terms), sums, variance)


def _same_product(terms: Sequence[Term], index: int) -> int | None:
    """Finds the term whose product with another one is that other one.

    An indicator is its own square. A number is 0 where it is missing, so its product
    with the indicator of its presence is the number.

    Args:
        terms: All terms but the first.
        index: The other one, counted from 1.

    Returns:
        The index, counted from 1; None for a number that is never missing.
    """
    term = terms[index - 1]
    if term.kind != "number":
        return index
    presence = Term(term.column, "present")
    has_presence = index < len(terms) and terms[index] == presence
    return index + 1 if has_presence else None


def _terms(layout: Layout, moments: Moments) -> list[Term]:
    """Returns the terms of second moments by their columns' names."""
    terms = []
    for index, code in moments.terms:
        if index >= len(moments.numeric):
            coded_index, _ = moments.coded[index - len(moments.numeric)]
            column = layout.coded[coded_index]
            levels = (*column.levels, None)
            assert code is not None
            terms.append(Term(column.name, "level", levels[code]))
        elif code is None:
            terms.append(_number_term(layout, moments.numeric[index]))
        else:
            numeric = layout.numeric[moments.numeric[index].index]
            terms.append(Term(numeric.name, "present"))
    return terms


def _number_term(layout: Layout, scaled: ScaledColumn) -> Term:
    """Returns the term of a number, with its range in the unit of the column."""
    column = layout.numeric[scaled.index]
    start, stop = bound_positions(column)
    lower, upper = bounds_of(column)
    unit = (float(upper) - float(lower)) / (stop - start)
    middle_position = (scaled.low + scaled.high) / 2
    return Term(
        column.name,
        "number",
        centre=float(lower) + unit * (middle_position - start),
        scale=unit * (scaled.high - scaled.low) / 2,
    )
