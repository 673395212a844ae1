"""Baseline: each table by itself, by `pairwise`; children go to parents at random.

The parents' table has a column for the number of children; of the children's table nothing but single records is asked,
with the unit of privacy that all tables share, so that noise grows with the records of it that are used. ε is shared
evenly. What a child owes to its parent or to the child before is lost: this is what methods for single tables can do.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import noisegate
from noisegate.schema import Integer, Schema
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable

NUMBER, UNIT = "number of {}", "unit of privacy"

Tables = dict[str, pa.Table]


def used(table: LinkedTable) -> int:
    """Returns how many children of one parent are used: a third of the most, since noise grows with them."""
    return max(1, round((table.most or 1) / 3))


def children_of(tables: Tables, schema: LinkedSchema) -> tuple[Tables, LinkedSchema]:
    """Returns the tables with the numbers of children in a column each, and the unit that each record belongs to."""
    units = {schema.root.name: tables[schema.root.name][schema.root.key]}
    found = {schema.root.name: tables[schema.root.name]}
    for link in schema.links:
        parents, children = tables[link.parent.name], tables[link.name]
        place = pc.index_in(
            children[link.child.parent_key], value_set=parents[link.parent.key]
        )
        counts = np.bincount(place.drop_null().to_numpy(), minlength=len(parents))
        units[link.name] = units[link.parent.name].take(place)
        found[link.name] = children.append_column(UNIT, units[link.name])
        number = NUMBER.format(link.name)
        found[link.parent.name] = found[link.parent.name].append_column(
            number, pa.array(counts)
        )
    return found, _with_numbers(schema)


def _with_numbers(schema: LinkedSchema) -> LinkedSchema:
    tables = []
    for table in schema.tables:
        numbers = [
            Integer(name=NUMBER.format(child.name), lower=0, upper=child.most or 1)
            for child in schema.children(table.name)
        ]
        tables.append(
            replace(
                table,
                schema=replace(table.schema, columns=(*table.schema.columns, *numbers)),
            )
        )
    return replace(schema, tables=tables, constraints=())


def independent(
    train: Tables, schema: LinkedSchema, epsilon: float, seed: int, parents: int
) -> Tables:
    """Returns as many parents as asked, and children, drawn table by table."""
    tables, described = children_of(train, schema)
    random, made, contributions = np.random.default_rng(seed), {}, 1
    spent = {
        "epsilon": epsilon / len(schema.tables),
        "delta": 1e-5 / len(schema.tables),
    }
    for table in described.tables:
        contributions *= used(table)
        plain = replace(
            table.schema,
            ignore=(*table.keys, *([] if table.parent is None else [UNIT])),
        )
        unit = (
            {}
            if table.parent is None
            else {"unit_column": UNIT, "contributions": contributions}
        )
        model = noisegate.synthesize(
            tables[table.name],
            schema=plain,
            method="pairwise",
            seed=seed,
            **spent,
            **unit,
        )
        counts = (
            [parents]
            if table.parent is None
            else made[table.parent][NUMBER.format(table.name)].to_numpy()
        )
        made[table.name] = _drawn(model, plain, table, np.asarray(counts), random, seed)
    return {
        name: rows.drop_columns(
            [
                column
                for column in rows.column_names
                if column.startswith(NUMBER.format(""))
            ]
        )
        for name, rows in made.items()
    }


def _drawn(
    model: noisegate.Synthesizer,
    schema: Schema,
    table: LinkedTable,
    counts: np.ndarray,
    random: np.random.Generator,
    seed: int,
) -> pa.Table:
    """Returns records with fresh keys; as many of each parent as `counts` says, put in order."""
    rows = pa.table(model.sample(int(counts.sum()), seed=seed)).take(
        random.permutation(int(counts.sum()))
    )
    if table.parent is not None:
        rows = rows.add_column(
            0, table.parent_key, pa.array(np.repeat(np.arange(len(counts)), counts))
        )
        if table.order is not None:
            rows = rows.sort_by(
                [(table.parent_key, "ascending"), (table.order, "ascending")]
            )
    if table.key is not None:
        rows = rows.add_column(0, table.key, pa.array(np.arange(len(rows))))
    return rows
