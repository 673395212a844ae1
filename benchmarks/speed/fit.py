"""How long fits take to come to a given distance (MMD) of what was released.

    python benchmarks/speed/fit.py [--records 20000] [--within 1.5] [--repeats 3] [--json FILE]

A simulated table (20 numeric columns with six factors in common, a label with two levels; table.py) is released once by
each method at ε = 1. Then its generators are fitted to that release until the squared distance, measured on fresh noise
vectors, is at most --within times what the noise of the release alone explains. Beside the seconds stands the time of
one float32 matrix product of 2,048 x 2,048 on as many threads (one), measured in the same run: seconds over that are
comparable between machines. Which generator is faster depends on the distance asked for; --within says which.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table
from table import SCHEMA
from threadpoolctl import threadpool_limits

from noisegate import Gate
from noisegate.methods.registry import method_named
from noisegate.models.checkpoint import FitState

CONTESTANTS: dict[str, dict[str, Any]] = {
    "dp-merf, table": {"method": "dp-merf", "generator": "table"},
    "dp-merf, mixture": {"method": "dp-merf", "generator": "mixture"},
    "dp-hp, table": {"method": "dp-hp", "generator": "table"},
    "dp-hp, mixture": {"method": "dp-hp", "generator": "mixture"},
}
EVERY, STEPS = 25, 2000
SIDE = 2048


class _ReachedError(Exception):
    """Ends a fit that is near enough."""


def main() -> int:
    """Runs the benchmark; 0 when every fit came near enough, else 1."""
    options = _options()
    console = Console()
    table = simulated(options.records)
    with threadpool_limits(1):
        product = statistics.median(_product() for _ in range(5))
        results = []
        for name in CONTESTANTS:
            with console.status(name):
                results.append({"name": name, **_times(name, table, options)})
    page = Table(
        title=f"seconds until the distance is {options.within:g} times the noise, {options.records:,} records"
    )
    for heading in (
        "fit",
        "coordinates",
        "release, s",
        "fit, s",
        "fit / matrix product",
        "steps",
        "distance",
    ):
        page.add_column(heading, justify="left" if heading == "fit" else "right")
    for found in results:
        taken = (
            f"{found['fit_seconds']:.1f}"
            if found["reached"]
            else f"not in {found['fit_seconds']:.0f}"
        )
        page.add_row(
            found["name"],
            f"{found['coordinates']:,}",
            f"{found['release_seconds']:.1f}",
            taken,
            f"{found['fit_seconds'] / product:,.0f}",
            str(found["steps"]),
            f"{found['distance']:.2f}",
        )
    console.print(page)
    if options.json:
        content = {
            "records": options.records,
            "within": options.within,
            "product_seconds": product,
            "fits": results,
        }
        options.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0 if all(found["reached"] for found in results) else 1


def simulated(records: int) -> pa.Table:
    """Returns records in which six factors stand behind the numeric columns, and two of them behind the label."""
    random = np.random.default_rng(0)
    numeric = [name for name in SCHEMA.names if name != SCHEMA.label]
    factors = random.normal(size=(records, 6))
    loads = random.normal(size=(6, len(numeric))) / 3
    values = (
        0.5
        + 0.2 * np.tanh(factors @ loads)
        + 0.05 * random.normal(size=(records, len(numeric)))
    )
    columns = dict(zip(numeric, np.clip(values, 0, 1).T, strict=True))
    return pa.table(columns | {"y": factors[:, 0] * factors[:, 1] > 0})


def _times(name: str, table: pa.Table, options: argparse.Namespace) -> dict[str, Any]:
    settings = dict(CONTESTANTS[name])
    method = method_named(settings.pop("method"))(
        **{
            **settings,
            "fit_options": {"steps": STEPS, "check_every": EVERY, "ema_decay": 0.9},
        }
    )
    started = time.perf_counter()
    release = method.query(Gate(table, schema=SCHEMA, epsilon=1.0))
    release_seconds = time.perf_counter() - started
    times: list[float] = []
    last = FitState(step=0, steps=STEPS, discrepancy=math.inf)

    def look(state: FitState) -> None:
        nonlocal last
        last = state
        if state.discrepancy <= options.within:
            raise _ReachedError

    for _ in range(options.repeats):
        fitting = method.fitting(release, device="cpu")
        started = time.perf_counter()
        with contextlib.suppress(_ReachedError):
            fitting.run(look)
        times.append(time.perf_counter() - started)
    return {
        "coordinates": sum(values.size for values in release.values.values()),
        "release_seconds": release_seconds,
        "fit_seconds": statistics.median(times),
        "steps": last.step,
        "distance": last.discrepancy,
        "reached": last.discrepancy <= options.within,
    }


def _product() -> float:
    one = np.ones((SIDE, SIDE), np.float32)
    started = time.perf_counter()
    one @ one
    return time.perf_counter() - started


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fit time to a given distance.")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument(
        "--within",
        type=float,
        default=1.5,
        help="times the distance that noise alone leaves",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=3,
        help="fits of one release; the median is reported",
    )
    parser.add_argument(
        "--json", type=Path, default=None, help="write the figures there"
    )
    options = parser.parse_args()
    if min(options.records, options.repeats) < 1 or not options.within > 1:
        parser.error("--records and --repeats must be at least 1, --within above 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
