"""The table of all rows in README.md, from rows.json and published.toml: python benchmarks/baselines/page.py [--check].

rows.json is what run.py writes with `--json benchmarks/baselines/rows.json`.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROWS, PUBLISHED, PAGE = HERE / "rows.json", HERE / "published.toml", HERE / "README.md"
BEGIN, END = "<!-- rows -->", "<!-- end of rows -->"
HEAD = """\
| method | data | ε | ours | published | schedule | processor seconds |
| --- | --- | ---: | --- | --- | --- | ---: |"""
SCORES = {
    "cnn": "CNN",
    "mlp": "MLP",
    "logistic": "logistic",
    "own": "its own accuracy",
    "roc_auc": "ROC-AUC",
    "average_precision": "AP",
    "f1": "F1",
    "distance_2": "two-way distance",
}
REDUCED = {"records": "the first {:,} records", "made": "{:,} made"}
DATA = {
    **{
        "mnist": "MNIST",
        "mnist-8k": "MNIST, 8,000",
        "cifar10": "CIFAR-10",
        "cifar10-grey": "CIFAR-10, grey",
    },
    **{"fashion-mnist": "FashionMNIST", "adult": "Adult"},
}


def page() -> str:
    """Returns README.md with the table as the files have it."""
    return filled(PAGE.read_text("utf-8"), table())


def filled(page: str, lines: str, begin: str = BEGIN, end: str = END) -> str:
    """Returns a page with these lines between its two marks."""
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{lines}\n{end}{rest.partition(end)[2]}"


def table() -> str:
    """Returns a line for each row, by method, data set and ε."""
    rows = sorted(
        json.loads(ROWS.read_text("utf-8")),
        key=lambda row: (row["method"], row["data_set"], row["epsilon"]),
    )
    printed = tomllib.loads(PUBLISHED.read_text("utf-8"))["row"]
    return "\n".join(
        [HEAD, *(f"| {' | '.join(_cells(row, printed))} |" for row in rows)]
    )


def _cells(row: dict[str, Any], printed: list[dict[str, Any]]) -> Iterator[str]:
    yield f"`{row['method']}`"
    yield DATA[row["data_set"]]
    yield f"{row['epsilon']:g}"
    yield _scores(row)
    same = ("method", "data_set", "epsilon")
    yield (
        "; ".join(
            _scores(one["figures"])
            for one in printed
            if all(one[name] == row[name] for name in same)
        )
        or "–"
    )
    yield _schedule(row)
    yield str(row["seconds"]["cpu"])


def _scores(figures: dict[str, float]) -> str:
    return ", ".join(
        f"{said} {short(figures[name])}"
        for name, said in SCORES.items()
        if name in figures
    )


def short(value: float) -> str:
    """Returns a share with three places and no zero before the point."""
    return f"{value:.3f}".removeprefix("0")


def _schedule(row: dict[str, Any]) -> str:
    if not row["reduced"]:
        return "full"
    told = [
        said.format(row[name])
        for name, said in REDUCED.items()
        if row[name] is not None
    ]
    told += [f"{name} {json.dumps(value)}" for name, value in row["settings"].items()]
    return f"reduced: {', '.join(told)}"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text("utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
