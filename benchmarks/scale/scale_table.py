"""The made-up table of the scale benchmark: 20 columns, and the counts of all 190 pairs of them.

One part is written, and a folder of links to it holds as many records as are asked for: all are read, none but the
first million take up space. The sums over the folder must be those over the part, times the links.
"""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from noisegate import Schema
from noisegate.gate.sums import SumTask
from noisegate.privacy.grid import Grid
from noisegate.queries.binning import equal_bins
from noisegate.queries.contingency import Contingency
from noisegate.schema import Categorical, Continuous, Integer

COLUMNS = 20
PART_ROWS = 1_000_000
KINDS = ("parquet", "csv")
_CELLS = 16
_GROUP_ROWS = 131_072


def _column(place: int) -> Categorical | Continuous | Integer:
    name = f"c{place:02}"
    if place % 4 == 0:
        return Categorical(
            name=name, levels=tuple(f"level {code}" for code in range(3 + place % 7))
        )
    if place % 4 == 2:
        return Continuous(name=name, lower=0.0, upper=1.0)
    return Integer(name=name, lower=0, upper=11 if place % 4 == 1 else 99)


SCHEMA = Schema(tuple(_column(place) for place in range(COLUMNS)))
PAIRS = tuple(combinations(range(COLUMNS), 2))


def task() -> SumTask:
    """Returns what is asked: all pairs of columns, numeric ones cut into 12 or 16 cells."""
    layout = SCHEMA.layout
    counts = Contingency(
        bins=tuple(equal_bins(column, _CELLS) for column in layout.numeric),
        coded=tuple(column.size for column in layout.coded),
        tables=PAIRS,
        weights=(1.0,) * len(PAIRS),
    )
    return SumTask(
        feature_map=counts, grid=Grid(norm=counts.norm), columns=1, label=None
    )


def write_part(path: Path, rows: int) -> Path:
    """Writes `rows` records as CSV or Parquet, as the name says; the same ones each time."""
    random, columns = np.random.default_rng(rows), {}
    for column in SCHEMA.columns:
        if isinstance(column, Categorical):
            codes = random.integers(0, len(column.levels), rows).astype(np.int32)
            columns[column.name] = pa.DictionaryArray.from_arrays(
                codes, list(column.levels)
            ).cast(pa.string())
        elif isinstance(column, Integer):
            columns[column.name] = pa.array(
                random.integers(column.lower, column.upper + 1, rows)
            )
        else:
            columns[column.name] = pa.array(random.integers(0, 1001, rows) / 1000)
    table = pa.table(columns)
    if path.suffix == ".csv":
        pa_csv.write_csv(table, path, pa_csv.WriteOptions(quoting_style="none"))
    else:
        pq.write_table(table, path, row_group_size=_GROUP_ROWS)
    return path


def linked_folder(place: Path, kind: str, rows: int) -> tuple[Path, int]:
    """Returns a folder under `place` with `rows` records, of which one part is stored, and how many parts it has."""
    size = min(rows, PART_ROWS)
    part, folder = place / f"part-{size}.{kind}", place / f"{kind}-{rows}"
    if rows % size:
        raise SystemExit(f"--rows {rows}: must be a multiple of {PART_ROWS:,}, or less")
    if not part.exists():
        write_part(part.with_name(f"unfinished-{part.name}"), size).rename(part)
    folder.mkdir(exist_ok=True)
    for number in range(rows // size):
        link = folder / f"{number:06}.{kind}"
        if not link.exists():
            os.link(part, link)
    return folder, rows // size
