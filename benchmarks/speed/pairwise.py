"""What the pairwise method takes from a file to a synthetic table: seconds and peak memory.

    python benchmarks/speed/pairwise.py [--shapes million long wide] [--json FILE]

Each shape is a made-up table of dependent numeric, coded and boolean columns in a Parquet file, run in a process of its
own at ε = 1. `million` and `long` differ in rows alone: the time at the gate must grow by no more than ten, and the
peak of memory must not grow.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import choices, hidden, optional, read_options
from harness.results import write_json

if TYPE_CHECKING:
    from noisegate import Schema

CHUNK = 131_072
GOAL_MEGABYTES = 2000
FACTORS = 5


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A table of `columns` columns, the label included; every third one but the label is coded."""

    rows: int
    columns: int


SHAPES = {
    "million": Shape(rows=1_000_000, columns=20),
    "long": Shape(rows=10_000_000, columns=20),
    "wide": Shape(rows=50_000, columns=200),
}


def main() -> int:
    """Runs the benchmark; 0 when the memory goal is met everywhere, else 1."""
    options = read_options(
        __doc__,
        shapes=choices(SHAPES),
        json=optional(Path),
        measure=hidden(optional(Path)),
    )
    if options.measure:
        print(json.dumps(_run(options.measure, SHAPES[options.shapes[0]])))
        return 0
    results = {}
    with tempfile.TemporaryDirectory(prefix="noisegate-speed-") as folder:
        for name in options.shapes:
            path = _write(Path(folder) / f"{name}.parquet", SHAPES[name])
            command = [
                sys.executable,
                __file__,
                "--measure",
                str(path),
                "--shapes",
                name,
            ]
            results[name] = json.loads(
                subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
            )
            path.unlink()
    _print(results)
    write_json(options.json, results)
    return (
        0
        if all(
            result["peak_megabytes"] <= GOAL_MEGABYTES for result in results.values()
        )
        else 1
    )


def _schema(shape: Shape) -> Schema:
    from noisegate.schema import Boolean, Categorical, Continuous, Schema

    columns = [
        Categorical(
            name=f"c{place:03}",
            levels=tuple(f"level {code}" for code in range(_levels(place))),
        )
        if place % 3 == 0
        else Continuous(name=f"x{place:03}", lower=-8.0, upper=8.0)
        for place in range(shape.columns - 1)
    ]
    return Schema((*columns, Boolean(name="y")), label="y")


def _levels(place: int) -> int:
    return 3 + place % 7


def _write(path: Path, shape: Shape) -> Path:
    """Writes the table, some records at a time: each column depends on one of a few hidden factors."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(shape.columns)
    writer = None
    for start in range(0, shape.rows, CHUNK):
        size = min(CHUNK, shape.rows - start)
        hidden = random.normal(size=(FACTORS, size))
        columns: dict[str, Any] = {}
        for place, column in enumerate(_schema(shape).columns[:-1]):
            values = hidden[place % FACTORS] + random.normal(size=size)
            if place % 3:
                columns[column.name] = np.round(values, 4)
                continue
            codes = np.clip(
                (values + 3) / 6 * _levels(place), 0, _levels(place) - 1
            ).astype(np.int32)
            names = [f"level {code}" for code in range(_levels(place))]
            columns[column.name] = pa.DictionaryArray.from_arrays(
                pa.array(codes), names
            )
        table = pa.table(columns | {"y": hidden[0] + random.normal(size=size) > 0})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return path


def _run(path: Path, shape: Shape) -> dict[str, float]:
    from memory import peak_megabytes

    from noisegate import Gate, Pairwise

    method, clock, work = Pairwise(), time.perf_counter(), time.process_time()
    release = method.query(Gate(path, schema=_schema(shape), epsilon=1.0))
    asked = time.perf_counter() - clock
    found = {
        "gate_seconds": asked,
        "gate_processor_seconds": time.process_time() - work,
    }
    found["gate_megabytes"] = peak_megabytes()
    clock, work = time.perf_counter(), time.process_time()
    synthesizer = method.fit_release(release, device="cpu")
    synthesizer.sample(50_000, seed=0)
    return found | {
        "fit_seconds": time.perf_counter() - clock,
        "fit_processor_seconds": time.process_time() - work,
        "distance_over_noise": synthesizer.summary.discrepancy,
        "peak_megabytes": peak_megabytes(),
    }


def _print(results: dict[str, dict[str, float]]) -> None:
    from rich.console import Console
    from rich.table import Table

    page = Table(
        title="pairwise, from a Parquet file to 50,000 records", title_justify="left"
    )
    page.add_column("")
    for name in results:
        page.add_column(
            f"{name}: {SHAPES[name].rows:,} x {SHAPES[name].columns}", justify="right"
        )
    for figure in next(iter(results.values())):
        page.add_row(
            figure.replace("_", " "),
            *(f"{result[figure]:,.1f}" for result in results.values()),
        )
    console = Console()
    console.print(page)
    console.print(f"Goal: at most {GOAL_MEGABYTES:,} MB.")


if __name__ == "__main__":
    sys.exit(main())
