"""Tables that the fit never sees, by which a public page can judge it.

Which tables these are follows from the schema alone.
"""

from __future__ import annotations

import math
from itertools import pairwise

from noisegate.answers.design import Columns
from noisegate.privacy.plan import Query
from noisegate.queries.binning import equal_bins
from noisegate.queries.contingency import Contingency, equally_weighted
from noisegate.schema import Layout

HELD_OUT = "unfitted"
"""Name of the query, as plans and certificates have it."""

# Cells of a numeric column, of equal width.
_N_CELLS = 4
# Columns with more cells are left out, and of all tables so many are taken at most.
_MAX_CELLS = 12
_MAX_TABLES = 10


def held_out_map(layout: Layout) -> Contingency | None:
    """Chooses the tables, and returns the map to them.

    Columns take part that have 2 to `_MAX_CELLS` cells, numeric ones with `_N_CELLS` of
    equal width. Tables are pairs of the label with other columns; where the label does
    not take part, pairs of neighbouring columns; and a column alone where it is the
    only one. `_MAX_TABLES` of them are taken at most, spread evenly over the schema.
    Releases do not state their tables, so that a change would leave earlier ones
    unreadable.

    Args:
        layout: The columns.

    Returns:
        The map; None where the schema has no column for it.
    """
    bins = tuple(equal_bins(column, _N_CELLS) for column in layout.numeric)
    coded_sizes = tuple(column.size for column in layout.coded)
    sizes = [*(column_bins.size for column_bins in bins), *coded_sizes]
    columns = [column for column, size in enumerate(sizes) if 1 < size <= _MAX_CELLS]
    label = None if layout.label is None else len(bins) + layout.label
    tables: list[Columns]
    if label is not None and label in columns and len(columns) > 1:
        others = [column for column in columns if column != label]
        tables = [(min(column, label), max(column, label)) for column in others]
    elif len(columns) > 1:
        tables = list(pairwise(columns))
    else:
        tables = [(column,) for column in columns]
    if not tables:
        return None
    step = max(len(tables) / _MAX_TABLES, 1.0)
    n_tables = min(len(tables), _MAX_TABLES)
    spread_tables = [tables[math.floor(index * step)] for index in range(n_tables)]
    return equally_weighted(bins, coded_sizes, spread_tables)


def held_out_query(contingency: Contingency, budget_fraction: float) -> Query:
    """Returns the query of a plan about these tables."""
    return Query(
        name=HELD_OUT,
        dim=contingency.dim,
        columns=1,
        norm=1.0,
        share=budget_fraction,
        nonnegative=True,
        tables=len(contingency.tables),
        feature_map=contingency,
    )
