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
    falling_ends,
    single_cells,
)
from noisegate.schema import Layout, NumericColumn


def mixture_of(
    components: Components,
    tables: PackedTables,
    layout: Layout,
    within: tuple[WithinCell, ...],
    label: int | None = None,
) -> Mixture:
    """Returns the mixture of all classes of a label, which come as often as their tables say."""
    cells = components.cells.transpose(0, 2, 1)
    classes, each, _ = cells.shape
    weights = (tables.counts[:, None] * components.weights).ravel()
    probabilities = [
        np.ascontiguousarray(cells[:, :, span]).reshape(classes * each, -1)
        for span in tables.spans
    ]
    if label is not None:
        probabilities.insert(
            label, np.repeat(np.eye(classes, dtype=np.float32), each, axis=0)
        )
    return Mixture(
        layout=layout,
        within=within,
        weights=weights / weights.sum(),
        probabilities=tuple(probabilities),
        copula=True,
    )


def _within(
    column: NumericColumn,
    fine: NumericBins,
    bins: NumericBins,
    histogram: Histogram | None,
) -> WithinCell:
    edges = np.asarray([0.0, *fine.cuts, 1.0])
    masses = (
        np.ones(len(edges) - 1) if histogram is None else falling_ends(histogram, edges)
    )
    return WithinCell.from_edges(
        column, bins, edges=edges, masses=masses, spikes=single_cells(column, fine)
    )


def within_cells(
    design: Design, bins: Sequence[NumericBins], histograms: Mapping[int, Histogram]
) -> tuple[WithinCell, ...]:
    """Returns where in its cells each numeric column lies, by the histograms of those that have one."""
    columns = enumerate(zip(design.layout.numeric, design.fine, bins, strict=True))
    return tuple(_within(*parts, histograms.get(place)) for place, parts in columns)
