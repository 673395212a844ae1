"""What the gate is held beside: PyArrow reads the same columns, and `np.bincount` counts the same pairs of them.

No value is checked, clamped or looked for among missing ones; types are known, and whole numbers are cut by arithmetic.
All on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from scale_table import PAIRS, SCHEMA, task

from noisegate.schema import Categorical, Continuous

_BATCH_ROWS = 32_768
_BLOCK_BYTES = 1 << 20


def bare_counts(files: Iterable[Path]) -> npt.NDArray[np.int64]:
    """Returns the counts of all pairs, one behind the other."""
    counts: Any = task().feature_map
    totals = [
        np.zeros(counts.sizes[left] * counts.sizes[right], dtype=np.int64)
        for left, right in PAIRS
    ]
    cells_of = _cells(counts)
    for file in files:
        for batch in _batches(file):
            cells = [find(batch[name]) for name, find in cells_of.items()]
            for total, (left, right) in zip(totals, PAIRS, strict=True):
                total += np.bincount(
                    cells[left] * counts.sizes[right] + cells[right],
                    minlength=len(total),
                )
    return np.concatenate(totals)


def scan(files: Iterable[Path]) -> int:
    """Returns how many records there are, of which all columns are read."""
    return sum(batch.num_rows for file in files for batch in _batches(file))


def _batches(file: Path) -> Iterable[pa.RecordBatch]:
    if file.suffix == ".parquet":
        with pq.ParquetFile(file) as opened:
            yield from opened.iter_batches(batch_size=_BATCH_ROWS, use_threads=False)
        return
    kinds = {
        column.name: pa.string()
        if isinstance(column, Categorical)
        else pa.float64()
        if isinstance(column, Continuous)
        else pa.int64()
        for column in SCHEMA.columns
    }
    yield from pa_csv.open_csv(
        file,
        read_options=pa_csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
        convert_options=pa_csv.ConvertOptions(column_types=kinds),
    )


def _cells(counts: Any) -> dict[str, Callable[[pa.Array], npt.NDArray[np.int64]]]:
    """Returns for each column, in the order of the layout, from its values to the cells that they fall in."""
    layout, found = SCHEMA.layout, {}
    for column, bins in zip(layout.numeric, counts.bins, strict=True):
        cuts = np.asarray(bins.cuts) * (column.upper - column.lower) + column.lower
        if len(cuts) == column.upper - column.lower:  # a cell for each whole number
            found[column.name] = _whole
        elif isinstance(column, Continuous):
            found[column.name] = lambda values, cuts=cuts: np.searchsorted(
                cuts, _numbers(values), side="right"
            )
        else:
            table = np.searchsorted(
                cuts, np.arange(column.lower, column.upper + 1), side="right"
            )
            found[column.name] = lambda values, table=table: table.take(
                _numbers(values)
            )
    for column in layout.coded:
        found[column.name] = lambda values, known=column.levels: _whole(
            pc.index_in(values, pa.array(known))
        )
    return found


def _numbers(values: pa.Array) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return found


def _whole(values: pa.Array) -> npt.NDArray[np.int64]:
    return _numbers(values).astype(np.int64, copy=False)
