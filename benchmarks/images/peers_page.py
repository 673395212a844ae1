"""The tables of peers.md: python benchmarks/images/peers_page.py [OUT] [--check].

Runs of peers.py in the folder OUT are taken into peers.json first, where they take the place of the same runs. With
--check nothing is written, and the exit code is 1 where the page is not what peers.json and published.toml say.
"""

from __future__ import annotations

import json
import statistics
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from baselines import page as baselines
from baselines.page import DATA, PUBLISHED, filled, short
from harness.options import option, positional, read_options
from harness.results import write_json

HERE = Path(__file__).parent
ROWS, PAGE = HERE / "peers.json", HERE / "peers.md"
SCORES, MADE = ("cnn", "mlp", "logistic"), 10_000
HEAD = """\
| data | ε | method | CNN | MLP | logistic | seeds | steps | other settings | made | cpu s |
| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |"""
THEIRS = """\
| method | ε = 1 | ε = 10 | |
| --- | ---: | ---: | --- |"""
BENCHMARK = "DPImageBench"
"""How sources of figures by its protocol begin."""


def main() -> int:
    """Takes in runs and writes the page, or checks it."""
    options = read_options(
        __doc__,
        out=positional(Path, "folder of runs", is_required=False),
        check=option(False, "write nothing; 1 where the page is old"),
    )
    if options.check:
        return int(PAGE.read_text("utf-8") != page())
    if options.out:
        runs = (
            row
            for path in sorted(options.out.glob("*.json"))
            for row in json.loads(path.read_text("utf-8"))
        )
        write_json(ROWS, collected([*_read(ROWS), *runs]), indent=1)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


def collected(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the last row of each run, in the order of the table."""
    return sorted(
        {(*_kind(row), row["seed"]): row for row in rows}.values(),
        key=lambda row: (_kind(row), row["seed"]),
    )


def page() -> str:
    """Returns peers.md with both tables as the files have them."""
    printed = tomllib.loads(PUBLISHED.read_text("utf-8"))["row"]
    rows = [*_read(ROWS), *alike(_read(baselines.ROWS))]
    text = filled(PAGE.read_text("utf-8"), "\n".join([HEAD, *ours(rows)]))
    return filled(
        text,
        "\n".join([THEIRS, *theirs(printed)]),
        "<!-- published -->",
        "<!-- end of published -->",
    )


def alike(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields those of the baselines' rows that were made and scored as those here."""
    for row in rows:
        if row["made"] == MADE and all(score in row for score in SCORES):
            yield {"steps": row["settings"].get("steps"), **row}


def ours(rows: list[dict[str, Any]]) -> list[str]:
    """Returns a line for each method, set, ε and settings, the best convolutional network of a set and ε first."""
    kinds: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        kinds.setdefault(_kind(row), []).append(row)
    order = sorted(
        kinds.values(), key=lambda same: (_kind(same[0])[:2], -_mean(same, "cnn"))
    )
    return [f"| {' | '.join(_cells(same))} |" for same in order]


def _cells(same: list[dict[str, Any]]) -> Iterator[str]:
    row = same[0]
    first = f", first {row['records']:,}" if row["records"] else ""
    settings = {
        name: value for name, value in row["settings"].items() if name != "steps"
    }
    yield from (
        f"{DATA[row['data_set']]}{first}",
        f"{row['epsilon']:g}",
        f"`{row['method']}`",
    )
    yield from (short(_mean(same, score)) for score in SCORES)
    yield from (str(len(same)), "–" if row["steps"] is None else f"{row['steps']:,}")
    yield (
        ", ".join(f"{name} {json.dumps(value)}" for name, value in settings.items())
        or "–"
    )
    yield from (
        f"{row['made']:,}",
        f"{statistics.fmean(row['seconds']['cpu'] for row in same):.0f}",
    )


def theirs(printed: list[dict[str, Any]]) -> list[str]:
    """Returns a line for each method with figures on MNIST by the other protocol."""
    rows = [
        row
        for row in printed
        if row["data_set"] == "mnist" and row["source"].startswith(BENCHMARK)
    ]
    lines = []
    for method in sorted({row["method"] for row in rows}):
        of = {row["epsilon"]: row for row in rows if row["method"] == method}
        figures = (
            short(of[epsilon]["figures"]["cnn"]) if epsilon in of else "–"
            for epsilon in (1.0, 10.0)
        )
        remark = next((row["remark"] for row in of.values() if "remark" in row), "–")
        lines.append(f"| {method} | {' | '.join(figures)} | {remark} |")
    return lines


def _read(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        json.loads(path.read_text("utf-8")) if path.exists() else []
    )
    return rows


def _kind(row: dict[str, Any]) -> tuple[Any, ...]:
    """Returns what runs have in common that differ by their seed alone."""
    data = list(DATA).index(row["data_set"]), row["records"] or 0
    return (
        data,
        row["epsilon"],
        row["method"],
        json.dumps(row["settings"], sort_keys=True),
        row["made"],
    )


def _mean(same: list[dict[str, Any]], score: str) -> float:
    return statistics.fmean(row[score] for row in same)


if __name__ == "__main__":
    sys.exit(main())
