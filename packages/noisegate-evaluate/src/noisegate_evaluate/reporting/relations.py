"""What the private page shows of linked tables: of each link its figures, numbers of children, gaps and successions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from noisegate.linked.schema import Link, LinkedSchema
from noisegate.linked.table_schema import ticks_at
from noisegate.schema import Column, Schema
from noisegate.schema.numeric import SteppedColumn
from noisegate_evaluate.comparison import LinkedReport
from noisegate_evaluate.metrics.associations import associations
from noisegate_evaluate.metrics.marginals import ColumnShares, column_shares
from noisegate_evaluate.reading import LinkedTables
from noisegate_evaluate.reporting.charts import Chart, two_maps

_MOST_COLUMNS, _BINS = 40, 20


@dataclass(frozen=True, kw_only=True)
class Relation:
    """One link on a page.

    `figures` are what each is of, of the synthetic tables, what sampling alone does, and where it is largest;
    `successions` how a column of a child goes with one of the next, real and synthetic.
    """

    title: str
    figures: Sequence[tuple[str, ...]]
    shares: Sequence[ColumnShares]
    successions: Sequence[Chart]


def relations(
    synthetic: LinkedTables, real: LinkedTables, schema: LinkedSchema, report: LinkedReport
) -> list[Relation]:
    """Returns what is shown of each link."""
    return [_relation(synthetic, real, link, report) for link in schema.links]


def _relation(synthetic: LinkedTables, real: LinkedTables, link: Link, report: LinkedReport) -> Relation:
    floor = {} if report.links_floor is None else dict(report.links_floor[link.name].lines())
    figures = [
        (what, figure, floor[what][0] if what in floor else "–", largest)
        for what, (figure, largest) in report.links[link.name].lines()
    ]
    names = [link.number, *([] if link.gap is None else [link.gap])]
    made, true = _numbers(synthetic, link), _numbers(real, link)
    shares = [
        column_shares(
            pa.table({name: made[name]}), pa.table({name: true[name]}), column, link.schema, bins=_bins(column)
        )
        for name, column in ((name, link.schema.column(name)) for name in names)
        if len(made[name]) and len(true[name])
    ]
    title = f"{link.parent.name} and their {link.name}"
    return Relation(title=title, figures=figures, shares=shares, successions=_successions(synthetic, real, link))


def _bins(column: Column) -> int:
    """Returns how many spans of a column a chart shows: each number for itself where these are few."""
    return column.last + 1 if isinstance(column, SteppedColumn) and column.last < _MOST_COLUMNS else _BINS


def _numbers(linked: LinkedTables, link: Link) -> dict[str, np.ndarray]:
    """Returns the number of children of each parent and the gap before each child but the first, by column."""
    families = linked.families[link.name]
    found = {link.number: families.counts}
    if link.gap is not None and link.order is not None and families.position is not None:
        before, after = families.consecutive
        known = ~np.isnan(families.position)
        ticks = np.zeros(len(known))
        ticks[known] = ticks_at(link.order, families.position[known])
        steps = known[before] & known[after]
        found[link.gap] = (ticks[after] - ticks[before])[steps]
    return found


def _successions(synthetic: LinkedTables, real: LinkedTables, link: Link) -> list[Chart]:
    columns = [column for column in link.child.schema.columns if column.name != link.child.order][:_MOST_COLUMNS]
    maps = [_succession(linked, link, columns) for linked in (real, synthetic)]
    if not columns or any(len(linked.families[link.name].consecutive[0]) < 2 for linked in (synthetic, real)):
        return []
    names = [column.name for column in columns]
    order = np.argsort(-np.abs(np.nan_to_num(maps[0] - maps[1])), axis=None)
    rows = [
        (f"{names[i]} → {names[j]}", *(f"{one[i, j]:.2f}" for one in maps))
        for i, j in zip(*np.unravel_index(order, maps[0].shape), strict=True)
        if np.isfinite(maps[0][i, j]) and np.isfinite(maps[1][i, j])
    ]
    return two_maps(
        f"successions-{link.name}",
        f"How a record of {link.name} goes with the next one",
        "Rows are the columns of a record, columns those of the next one of the same parent.",
        names,
        dict(zip(("real", "synthetic"), maps, strict=True)),
        headings=("a column → one of the next record", "real", "synthetic"),
        rows=rows,
    )


def _succession(linked: LinkedTables, link: Link, columns: Sequence[Column]) -> np.ndarray:
    """Returns how strongly each column goes with each of the next child, (columns, columns)."""
    table, families = linked.tables[link.name], linked.families[link.name]
    before, after = (table.take(pa.array(families.rows[place])) for place in families.consecutive)
    following: list[Column] = [replace(column, name=f"next {column.name}") for column in columns]
    both = {column.name: before[column.name] for column in columns}
    both |= {f"next {column.name}": after[column.name] for column in columns}
    every = [*columns, *following]
    schema = Schema(every, missing_values=link.child.schema.missing_values)
    return associations(pa.table(both), every, schema)[: len(columns), len(columns) :]
