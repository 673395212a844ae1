"""The sets of linked tables, as training and test tables with their public schema.

In the files pbcseq of the R package survival and nlswork of Stata a row is a visit or an interview, and what is of the
patient or the woman is repeated in each. It goes up into a table of parents here: which columns these are, and all
bounds, is read from the codebooks and not from the rows. Two parents in ten, drawn with a fixed seed, are for tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from clinic import clinic

from noisegate.schema.linked.schema import LinkedSchema

HERE = Path(__file__).parent
TEST_SHARE, SEED = 0.2, 2026
CLINIC = 50_000

Tables: TypeAlias = dict[str, pa.Table]


@dataclass(frozen=True, kw_only=True)
class Split:
    """A file whose rows are children: its name, and columns that are called otherwise in the schema."""

    file: str
    renamed: tuple[tuple[str, str], ...] = ()


SPLITS = {
    "pbcseq": Split(file="pbcseq.csv", renamed=(("alk.phos", "alk_phos"),)),
    "nlswork": Split(file="nlswork.csv"),
}
SETS = (*SPLITS, "clinic")


def schema_of(name: str) -> LinkedSchema:
    """Returns the public schema of a set."""
    return LinkedSchema.from_toml(HERE / "schemas" / f"{name}.toml")


def load(
    name: str, data: Path | None, *, parents: int = CLINIC
) -> tuple[Tables, Tables]:
    """Returns the training and the test tables of a set.

    Args:
        name: one of `SETS`.
        data: the folder with the files of pbcseq and nlswork, or one with a folder ``linked``; None for none.
        parents: how many parents a clinic has, those for tests not counted.

    Raises:
        RuntimeError: when the file is not there, naming what was looked for.
    """
    if name == "clinic":
        return clinic(parents, seed=0), clinic(round(parents * TEST_SHARE), seed=1)
    split = SPLITS[name]
    folders = [] if data is None else [data, data / "linked"]
    found = next(
        (folder / split.file for folder in folders if (folder / split.file).exists()),
        None,
    )
    if found is None:
        raise RuntimeError(
            f"{name} needs --data DIR, a folder with {split.file} or linked/{split.file}"
        )
    schema = schema_of(name)
    return _halves(apart(_read(found, schema), split, schema), schema)


def _read(path: Path, schema: LinkedSchema) -> pa.Table:
    """Returns the rows; levels that are text in the schema are text, not numbers."""
    texts = {
        column.name: pa.string()
        for table in schema.tables
        for column in table.schema.layout.coded
        if isinstance(column.levels[0], str)
    }
    absent = list(schema.root.schema.missing_values)
    options = pyarrow.csv.ConvertOptions(
        column_types=texts, null_values=absent, strings_can_be_null=True
    )
    return pyarrow.csv.read_csv(path, convert_options=options)


def apart(rows: pa.Table, split: Split, schema: LinkedSchema) -> Tables:
    """Returns the table of parents, each from its first row, and that of children; columns as in the schema."""
    names = dict(split.renamed)
    rows = rows.rename_columns([names.get(name, name) for name in rows.column_names])
    parents, children = schema.tables
    first = np.sort(np.unique(rows[parents.key].to_numpy(), return_index=True)[1])
    return {
        parents.name: rows.take(first).select([*parents.keys, *parents.schema.names]),
        children.name: rows.select([*children.keys, *children.schema.names]),
    }


def _halves(tables: Tables, schema: LinkedSchema) -> tuple[Tables, Tables]:
    keys = tables[schema.root.name][schema.root.key].to_numpy()
    held_out = pa.array(
        np.random.default_rng(SEED).permutation(keys)[: round(len(keys) * TEST_SHARE)]
    )
    chosen = {
        name: pc.is_in(table[schema.root.key], value_set=held_out)
        for name, table in tables.items()
    }
    train = {
        name: table.filter(pc.invert(chosen[name])) for name, table in tables.items()
    }
    return train, {name: table.filter(chosen[name]) for name, table in tables.items()}
