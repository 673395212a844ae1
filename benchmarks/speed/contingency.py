"""How fast contingency tables are counted at the gate, and in how much memory.

    python benchmarks/speed/contingency.py [--shapes adult long wide] [--threads N] [--json FILE]

Each shape is a made-up table in a Parquet file, 24 cells a column, and all pairs of its columns are asked for. A whole
release (read, check, encode, count, add noise, certify) runs in a process of its own. Beside it stands what bare NumPy
does with codes that lie ready in memory: `np.bincount` of each table, and the matrix product of one-hot codes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import choices, hidden, optional, read_options
from harness.results import write_json

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from noisegate import Schema

CELLS = 24
CHUNK = 131_072
BARE_ROWS, PRODUCT_ROWS = 32_768, 4096


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A table, how it is asked, and the goals: seconds for the whole release, and megabytes at its peak."""

    rows: int
    columns: int
    by_label: bool
    seconds: float
    megabytes: float


SHAPES = {
    "adult": Shape(rows=32_768, columns=15, by_label=True, seconds=5, megabytes=2000),
    "long": Shape(
        rows=10_000_000, columns=20, by_label=False, seconds=120, megabytes=2000
    ),
    "wide": Shape(rows=50_000, columns=200, by_label=False, seconds=90, megabytes=2000),
}


def main() -> int:
    """Runs the benchmark; 0 when all goals are met, else 1."""
    options = _options()
    if options.measure:
        shape = SHAPES[options.shapes[0]]
        print(
            json.dumps(_release(options.measure, shape, options.threads) | _bare(shape))
        )
        return 0
    from rich.console import Console

    console = Console()
    results = []
    with tempfile.TemporaryDirectory(prefix="noisegate-speed-") as folder:
        for name in options.shapes:
            with console.status(
                f"{name}: {SHAPES[name].rows:,} records of {SHAPES[name].columns} columns"
            ):
                path = _write(Path(folder) / f"{name}.parquet", SHAPES[name])
                command = [
                    sys.executable,
                    __file__,
                    "--measure",
                    str(path),
                    "--shapes",
                    name,
                ]
                command += ["--threads", str(options.threads)]
                answer = subprocess.run(
                    command, check=True, stdout=subprocess.PIPE
                ).stdout
                path.unlink()
            results.append(
                {"shape": name, "rows": SHAPES[name].rows, **json.loads(answer)}
            )
    _print(console, results, options.threads)
    write_json(options.json, results)
    return 0 if all(_met(result) for result in results) else 1


def _options() -> argparse.Namespace:
    cores = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )
    return read_options(
        __doc__,
        shapes=choices(SHAPES),
        threads=cores,
        json=optional(Path),
        measure=hidden(optional(Path)),
    )


def _schema(shape: Shape) -> Schema:
    from noisegate.schema import Boolean, Continuous, Schema

    columns = (
        Continuous(name=f"x{place:03}", lower=0.0, upper=1.0)
        for place in range(shape.columns)
    )
    return Schema((*columns, Boolean(name="y")), label="y")


def _write(path: Path, shape: Shape) -> Path:
    """Writes the table, some records at a time; values have four decimals, as measured ones would."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(shape.rows)
    names = [column.name for column in _schema(shape).columns]
    kinds = [pa.float64()] * shape.columns + [pa.bool_()]
    with pq.ParquetWriter(
        path, pa.schema(list(zip(names, kinds, strict=True)))
    ) as writer:
        for start in range(0, shape.rows, CHUNK):
            size = min(CHUNK, shape.rows - start)
            cells = [
                pa.array(random.integers(0, 10_001, size) / 10_000)
                for _ in range(shape.columns)
            ]
            writer.write_table(
                pa.table(
                    [*cells, pa.array(random.integers(0, 2, size) == 1)], names=names
                )
            )
    return path


def _release(path: Path, shape: Shape, threads: int) -> dict[str, float]:
    """Releases all pairs of columns from the file; returns what it took."""
    from memory import peak_megabytes

    from noisegate import Gate
    from noisegate.gate.sums import LocalEngine
    from noisegate.privacy.plan import Query, plan_sums
    from noisegate.queries.binning import NumericBins
    from noisegate.queries.contingency import Contingency

    cuts = tuple(cut / CELLS for cut in range(1, CELLS))
    pairs = list(combinations(range(shape.columns), 2))
    tables = tuple((*pair, shape.columns) if shape.by_label else pair for pair in pairs)
    features = Contingency(
        bins=(NumericBins(cuts),) * shape.columns,
        coded=(2,),
        tables=tables,
        weights=(1.0,) * len(tables),
    )
    started, before = time.perf_counter(), time.process_time()
    gate = Gate(
        path, schema=_schema(shape), epsilon=1.0, engine=LocalEngine(threads=threads)
    )
    question = Query(
        name="pairs",
        dim=features.dim,
        columns=1,
        norm=features.norm,
        share=1.0,
        nonnegative=features.nonnegative,
    )
    plan = plan_sums(gate.budget, (question,))
    gate.sum(plan, {"pairs": features}, method="benchmark", public={})
    return {
        "tables": len(tables),
        "cells": features.dim,
        "seconds": time.perf_counter() - started,
        "processor_seconds": time.process_time() - before,
        "peak_megabytes": peak_megabytes(),
    }


def _bare(shape: Shape) -> dict[str, float]:
    """Returns the rows per second of bare NumPy on one thread, without labels."""
    import numpy as np
    from threadpoolctl import threadpool_limits

    codes = np.random.default_rng(0).integers(0, CELLS, (shape.columns, BARE_ROWS))

    def bincounts() -> None:
        for left, right in combinations(codes, 2):
            np.bincount(left * CELLS + right, minlength=CELLS * CELLS)

    with threadpool_limits(limits=1):
        return {
            "bincount_rows_per_second": BARE_ROWS / _seconds(bincounts),
            "product_rows_per_second": PRODUCT_ROWS
            / _seconds(lambda: _product(codes[:, :PRODUCT_ROWS])),
        }


def _product(codes: npt.NDArray[np.int64]) -> None:
    """XᵀX of one-hot codes in float32, some rows at a time."""
    import numpy as np

    places = codes + CELLS * np.arange(len(codes))[:, None]
    total = np.zeros((CELLS * len(codes),) * 2, dtype=np.float32)
    for start in range(0, codes.shape[1], 2048):
        block = places[:, start : start + 2048]
        hot = np.zeros((block.shape[1], len(total)), dtype=np.float32)
        hot[np.arange(len(hot)), block] = 1
        total += hot.T @ hot


def _seconds(run: Callable[[], None]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _met(result: dict[str, Any]) -> bool:
    shape = SHAPES[result["shape"]]
    return bool(
        result["seconds"] <= shape.seconds
        and result["peak_megabytes"] <= shape.megabytes
    )


def _print(console: Any, results: list[dict[str, Any]], threads: int) -> None:
    from rich.table import Table

    page = Table(
        title=f"All pairs of columns, {CELLS} cells each, {threads} thread(s)",
        title_justify="left",
    )
    for heading in ("", *(result["shape"] for result in results)):
        page.add_column(heading, justify="right" if heading else "left")
    shapes = [SHAPES[result["shape"]] for result in results]
    figures = [
        ("records", [f"{result['rows']:,}" for result in results]),
        ("tables", [f"{result['tables']:,}" for result in results]),
        ("cells", [f"{result['cells']:,}" for result in results]),
        ("seconds of a release", [f"{result['seconds']:.1f}" for result in results]),
        ("  goal", [f"≤ {shape.seconds:g}" for shape in shapes]),
        (
            "  seconds of processors",
            [f"{result['processor_seconds']:.1f}" for result in results],
        ),
        ("peak memory, MB", [f"{result['peak_megabytes']:.0f}" for result in results]),
        ("  goal", [f"≤ {shape.megabytes:g}" for shape in shapes]),
        (
            "records per second",
            [f"{result['rows'] / result['seconds']:,.0f}" for result in results],
        ),
        (
            "  bare np.bincount",
            [f"{result['bincount_rows_per_second']:,.0f}" for result in results],
        ),
        (
            "  bare matrix product",
            [f"{result['product_rows_per_second']:,.0f}" for result in results],
        ),
        (
            "",
            [
                "[green]pass[/green]" if _met(result) else "[red]miss[/red]"
                for result in results
            ],
        ),
    ]
    for name, values in figures:
        page.add_row(name, *values)
    console.print(page)


if __name__ == "__main__":
    sys.exit(main())
