"""The linked tables that words are judged on: simulated ones, and public ones with a repeated identifier.

A simulated set follows from its description alone. Columns of a parent and of its children show one hidden number of
the parent, each with its own error; a child's columns also follow those of the child before, and so persist. A public
set is one table of Rdatasets, divided: what is constant within an identifier describes the parent, and the rest the
child. `corpus.Table` refuses those that are reserved.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from corpus import Table, open_text
from pyarrow import csv

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Tables = dict[str, pa.Table]

_SPLIT_SEED = 0
_TRAIN_SHARE = 0.7
_START = np.datetime64("2021-01-01T00", "h")
_HOURS_OF_TWO_YEARS = 2 * 365 * 24
_LEVELS = "abcdefgh"
# Rows of the children of a drawn set, about: a run takes seconds.
_MAX_DRAWN_ROWS = 30_000


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """A description of simulated linked tables.

    Attributes:
        name: Its name in the results.
        parents: Number of parents.
        children: Mean number of children of a parent.
        counts: How that number varies: not at all, Poisson, or geometric, with many small families.
        parent_columns: Columns of the parents, beside the key and the date of the start.
        child_columns: Columns of the children, beside keys and the date.
        persistence: Correlation of a child's number with that of the child before, given the parent.
        tie: Correlation of a child's number with the hidden number of its parent.
        dates: "none"; "steps" of an hour, the first at the start of the parent; or "gaps" of about ten days.
        counter: Name of a column that counts the children of a parent from 1 on, as visits or years do; None for none.
        grandchildren: Mean number of children of a child; 0 for no third table.
    """

    name: str
    parents: int
    children: float
    counts: Literal["fixed", "poisson", "geometric"] = "poisson"
    parent_columns: int = 3
    child_columns: int = 3
    persistence: float = 0.0
    tie: float = 0.0
    dates: Literal["none", "steps", "gaps"] = "none"
    counter: str | None = None
    grandchildren: float = 0.0

    def tables(self) -> Tables:
        """Simulates the tables, parents first; the same at each call."""
        random = np.random.default_rng(list(self.name.encode()))
        hidden = random.normal(size=self.parents)
        start_hours = random.integers(0, _HOURS_OF_TWO_YEARS, self.parents)
        parents = {"parent_id": pa.array(np.arange(1, self.parents + 1))}
        parents |= _shown(
            0.6 * hidden[:, None]
            + 0.8 * random.normal(size=(self.parents, self.parent_columns)),
            "p",
        )
        if self.dates != "none":
            parents["start"] = _timestamps(start_hours)

        counts = self._child_counts(random)
        parent_of_child = np.repeat(np.arange(self.parents), counts)
        n_children = len(parent_of_child)
        position = np.arange(n_children) - np.repeat(np.cumsum(counts) - counts, counts)
        numbers = self._child_numbers(random, hidden[parent_of_child], position)
        children = {
            "child_id": pa.array(np.arange(1, n_children + 1)),
            "parent_id": parents["parent_id"].take(pa.array(parent_of_child)),
        }
        if self.dates == "steps":
            children["time"] = _timestamps(start_hours[parent_of_child] + position)
        elif self.dates == "gaps":
            gaps = np.ceil(random.exponential(240, n_children)).astype(np.int64)
            waited = np.cumsum(gaps)
            before_first = (waited - gaps)[position == 0]
            is_parent = counts > 0
            waited -= np.repeat(before_first, counts[is_parent])
            children["time"] = _timestamps(start_hours[parent_of_child] + waited)
        if self.counter is not None:
            children[self.counter] = pa.array(position + 1)
        children |= _shown(numbers, "c")
        if not self.grandchildren:
            del children["child_id"]
            return {"parents": pa.table(parents), "children": pa.table(children)}

        rates = self.grandchildren * np.exp(0.5 * numbers[:, 0] - 0.125)
        child_of_grandchild = np.repeat(np.arange(n_children), random.poisson(rates))
        errors = random.normal(size=(len(child_of_grandchild), 2))
        grandchildren = {
            "child_id": children["child_id"].take(pa.array(child_of_grandchild)),
            **_shown(0.6 * numbers[child_of_grandchild, :1] + 0.8 * errors, "g"),
        }
        return {
            "parents": pa.table(parents),
            "children": pa.table(children),
            "grandchildren": pa.table(grandchildren),
        }

    def _child_counts(self, random: np.random.Generator) -> Integers:
        """Draws how many children each parent has, (parents,)."""
        if self.counts == "fixed":
            return np.full(self.parents, round(self.children))
        if self.counts == "poisson":
            return random.poisson(self.children, self.parents)
        return random.geometric(1 / (1 + self.children), self.parents) - 1

    def _child_numbers(
        self, random: np.random.Generator, hidden: Floats, position: Integers
    ) -> Floats:
        """Draws standard numbers of children that persist and are tied to the parent, (children, child_columns)."""
        errors = random.normal(size=(len(hidden), self.child_columns))
        innovation = np.sqrt(1 - self.persistence**2)
        own = errors.copy()
        for row in np.flatnonzero(position > 0):
            own[row] = self.persistence * own[row - 1] + innovation * errors[row]
        return self.tie * hidden[:, None] + np.sqrt(1 - self.tie**2) * own


def _shown(numbers: Floats, prefix: str) -> dict[str, pa.Array]:
    """Shows standard numbers as columns: an integer, levels, a number with a long tail, and so on.

    Args:
        numbers: Standard normal numbers, (rows, columns).
        prefix: What the names of the columns begin with.
    """
    columns = {}
    for index in range(numbers.shape[1]):
        number = numbers[:, index]
        kind = index % 3
        if kind == 0:
            column = np.rint(80 + 12 * number).astype(np.int64)
        elif kind == 1:
            cuts = np.linspace(-1.2, 1.2, 1 + index % 5)
            column = np.array(list(_LEVELS))[np.searchsorted(cuts, number)]
        else:
            column = np.exp(3 + 0.6 * number).round(1)
        columns[f"{prefix}{index}"] = pa.array(column)
    return columns


def _timestamps(hours: Integers) -> pa.Array:
    return pa.array((_START + hours).astype("datetime64[s]"))


SIMULATED = (
    Simulated(name="ward", parents=1500, children=24, counts="fixed", parent_columns=2,
              child_columns=1, persistence=0.8, tie=0.8, dates="steps"),
    Simulated(name="few-short", parents=300, children=2, child_columns=2),
    Simulated(name="few-long", parents=300, children=25, child_columns=2,
              persistence=0.9, dates="gaps"),
    Simulated(name="orders", parents=8000, children=1.5, counts="geometric",
              child_columns=3, tie=0.3),
    Simulated(name="visits", parents=3000, children=4, child_columns=4,
              persistence=0.6, tie=0.4, dates="gaps"),
    Simulated(name="panel", parents=2000, children=7, counts="fixed", parent_columns=4,
              child_columns=5, persistence=0.9, tie=0.3),
    Simulated(name="weak", parents=4000, children=3, child_columns=2),
    Simulated(name="tied", parents=2500, children=5, child_columns=3, tie=0.9),
    Simulated(name="wide", parents=2000, children=3, parent_columns=8, child_columns=8,
              persistence=0.5, tie=0.3),
    Simulated(name="clinic", parents=5000, children=2, counts="geometric",
              parent_columns=4, persistence=0.7, tie=0.5, dates="gaps"),
    Simulated(name="basket", parents=1200, children=3, grandchildren=2, tie=0.4),
    Simulated(name="school", parents=500, children=20, child_columns=4, tie=0.3),
    Simulated(name="sensor", parents=800, children=30, counts="fixed",
              parent_columns=2, child_columns=2, persistence=0.98, dates="steps"),
    Simulated(name="claims", parents=8000, children=1, parent_columns=6,
              child_columns=4, tie=0.5, dates="gaps"),
    Simulated(name="pairs", parents=6000, children=2, counts="fixed",
              parent_columns=2, child_columns=2, persistence=0.8),
    Simulated(name="trial", parents=600, children=6, counts="fixed", parent_columns=5,
              child_columns=4, persistence=0.7, tie=0.6, dates="steps"),
    Simulated(name="loans", parents=4000, children=10, child_columns=2,
              persistence=0.95, tie=0.2),
    Simulated(name="hospital", parents=3000, children=2, grandchildren=1.5,
              parent_columns=4, child_columns=2, persistence=0.5, tie=0.5, dates="gaps"),
    Simulated(name="meters", parents=1000, children=12, counts="geometric",
              child_columns=6, persistence=0.3),
    Simulated(name="accounts", parents=7000, children=6, counts="geometric",
              parent_columns=2, child_columns=3, persistence=0.6, tie=0.7, dates="gaps"),
)  # fmt: skip
"""In an order in which sizes and kinds alternate, so that the first ones are a sample too."""


def drawn_sets(n_sets: int, seed: int = 0) -> Iterator[Simulated]:
    """Yields descriptions at random, the same at each call.

    A third of them have dates, another third a counter, and one in six a third table.

    Args:
        n_sets: Number of descriptions.
        seed: Of the draw. Rules were chosen on sets of draw 0; those of other draws are held out.
    """
    random = np.random.default_rng(seed)
    # Records follow from the name alone, so that a set of another draw needs another name.
    prefix = "drawn" if seed == 0 else f"drawn-{seed}"
    for index in range(n_sets):
        parents = round(float(np.exp(random.uniform(np.log(300), np.log(8000)))))
        most_children = min(30.0, _MAX_DRAWN_ROWS / parents)
        children = float(np.exp(random.uniform(0, np.log(most_children))))
        kind = index % 3
        yield Simulated(
            name=f"{prefix}-{index}",
            parents=parents,
            children=round(children, 1),
            counts=random.choice(["fixed", "poisson", "geometric"]),
            parent_columns=int(random.integers(2, 9)),
            child_columns=int(random.integers(2, 9)),
            persistence=round(float(random.uniform(0, 0.98)), 2),
            tie=round(float(random.uniform(0, 0.9)), 2),
            dates=random.choice(["steps", "gaps"]) if kind == 0 else "none",
            counter=random.choice(["visit", "age"]) if kind == 1 else None,
            grandchildren=1.5 if index % 6 == 5 else 0.0,
        )


@dataclass(frozen=True, kw_only=True)
class Public:
    """A table of Rdatasets that is divided into parents and children.

    Attributes:
        table: "PACKAGE/NAME".
        identifier: The column that names the parent.
        ignored: Columns to leave out: transformations of others.
    """

    table: str
    identifier: str
    ignored: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name in the results."""
        return self.table

    def tables(self, folder: Path) -> Tables:
        """Reads and divides the table.

        Args:
            folder: A checkout of Rdatasets, or an export of it.

        Raises:
            ReservedTableError: if the table is reserved for somebody else's figures.
        """
        table = Table(
            name=self.table, path=folder / "csv" / f"{self.table}.csv", records=0
        )
        with open_text(table.path) as file:
            content = file.read().encode("utf-8", "replace")
        records = csv.read_csv(pa.BufferReader(content))
        left_out = {"rownames", *self.ignored}
        names = [name for name in records.column_names if name not in left_out]
        return split_by_identifier(records.select(names), self.identifier)


PUBLIC = (
    Public(table="geepack/muscatine", identifier="id", ignored=("numobese",)),
    Public(table="lme4/schizophrenia", identifier="id",
           ignored=("imps79b", "imps79o", "int", "SqrtWeek", "TxSWeek")),
    Public(table="mlmRev/egsingle", identifier="childid"),
    Public(table="wooldridge/airfare", identifier="id",
           ignored=("ldist", "y98", "y99", "y00", "lfare", "ldistsq", "lpassen")),
    Public(table="plm/Males", identifier="nr"),
    Public(table="geepack/ohio", identifier="id"),
    Public(table="multgee/arthritis", identifier="id"),
    Public(table="AER/PSID7682", identifier="id"),
    Public(table="lme4/toenail", identifier="patientID"),
    Public(table="lme4/VerbAgg", identifier="id", ignored=("r2",)),
    Public(table="survival/rhDNase", identifier="id"),
    Public(table="mlmRev/star", identifier="id", ignored=("tch", "birthq")),
)  # fmt: skip

HELD_OUT = (
    Public(table="nlme/MathAchieve", identifier="School"),
    Public(table="HLMdiag/radon", identifier="county", ignored=("county.name",)),
    Public(table="openintro/lecture_learning", identifier="student"),
    Public(table="camerondata/incpanel", identifier="intnum"),
)
"""Held-out tables of `corpus.py`, on which nothing is chosen: those whose parents have a column of their own."""


def split_by_identifier(records: pa.Table, identifier: str) -> Tables:
    """Divides records into parents, of the columns that are constant within an identifier, and children.

    Args:
        records: The records.
        identifier: The column that names the parent.

    Returns:
        The tables "parents" and "children".
    """
    others = [name for name in records.column_names if name != identifier]
    keys = records[identifier].combine_chunks().dictionary_encode()
    codes = keys.indices.to_numpy()
    parent_count = len(keys.dictionary)
    first_rows = np.full(parent_count, len(codes))
    np.minimum.at(first_rows, codes, np.arange(len(codes)))
    constant = []
    for name in others:
        values = (
            records[name]
            .combine_chunks()
            .dictionary_encode(null_encoding="encode")
            .indices
        )
        value_codes = values.to_numpy()
        if (value_codes == value_codes[first_rows[codes]]).all():
            constant.append(name)
    varying = [name for name in others if name not in constant]
    parents = records.select([identifier, *constant]).take(pa.array(first_rows))
    return {"parents": parents, "children": records.select([identifier, *varying])}


def split_parents(tables: Tables) -> Iterator[Tables]:
    """Yields the tables of the parents for training and of those for testing, each with all that belongs to them.

    Args:
        tables: The tables by name, each after its parents, with which it shares the column of its key.
    """
    names = list(tables)
    root = tables[names[0]]
    order = np.random.default_rng(_SPLIT_SEED).permutation(root.num_rows)
    n_train = round(_TRAIN_SHARE * root.num_rows)
    for part in (np.sort(order[:n_train]), np.sort(order[n_train:])):
        split = {names[0]: root.take(pa.array(part))}
        for parent, child in itertools.pairwise(names):
            shared = set(split[parent].column_names) & set(tables[child].column_names)
            key = shared.pop()
            is_kept = pc.is_in(
                tables[child][key], value_set=split[parent][key].combine_chunks()
            )
            split[child] = tables[child].filter(is_kept)
        yield split
