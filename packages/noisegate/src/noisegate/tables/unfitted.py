"""Counts that the fit never sees, bought so that what comes of it can be compared with them in public.

They are one more query of the plan: tables of two columns on cells that the schema alone says, through the same gate
(G-12) and within the same budget. Their noise is independent of what the model was fitted to, so that a synthetic table
that agrees with them does not agree because it has learnt this noise.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from noisegate.features.binning import equal_bins
from noisegate.features.contingency import Contingency, equally_weighted
from noisegate.privacy.plan import Query
from noisegate.schema import Layout

UNFITTED = "unfitted"
_CELLS = 4  # of a numeric column, of equal width
_MOST_CODES, _MOST_TABLES = 12, 10


def unfitted_tables(layout: Layout) -> Contingency | None:
    """Returns the tables, by a rule that knows the schema alone; None where it has no column for them.

    They are pairs of the label with other columns, or of neighbouring columns where there is no label with levels: ten
    at most, spread evenly over the schema. Columns of more than twelve levels are left out.
    """
    bins = tuple(equal_bins(column, _CELLS) for column in layout.numeric)
    coded = tuple(column.size for column in layout.coded)
    sizes = (*(each.size for each in bins), *coded)
    columns = [column for column, size in enumerate(sizes) if 1 < size <= _MOST_CODES]
    label = None if layout.label is None else len(bins) + layout.label
    tables: list[tuple[int, ...]]
    if label in columns and len(columns) > 1:
        tables = [(column, label) if column < label else (label, column) for column in columns if column != label]
    else:
        tables = list(pairwise(columns)) or [(column,) for column in columns]
    if not tables:
        return None
    step = max(len(tables) / _MOST_TABLES, 1.0)
    kept = [tables[math.floor(place * step)] for place in range(min(len(tables), _MOST_TABLES))]
    return equally_weighted(bins, coded, kept)


def unfitted_query(layout: Layout, share: float) -> tuple[Query, ...]:
    """Returns the query of a plan; none where there are no such tables, or nothing is to be spent on them."""
    tables = unfitted_tables(layout) if share else None
    if tables is None:
        return ()
    fixed: dict[str, Any] = {"columns": 1, "norm": 1.0, "nonnegative": True, "tables": len(tables.tables)}
    return (Query(name=UNFITTED, dim=tables.dim, share=share, feature_map=tables, **fixed),)
