"""What the pairwise method chooses for a table: its cells, columns by name, and the reasons in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from noisegate.errors import OptionError
from noisegate.schema import Layout
from noisegate.tables.design import Columns, Design

# Up to this many columns a numeric one gets the full number of cells.
_NARROW = 15


def reason(design: Design, epsilon: float) -> str:
    """Returns which pairs are measured, on which cells, and why."""
    columns = len(design.columns)
    pairs, measured = math.comb(columns, 2), len(design.pairs or ())
    if design.screened:
        which = f"{columns} columns have {pairs:,} pairs, "
        which += f"so at most {design.most_pairs:,} are chosen by a coarse look"
    elif pairs and measured == pairs:
        which = f"the {pairs:,} pairs of {columns} columns are few enough to measure all of them"
    else:
        which = f"of the {pairs:,} pairs of columns {measured:,} are measured"
    if design.label is not None and design.layout.label is not None:
        which += f", in each class of {design.layout.coded[design.layout.label].name!r}"
    if design.bought:
        which += f"; numeric columns become about {design.cells} cells at epsilon={epsilon:g}"
    return which


def columns_named(layout: Layout, names: Sequence[str], option: str) -> Columns:
    """Returns the numbers of columns, ascending.

    Raises:
        OptionError: if a name is not in the schema, or twice in the list.
    """
    known = [column.name for column in (*layout.numeric, *layout.coded)]
    for name in names:
        if name not in known:
            raise OptionError(f"{option} names {name!r}, which is no column of the schema; it has {', '.join(known)}.")
    if len(set(names)) < len(names):
        raise OptionError(f"{option}={list(names)!r} names a column twice.")
    return tuple(sorted(known.index(name) for name in names))


def cells_for(columns: int, epsilon: float) -> int:
    """Returns how many cells a numeric column is cut into: fewer at small ε, and in wide tables, where noise is more.

    Chosen on public tables and simulated ones; see docs/choosing.md.
    """
    return max(round((24 if epsilon < 3 else 36) * min(1.0, math.sqrt(_NARROW / columns))), 4)
