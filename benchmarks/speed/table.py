"""The made-up table of the speed benchmark: 20 numeric columns and a label with two values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from noisegate import Schema
from noisegate.schema import Boolean, Continuous, EncodedTable

COLUMNS = 20
CHUNK = 131_072

SCHEMA = Schema(
    (
        *(
            Continuous(name=f"x{place:02}", lower=0.0, upper=1.0)
            for place in range(COLUMNS)
        ),
        Boolean(name="y"),
    ),
    label="y",
)


def records(rows: int) -> EncodedTable:
    """Returns `rows` records, encoded."""
    random = np.random.default_rng(0)
    return EncodedTable(
        random.uniform(size=(rows, COLUMNS)),
        random.integers(0, 2, (rows, 1)).astype(np.int32),
    )


def write_parquet(path: Path, rows: int) -> Path:
    """Writes `rows` records, a chunk at a time; values have four decimals, as measured ones would."""
    random = np.random.default_rng(rows)
    names = [column.name for column in SCHEMA.columns]
    kinds = [pa.float64()] * COLUMNS + [pa.bool_()]
    with pq.ParquetWriter(
        path, pa.schema(list(zip(names, kinds, strict=True)))
    ) as writer:
        for start in range(0, rows, CHUNK):
            size = min(CHUNK, rows - start)
            cells = [
                pa.array(random.integers(0, 10_001, size) / 10_000)
                for _ in range(COLUMNS)
            ]
            writer.write_table(
                pa.table(
                    [*cells, pa.array(random.integers(0, 2, size) == 1)], names=names
                )
            )
    return path
