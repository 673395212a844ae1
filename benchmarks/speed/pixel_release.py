"""How long the gate takes to release DP-HP's sum embedding of many images, and how much memory.

    python benchmarks/speed/pixel_release.py [--rows 60000] [--order 100] [--threads N] [--repeats 3] [--json FILE]

The embedding is that of the paper: 784 pixels, Hermite features of order 100, 10 labels, 791,840 coordinates. Images
are simulated digits (../simulated_digits.py). Beside it stands the least that any way of doing it must do: NumPy counts
how often each of 256 intensities occurs in each pixel under each label (`bincount`), without checks, features or noise.
Goals: less than 60 s and 4 GB for 60,000 images.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SIDE, LABELS, LEVELS = 28, 10, 256
SECONDS_GOAL, MEGABYTES_GOAL = 60.0, 4000.0


def main() -> int:
    """Runs the benchmark; 0 when both goals are met, else 1."""
    options = _options()
    if options.measure:
        return _measure(options)
    from rich.console import Console
    from rich.table import Table

    console = Console()
    command = [sys.executable, __file__, "--measure", *_passed_on(options)]
    with console.status(f"{options.rows:,} images"):
        answer = json.loads(
            subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        )
    page = Table(
        title=f"{options.rows:,} images, {answer['coordinates']:,} coordinates, {options.threads} thread(s)"
    )
    for heading in ("", "figure", "goal"):
        page.add_column(heading, justify="right")
    page.add_row("release, s", f"{answer['seconds']:.1f}", f"< {SECONDS_GOAL:.0f}")
    page.add_row("bare count, s", f"{answer['bare_seconds']:.1f}", "")
    page.add_row("release / bare count", f"{answer['ratio']:.2f}", "")
    page.add_row(
        "peak memory, MB", f"{answer['peak_megabytes']:.0f}", f"< {MEGABYTES_GOAL:.0f}"
    )
    page.add_row("of it the images, MB", f"{answer['table_megabytes']:.0f}", "")
    console.print(page)
    if options.json:
        options.json.write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")
    return (
        0
        if answer["seconds"] < SECONDS_GOAL
        and answer["peak_megabytes"] < MEGABYTES_GOAL
        else 1
    )


def _measure(options: argparse.Namespace) -> int:
    """Prints the figures of both sides, which ran in turns in this process."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import numpy as np
    import pyarrow as pa
    from memory import peak_megabytes
    from simulated_digits import simulated_digits

    from noisegate import Gate
    from noisegate.gate.sums import LocalEngine
    from noisegate.schema import pixel_schema
    from noisegate_papers.methods.mean_embeddings import DPHP

    drawn, labels = simulated_digits(min(options.rows, 10_000), seed=0)
    # Their number matters here, not their variety.
    images = np.resize(drawn.reshape(len(drawn), -1), (options.rows, SIDE * SIDE))
    codes = np.resize(labels, options.rows)
    schema = pixel_schema(SIDE, SIDE, labels=list(range(LABELS)))
    columns: dict[str, Any] = {
        name: pa.array(images[:, j]) for j, name in enumerate(schema.names[:-1])
    }
    table = pa.table(columns | {"label": pa.array(codes.astype(np.int64))})
    order = {
        "order": options.order,
        "product_order": options.order,
        "moved": False,
    }  # the paper's series
    method = DPHP(generator="mixture", products="none", length_scale=0.0707, **order)

    def release() -> int:
        gate = Gate(
            table,
            schema=schema,
            epsilon=1.0,
            engine=LocalEngine(threads=options.threads),
        )
        return int(method.query(gate).values["sum"].size)

    def count() -> None:
        for pixel in range(SIDE * SIDE):
            np.bincount(codes * LEVELS + images[:, pixel], minlength=LABELS * LEVELS)

    coordinates, ours, bare = release(), [], []
    for _ in range(options.repeats):
        ours.append(_seconds(release))
        bare.append(_seconds(count))
    answer = {
        "rows": options.rows,
        "coordinates": coordinates,
        "seconds": statistics.median(ours),
        "bare_seconds": statistics.median(bare),
        "ratio": statistics.median(
            one / other for one, other in zip(ours, bare, strict=True)
        ),
        "peak_megabytes": peak_megabytes(),
        "table_megabytes": table.nbytes / 1e6,
    }
    print(json.dumps(answer))
    return 0


def _seconds(run: Any) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _passed_on(options: argparse.Namespace) -> list[str]:
    named = {
        "rows": options.rows,
        "order": options.order,
        "threads": options.threads,
        "repeats": options.repeats,
    }
    return [part for name, value in named.items() for part in (f"--{name}", str(value))]


def _options() -> argparse.Namespace:
    cores = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )
    parser = argparse.ArgumentParser(
        description="Time and memory of the sum embedding of images."
    )
    parser.add_argument("--rows", type=int, default=60_000, help="images")
    parser.add_argument("--order", type=int, default=100, help="of the Hermite series")
    parser.add_argument("--threads", type=int, default=cores)
    parser.add_argument(
        "--repeats",
        type=int,
        default=3,
        help="interleaved repetitions; medians are compared",
    )
    parser.add_argument(
        "--json", type=Path, default=None, help="write the figures there"
    )
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if min(options.rows, options.order, options.threads, options.repeats) < 1:
        parser.error("--rows, --order, --threads and --repeats must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
