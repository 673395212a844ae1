"""The table of all rows in README.md, from rows.json and published.toml: python benchmarks/baselines/page.py [--check].

rows.json is what run.py writes with `--json benchmarks/baselines/rows.json`.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.printing import filled, markdown_row, short
from harness.results import Row, read_json

HERE = Path(__file__).parent
ROWS, PUBLISHED, PAGE = HERE / "rows.json", HERE / "published.toml", HERE / "README.md"
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
    "mnist": "MNIST",
    "mnist-8k": "MNIST, 8,000",
    "cifar10": "CIFAR-10",
    "cifar10-grey": "CIFAR-10, grey",
    "fashion-mnist": "FashionMNIST",
    "adult": "Adult",
}
KEY = ("method", "data_set", "epsilon")


def page() -> str:
    """Returns README.md with a line for each row, by method, data set and ε."""
    rows = sorted(read_json(ROWS), key=lambda row: [row[name] for name in KEY])
    printed = tomllib.loads(PUBLISHED.read_text("utf-8"))["row"]
    lines = [markdown_row(_cells(row, printed)) for row in rows]
    return filled(PAGE.read_text("utf-8"), "\n".join([HEAD, *lines]), "rows")


def _cells(row: Row, printed: list[Row]) -> Iterator[str]:
    yield f"`{row['method']}`"
    yield DATA[row["data_set"]]
    yield f"{row['epsilon']:g}"
    yield _scores(row)
    published = (
        _scores(other["figures"])
        for other in printed
        if all(other[name] == row[name] for name in KEY)
    )
    yield "; ".join(published) or "–"
    yield _schedule(row)
    yield str(row["seconds"]["cpu"])


def _scores(figures: Mapping[str, float]) -> str:
    return ", ".join(
        f"{text} {short(figures[name])}"
        for name, text in SCORES.items()
        if name in figures
    )


def _schedule(row: Row) -> str:
    if not row["reduced"]:
        return "full"
    parts = [
        text.format(row[name])
        for name, text in REDUCED.items()
        if row[name] is not None
    ]
    parts += [f"{name} {json.dumps(value)}" for name, value in row["settings"].items()]
    return f"reduced: {', '.join(parts)}"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text("utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
