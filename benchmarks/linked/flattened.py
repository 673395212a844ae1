"""Baseline: one flat table of children beside their parents, by `pairwise`, and put apart again.

A row is a child with the columns of its parent and their number of children; a parent without children is a row whose
child is missing. Of one parent a third of the most rows are used, and noise grows with them. Synthetic rows with one
number k of children are sorted by the columns of the parents, and k neighbours become the children of one parent.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from independent import NUMBER, Tables, used

import noisegate
from noisegate.schema import Integer, Schema
from noisegate.schema.linked.schema import Link, LinkedSchema


def flat(tables: Tables, link: Link) -> tuple[pa.Table, Schema]:
    """Returns the flat table, with the key of the parents, and its schema."""
    parents, children, key = (
        tables[link.parent.name],
        tables[link.name],
        str(link.parent.key),
    )
    place = pc.index_in(children[link.child.parent_key], value_set=parents[key])
    counts = np.bincount(place.to_numpy(), minlength=len(parents))
    childless = np.flatnonzero(counts == 0)
    whose = np.concatenate([place.to_numpy(), childless])
    which = pa.array(
        np.concatenate([np.arange(len(children)), np.full(len(childless), -1)])
    )
    rows = pc.if_else(pc.less(which, 0), None, which)
    columns = {
        key: parents[key].take(whose),
        NUMBER.format(link.name): pa.array(counts[whose]),
    }
    columns |= {
        f"{link.parent.name}.{name}": parents[name].take(whose)
        for name in link.parent.schema.names
    }
    columns |= {
        f"{link.name}.{name}": children[name].take(rows)
        for name in link.child.schema.names
    }
    described = [
        *(
            replace(column, name=f"{link.parent.name}.{column.name}")
            for column in link.parent.schema.columns
        ),
        Integer(name=NUMBER.format(link.name), lower=0, upper=link.child.most or 1),
        *(
            replace(column, name=f"{link.name}.{column.name}", missing=True)
            for column in link.child.schema.columns
        ),
    ]
    return pa.table(columns), Schema(described, ignore=(key,))


def flattened(
    train: Tables, schema: LinkedSchema, epsilon: float, seed: int, parents: int
) -> Tables:
    """Returns about as many parents as asked, and their children, of the first link alone."""
    link = schema.links[0]
    table, described = flat(train, link)
    key, most, few = str(link.parent.key), link.child.most or 1, used(link.child)
    model = noisegate.synthesize(
        table,
        schema=described,
        epsilon=epsilon,
        method="pairwise",
        seed=seed,
        unit_column=key,
        contributions=few,
    )
    # Of parents with k children min(k, few) rows were used, and k are needed for each.
    drawn = 2 * parents * few
    rows = pa.table(model.sample(drawn, seed=seed))
    numbers = rows[NUMBER.format(link.name)].to_numpy()
    held = np.bincount(numbers, minlength=most + 1)
    families = held / np.minimum(np.maximum(np.arange(most + 1), 1), few)
    families = np.round(parents * families / families.sum()).astype(int)
    return _apart(rows, link, numbers, families)


def _apart(
    rows: pa.Table, link: Link, numbers: np.ndarray, families: np.ndarray
) -> Tables:
    """Returns `families[k]` parents with k neighbouring rows each."""
    names = [f"{link.parent.name}.{name}" for name in link.parent.schema.names]
    order = (
        pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in names])
        .to_numpy()
        .astype(np.int64)
    )
    first, members, counts = [], [], []
    for number, wanted in enumerate(families):
        found, size = order[numbers[order] == number], max(number, 1)
        if not len(found) or not wanted:
            continue
        # Fewer rows than are needed are taken more than once, spread evenly.
        taken = found[
            np.linspace(0, len(found) - 1, wanted * size).round().astype(int)
        ].reshape(wanted, size)
        first.append(taken[:, 0])
        members.append(taken.ravel() if number else np.zeros(0, dtype=int))
        counts.append(np.full(wanted, number))
    number = np.concatenate(counts)
    parents = (
        rows.take(np.concatenate(first))
        .select(names)
        .rename_columns(list(link.parent.schema.names))
    )
    children = rows.take(np.concatenate(members)).select(
        [f"{link.name}.{name}" for name in link.child.schema.names]
    )
    children = children.rename_columns(list(link.child.schema.names))
    whose = pa.array(np.repeat(np.arange(len(number)), number))
    children = children.add_column(0, str(link.child.parent_key), whose)
    if link.child.order is not None:
        children = children.sort_by(
            [(str(link.child.parent_key), "ascending"), (link.child.order, "ascending")]
        )
    parents = parents.add_column(
        0, str(link.parent.key), pa.array(np.arange(len(number)))
    )
    return {link.parent.name: parents, link.name: children}
