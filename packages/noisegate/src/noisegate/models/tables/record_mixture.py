"""Turns fitted components into a mixture of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from noisegate.answers.design import Design
from noisegate.models.mixture import Mixture
from noisegate.models.tables.distance import Components
from noisegate.models.tables.packed_tables import PackedTables
from noisegate.models.within_cell import WithinCell
from noisegate.queries.binning import (
    Histogram,
    NumericBins,
    is_single_value,
    with_exponential_tails,
)
from noisegate.schema import Layout, NumericColumn


def mixture_of(
    components: Components,
    tables: PackedTables,
    layout: Layout,
    within: tuple[WithinCell, ...],
    label: int | None = None,
) -> Mixture:
    """Makes one mixture of the components of all classes.

    Args:
        components: Fitted components, by class.
        tables: The tables that they were fitted to, which state how many records each
            class has.
        layout: The columns of the mixture.
        within: Where values lie in the cells of each numeric column.
        label: Index of the column whose cells are the classes. None for no label.
    """
    cells = components.cells.transpose(0, 2, 1)  # (classes, K, D)
    n_classes, n_class_components, _ = cells.shape
    n_components = n_classes * n_class_components
    weights = (tables.class_counts[:, None] * components.weights).ravel()
    probabilities = [
        np.ascontiguousarray(cells[:, :, column_slice]).reshape(n_components, -1)
        for column_slice in tables.column_slices
    ]
    if label is not None:
        # A component has records of its own class alone.
        is_class = np.eye(n_classes, dtype=np.float32)
        probabilities.insert(label, np.repeat(is_class, n_class_components, axis=0))
    return Mixture(
        layout=layout,
        within=within,
        weights=weights / weights.sum(),
        probabilities=tuple(probabilities),
        copula=True,
    )


def within_cells(
    design: Design, bins: Sequence[NumericBins], histograms: Mapping[int, Histogram]
) -> tuple[WithinCell, ...]:
    """Finds where values lie in the cells of each numeric column.

    Args:
        design: The queries, which state the fine cells of each column.
        bins: The cells of each column.
        histograms: Histograms over the fine cells, of the columns that have one.
    """
    columns = zip(design.layout.numeric, design.fine, bins, strict=True)
    return tuple(
        within_cell(column, fine, column_bins, histograms.get(index))
        for index, (column, fine, column_bins) in enumerate(columns)
    )


def within_cell(
    column: NumericColumn,
    fine: NumericBins,
    bins: NumericBins,
    histogram: Histogram | None,
) -> WithinCell:
    """Finds where values lie in the cells of one numeric column.

    Args:
        column: The column.
        fine: Its fine cells.
        bins: Its cells, which are joined fine ones.
        histogram: A histogram over the fine cells. None for equal masses.
    """
    edges = np.asarray([0.0, *fine.cuts, 1.0])
    if histogram is None:
        masses = np.ones(len(edges) - 1)
    else:
        masses = with_exponential_tails(histogram, edges)
    return WithinCell.from_edges(
        column, bins, edges=edges, masses=masses, spikes=is_single_value(column, fine)
    )
