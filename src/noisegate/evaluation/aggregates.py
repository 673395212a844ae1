"""Each parent beside what its children come to, as one plain table: what models learn from linked tables.

A parent has the number of its children and, of each of their columns, the mean and the last of numbers and the share of
each level. Grandchildren count as children of their grandparent.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from noisegate.evaluation.families import LinkedPair, LinkedTables
from noisegate.evaluation.reading import read_levels, read_numbers
from noisegate.schema import Column, Continuous, Integer, NumericColumn, Schema
from noisegate.schema.linked import LinkedSchema


def beside(linked: LinkedTables, schema: LinkedSchema) -> tuple[pa.Table, Schema]:
    """Return the table of the units of privacy with columns for what hangs on them, all of them numeric; its schema."""
    root, below, most = schema.root, dict[str, LinkedPair](), {schema.root.name: 1}
    table, columns = linked.tables[root.name].select(root.schema.names), list(root.schema.columns)
    for link in schema.links:
        families, name = linked.families[link.name], link.name
        below[name] = families.of_grandparents(below[link.parent.name]) if link.parent.name in below else families
        most[name] = most[link.parent.name] * (link.child.most or 1)
        columns.append(Integer(name=f"{name}.number", lower=0, upper=most[name]))
        table = table.append_column(columns[-1].name, pa.array(below[name].counts))
        for column in link.child.schema.columns:
            for what, values in _summaries(linked.tables[name], column, link.child.schema, below[name]):
                columns.append(Continuous(name=f"{name}.{column.name}.{what}", lower=0.0, upper=1.0, missing=True))
                table = table.append_column(columns[-1].name, pa.array(values, from_pandas=True))
    return table, Schema(columns, label=root.schema.label, missing_values=root.schema.missing_values)


def _summaries(
    table: pa.Table, column: Column, schema: Schema, families: LinkedPair
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the summaries of a column by parent, each with its name; NaN for parents about whom nothing is known."""
    parents, parent = len(families.counts), families.parent
    if isinstance(column, NumericColumn):
        values = read_numbers(table, column, schema).unit[families.rows]
        known = ~np.isnan(values)
        values, parent = values[known], parent[known]
        yield (
            "mean",
            _ratio(np.bincount(parent, weights=values, minlength=parents), np.bincount(parent, minlength=parents)),
        )
        last = np.full(parents, np.nan)
        last[parent] = values  # the last one that is written stays
        yield "last", last
        return
    codes = read_levels(table, column, schema).codes[families.rows]
    for code, level in enumerate(column.levels):
        yield f"{level}", _ratio(np.bincount(parent[codes == code], minlength=parents), families.counts)


def _ratio(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    found = np.full(len(counts), np.nan)
    np.divide(sums, counts, out=found, where=counts > 0)
    return found
