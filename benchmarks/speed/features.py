"""How fast the feature maps are, beside a bare float32 matrix product with an output of the same size.

    python benchmarks/speed/features.py [--rows 8192] [--threads 1] [--repeats 9] [--json FILE]

Every map turns the same batch of records, as the gate passes it, into float32 vectors; the product multiplies a float32
matrix of as many rows and 20 columns into as many coordinates. Both run in turns on as many threads of the linear
algebra library. Memory is the largest that a call holds, its result included.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from noisegate_sums import features as fourier_pairs
from rich.console import Console
from rich.table import Table
from table import COLUMNS, SCHEMA, records
from threadpoolctl import threadpool_limits

from noisegate.queries.feature_map import FeatureMap
from noisegate_images.queries.fourier import RandomFourier, draw
from noisegate_papers.queries.hermite import Series, column_tables
from noisegate_papers.queries.products import Products

COORDINATES = 1000
LENGTH_SCALE = 0.1


def main() -> int:
    """Runs the benchmark; 0 when it is through: there is no goal but to know."""
    options = _options()
    console = Console()
    with threadpool_limits(options.threads), console.status("feature maps"):
        results = [
            _race(name, make(), options.rows, options.repeats)
            for name, make in MAPS.items()
        ]
    _print(console, results, options)
    if options.json:
        content = {"rows": options.rows, "threads": options.threads, "maps": results}
        options.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Features per second, beside a bare matrix product."
    )
    parser.add_argument("--rows", type=int, default=8192, help="records in a batch")
    parser.add_argument(
        "--threads", type=int, default=1, help="of the linear algebra library"
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=9,
        help="interleaved repetitions; medians are compared",
    )
    parser.add_argument(
        "--json", type=Path, default=None, help="write the figures there"
    )
    options = parser.parse_args()
    if min(options.rows, options.threads, options.repeats) < 1:
        parser.error("--rows, --threads and --repeats must be at least 1")
    return options


def _fourier_numeric() -> RandomFourier:
    """The paper's kernel: every frequency looks at all columns."""
    scales = [(LENGTH_SCALE, LENGTH_SCALE)] * COLUMNS
    return draw(
        SCHEMA.layout,
        count=COORDINATES // 2,
        kernel="numeric",
        length_scales=scales,
        exclude_label=True,
        seed=0,
    )


def _hermite(groups: tuple[tuple[int, ...], ...], width: int) -> Products:
    """Products of Hermite features of `width` each, all groups with the same weight."""
    series = Series(length_scale=LENGTH_SCALE, order=width - 1)
    tables = column_tables(SCHEMA.layout, [series] * COLUMNS)
    return Products(
        tables=tables, groups=groups, weights=(len(groups) ** -0.5,) * len(groups)
    )


MAPS: dict[str, Callable[[], FeatureMap]] = {
    "Fourier, pairs": fourier_pairs,
    "Fourier, all columns": _fourier_numeric,
    "Hermite, sum": lambda: _hermite(
        tuple((column,) for column in range(COLUMNS)), COORDINATES // COLUMNS
    ),
    "Hermite, 2 columns": lambda: _hermite(((0, 1),), 32),
    "Hermite, 5 columns": lambda: _hermite((tuple(range(5)),), 4),
}


def _race(
    name: str, feature_map: FeatureMap, rows: int, repeats: int
) -> dict[str, Any]:
    """Times both in turns, so that both meet the same machine."""
    batch = records(rows)
    left = batch.numeric.astype(np.float32)
    right = (
        np.random.default_rng(0)
        .standard_normal((COLUMNS, feature_map.dim))
        .astype(np.float32)
    )
    contestants: list[Callable[[], Any]] = [
        lambda: feature_map(batch),
        lambda: left @ right,
    ]
    memory = [_peak_megabytes(run) for run in contestants]
    times = [[_seconds(run) for run in contestants] for _ in range(repeats)]
    made = rows * feature_map.dim
    return {
        "map": name,
        "coordinates": feature_map.dim,
        "features_per_second": made / statistics.median(ours for ours, _ in times),
        "product_per_second": made / statistics.median(bare for _, bare in times),
        "ratio": statistics.median(bare / ours for ours, bare in times),
        "megabytes": memory[0],
        "product_megabytes": memory[1],
    }


def _seconds(run: Callable[[], Any]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _peak_megabytes(run: Callable[[], Any]) -> float:
    """Returns what a second call holds at most: the first one may fill caches that stay."""
    run()
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def _print(
    console: Console, results: list[dict[str, Any]], options: argparse.Namespace
) -> None:
    page = Table(
        title=f"{options.rows:,} records, {options.threads} thread(s)",
        title_justify="left",
    )
    page.add_column("feature map")
    for heading in ("length", "features/s", "bare/s", "ratio", "MB", "bare MB"):
        page.add_column(heading, justify="right")
    for result in results:
        speeds = [
            f"{result[key]:.2e}"
            for key in ("features_per_second", "product_per_second")
        ]
        memory = [f"{result[key]:.0f}" for key in ("megabytes", "product_megabytes")]
        page.add_row(
            result["map"],
            f"{result['coordinates']:,}",
            *speeds,
            f"{result['ratio']:.2f}",
            *memory,
        )
    console.print(page)


if __name__ == "__main__":
    sys.exit(main())
