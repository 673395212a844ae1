"""What one process of the scale benchmark measures: it is started for that alone, so its peak of memory is its own."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bare_counts import bare_counts, scan
from processes import Watched
from scale_table import KINDS, PART_ROWS, SCHEMA, linked_folder, task

from noisegate.gate.sums import Engine, LocalEngine, Totals
from noisegate.sources.tables.tables import TableSource

Found = dict[str, Any]


def one_core(place: Path, rows: int, repeats: int) -> Found:
    """Times the gate and bare PyArrow with NumPy on the same files in turns, one thread each; least processor time."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    found: Found = {}
    for kind in KINDS:
        folder, _ = linked_folder(place, kind, min(rows, PART_ROWS))
        files = sorted(folder.iterdir())
        gate, bare = _local(folder, 1), lambda files=files: bare_counts(files)
        weights = task().feature_map.integer_weights(task().grid)
        if not np.array_equal(gate().sums["pairs"][0], bare() * weights[0]):
            raise AssertionError(f"{kind}: the gate and the bare count differ")
        times = [
            (_processor_seconds(gate), _processor_seconds(bare)) for _ in range(repeats)
        ]
        ours, theirs = (min(column) for column in zip(*times, strict=True))
        found[kind] = {
            "gate_rows_per_second": min(rows, PART_ROWS) / ours,
            "bare_rows_per_second": min(rows, PART_ROWS) / theirs,
            "ratio": theirs / ours,
        }
    return found


def scanned(place: Path, rows: int) -> Found:
    """Times what bare PyArrow takes to read the columns of the Parquet files, one thread."""
    folder, _ = linked_folder(place, "parquet", rows)
    started = time.perf_counter()
    scan(sorted(folder.iterdir()))
    return {"seconds": time.perf_counter() - started}


def local(place: Path, rows: int, threads: int) -> Found:
    """Sums on threads of this process."""
    folder, _ = linked_folder(place, "parquet", rows)
    return _timed(LocalEngine(threads=threads), folder, rows)


def ray(place: Path, rows: int, workers: int, *, kill: bool = False) -> Found:
    """Sums on workers of a Ray of this process; one of them is killed in the middle where `kill` says so."""
    os.environ.setdefault(
        "RAY_worker_niceness", "0"
    )  # Ray gives its workers 15, which tells on a busy machine
    from noisegate import RayEngine

    folder, _ = linked_folder(place, "parquet", rows)
    first, _ = linked_folder(place, "parquet", min(rows, PART_ROWS))
    started = time.perf_counter()
    with RayEngine(workers=workers).opened() as engine:
        engine.sum(TableSource(first, SCHEMA), {"pairs": task()}, None)
        start = (
            time.perf_counter() - started
        )  # of Ray and of its workers, once in a run
        return _timed(engine, folder, rows, kill=kill) | {"start_seconds": start}


def _local(folder: Path, threads: int) -> Callable[[], Totals]:
    return lambda: LocalEngine(threads=threads).sum(
        TableSource(folder, SCHEMA), {"pairs": task()}, None
    )


def _timed(engine: Engine, folder: Path, rows: int, *, kill: bool = False) -> Found:
    killed: list[int] = []

    def progress(done: int) -> None:
        if kill and not killed and done >= rows // 2:
            killed.append(watched.a_worker())
            with suppress(ProcessLookupError):
                os.kill(killed[0], signal.SIGKILL)

    with Watched() as watched:
        started = time.perf_counter()
        totals = engine.sum(TableSource(folder, SCHEMA), {"pairs": task()}, progress)
        seconds = time.perf_counter() - started
    if totals.records != rows or (kill and not killed):
        raise AssertionError(
            f"{totals.records} records of {rows}, {len(killed)} workers killed"
        )
    return {
        "seconds": seconds,
        "rows_per_second": rows / seconds,
        "sums": hashlib.sha256(totals.sums["pairs"].tobytes()).hexdigest(),
        **watched.found(),
    }


def _processor_seconds(run: Callable[[], Any]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def expected_sums(place: Path, rows: int) -> str:
    """Returns the hash of the sums over one part, times how many parts there are."""
    part, _ = linked_folder(place, "parquet", min(rows, PART_ROWS))
    sums = _local(part, 1)().sums["pairs"] * (rows // min(rows, PART_ROWS))
    return hashlib.sha256(sums.tobytes()).hexdigest()
