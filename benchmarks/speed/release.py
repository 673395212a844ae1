"""How fast a release is beside bare torch, and whether its memory grows with the table.

    python benchmarks/speed/release.py [--rows 1000000 10000000] [--threads N] [--json FILE]

Goals: at least 0.7 of the rows per second of bare torch on as many threads of the same machine in the same run, from
memory and from a Parquet file alike; and a peak of memory at the last of `--rows` within 10 % of that at the first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import hidden, option, optional, read_options
from harness.results import write_json

if TYPE_CHECKING:
    from rich.console import Console

RATIO_GOAL, MEMORY_GOAL = 0.7, 1.1
MEMORY_TABLE, FILE_TABLE = 131_072, 1_048_576


def main() -> int:
    """Runs the benchmark; 0 when both goals are met, else 1."""
    options = _options()
    if options.measure:
        return _measure(options.measure, options.threads)
    from rich.console import Console

    console = Console()
    with tempfile.TemporaryDirectory(prefix="noisegate-speed-") as folder:
        memory = [
            _peak(Path(folder), rows, options.threads, console) for rows in options.rows
        ]
        races = _races(Path(folder), options, console)
    growth = (
        memory[-1]["peak_megabytes"] / memory[0]["peak_megabytes"] if memory else None
    )
    met = all(race["ratio"] >= RATIO_GOAL for race in races) and (
        growth is None or growth <= MEMORY_GOAL
    )
    _print(races, memory, growth, options.threads)
    if options.json:
        content = {
            "threads": options.threads,
            "races": races,
            "memory": memory,
            "growth": growth,
            "met": met,
        }
        write_json(options.json, content)
    return 0 if met else 1


def _options() -> argparse.Namespace:
    cores = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )
    return read_options(
        __doc__,
        rows=option([1_000_000, 10_000_000], "for memory; none skips it"),
        threads=cores,
        repeats=9,
        json=optional(Path),
        measure=hidden(optional(Path)),
    )


def _peak(folder: Path, rows: int, threads: int, console: Console) -> dict[str, float]:
    """Streams a file of `rows` records through a gate in a process of its own; returns its peak of memory."""
    from table import write_parquet

    with console.status(f"{rows:,} records: writing a Parquet file, then Gate.sum"):
        path = write_parquet(folder / "table.parquet", rows)
        command = [
            sys.executable,
            __file__,
            "--measure",
            str(path),
            "--threads",
            str(threads),
        ]
        answer = json.loads(
            subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        )
        path.unlink()
    return {"rows": rows, **answer}


def _measure(path: Path, threads: int) -> int:
    from harness.measuring import peak_megabytes
    from noisegate_sums import gate_sum

    started = time.perf_counter()
    gate_sum(path, threads)()
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "peak_megabytes": peak_megabytes()}))
    return 0


def _races(
    folder: Path, options: argparse.Namespace, console: Console
) -> list[dict[str, Any]]:
    from noisegate_sums import exact_sum, gate_sum
    from table import records, write_parquet
    from torch_sums import file_sum, memory_sum, ways

    threads, repeats = options.threads, options.repeats
    table = records(MEMORY_TABLE)
    with console.status("batches in memory"):
        bare = {str(way): memory_sum(table, way) for way in ways(threads)}
        first = _race(
            "batches in memory", MEMORY_TABLE, exact_sum(table, threads), bare, repeats
        )
    with console.status("a Parquet file"):
        path = write_parquet(folder / "race.parquet", FILE_TABLE)
        bare = {str(way): file_sum(path, way) for way in ways(threads)}
        second = _race(
            "a Parquet file", FILE_TABLE, gate_sum(path, threads), bare, repeats
        )
    return [first, second]


def _race(
    name: str,
    rows: int,
    ours: Callable[[], Any],
    bare: Mapping[str, Callable[[], Any]],
    repeats: int,
) -> dict[str, Any]:
    """Times both in turns, so that both meet the same machine; bare torch in the way that is fastest here."""
    import numpy as np
    from harness.measuring import race, seconds_of

    # The same sums, up to float32 and the noise of a release; else the race would be no race.
    if not np.allclose(ours(), next(iter(bare.values()))(), atol=rows * 1e-3 + 50):
        raise AssertionError(f"{name}: the two contestants compute different sums")
    trials = {way: min(seconds_of(run) for _ in range(2)) for way, run in bare.items()}
    fastest = min(trials, key=trials.__getitem__)
    ours_seconds, torch_seconds, ratio = race(ours, bare[fastest], repeats)
    return {
        "name": name,
        "rows": rows,
        "release_rows_per_second": rows / ours_seconds,
        "torch_rows_per_second": rows / torch_seconds,
        "ratio": ratio,
        "torch_way": fastest,
    }


def _print(
    races: Sequence[Mapping[str, Any]],
    memory: Sequence[Mapping[str, float]],
    growth: float | None,
    threads: int,
) -> None:
    from harness.printing import print_table, verdict

    lines = [
        [
            race["name"],
            f"{race['release_rows_per_second']:,.0f}",
            f"{race['torch_rows_per_second']:,.0f}",
            f"{race['ratio']:.2f}",
            f"≥ {RATIO_GOAL}",
            verdict(race["ratio"] >= RATIO_GOAL),
        ]
        for race in races
    ]
    print_table(
        f"20 columns, 1,000 Fourier features, 2 labels, {threads} thread(s)",
        ["rows per second", "noisegate", "bare torch", "ratio", "goal", ""],
        lines,
    )
    if growth is None:
        return
    lines = []
    for entry in memory:
        beside = entry["peak_megabytes"] / memory[0]["peak_megabytes"]
        lines.append(
            [
                f"{entry['rows']:,}",
                f"{entry['seconds']:.1f}",
                f"{entry['peak_megabytes']:.0f}",
                f"{beside:.2f}",
                f"≤ {MEMORY_GOAL}",
                verdict(beside <= MEMORY_GOAL),
            ]
        )
    headings = ["records", "seconds", "peak memory, MB", "beside the first", "goal", ""]
    print_table("Gate.sum streamed from a Parquet file", headings, lines, n_left=0)


if __name__ == "__main__":
    sys.exit(main())
