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
from baselines.page import DATA, PUBLISHED
from harness.options import option, positional, read_options
from harness.printing import filled, markdown_row, short
from harness.results import Row, read_json, write_json

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
            for row in read_json(path)
        )
        write_json(ROWS, collected([*read_json(ROWS, []), *runs]), indent=1)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


def collected(rows: Iterable[Row]) -> list[Row]:
    """Returns the last row of each run, in the order of the table."""
    last = {(*_kind(row), row["seed"]): row for row in rows}
    return sorted(last.values(), key=lambda row: (_kind(row), row["seed"]))


def page() -> str:
    """Returns peers.md with both tables as the files have them."""
    printed = tomllib.loads(PUBLISHED.read_text("utf-8"))["row"]
    rows = [*read_json(ROWS), *alike(read_json(baselines.ROWS))]
    text = filled(PAGE.read_text("utf-8"), "\n".join([HEAD, *ours(rows)]), "rows")
    return filled(text, "\n".join([THEIRS, *theirs(printed)]), "published")


def alike(rows: list[Row]) -> Iterator[Row]:
    """Yields those of the baselines' rows that were made and scored as those here."""
    for row in rows:
        if row["made"] == MADE and all(score in row for score in SCORES):
            yield {"steps": row["settings"].get("steps"), **row}


def ours(rows: list[Row]) -> list[str]:
    """Returns a line for each method, set, ε and settings, the best convolutional network of a set and ε first."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(_kind(row), []).append(row)
    order = sorted(
        groups.values(), key=lambda group: (_kind(group[0])[:2], -_mean(group, "cnn"))
    )
    return [markdown_row(_cells(group)) for group in order]


def _cells(group: list[Row]) -> list[str]:
    row = group[0]
    first = f", first {row['records']:,}" if row["records"] else ""
    settings = ", ".join(
        f"{name} {json.dumps(value)}"
        for name, value in row["settings"].items()
        if name != "steps"
    )
    cpu = statistics.fmean(row["seconds"]["cpu"] for row in group)
    return [
        f"{DATA[row['data_set']]}{first}",
        f"{row['epsilon']:g}",
        f"`{row['method']}`",
        *(short(_mean(group, score)) for score in SCORES),
        str(len(group)),
        "–" if row["steps"] is None else f"{row['steps']:,}",
        settings or "–",
        f"{row['made']:,}",
        f"{cpu:.0f}",
    ]


def theirs(printed: list[Row]) -> list[str]:
    """Returns a line for each method with figures on MNIST by the other protocol."""
    rows = [
        row
        for row in printed
        if row["data_set"] == "mnist" and row["source"].startswith(BENCHMARK)
    ]
    lines = []
    for method in sorted({row["method"] for row in rows}):
        by_epsilon = {row["epsilon"]: row for row in rows if row["method"] == method}
        figures = [
            short(by_epsilon[epsilon]["figures"]["cnn"])
            if epsilon in by_epsilon
            else "–"
            for epsilon in (1.0, 10.0)
        ]
        remarks = [row["remark"] for row in by_epsilon.values() if "remark" in row]
        lines.append(markdown_row([method, *figures, *(remarks[:1] or ["–"])]))
    return lines


def _kind(row: Row) -> tuple[Any, ...]:
    """Returns what runs have in common that differ by their seed alone."""
    return (
        (list(DATA).index(row["data_set"]), row["records"] or 0),
        row["epsilon"],
        row["method"],
        json.dumps(row["settings"], sort_keys=True),
        row["made"],
    )


def _mean(group: list[Row], score: str) -> float:
    return statistics.fmean(row[score] for row in group)


if __name__ == "__main__":
    sys.exit(main())
