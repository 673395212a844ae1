"""The tables of README.md, from results.json and expected.toml: python benchmarks/linked/page.py [--check].

results.json is what run.py keeps in its --out.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.printing import filled, markdown_row, markdown_table
from harness.results import Row, read_json

HERE = Path(__file__).parent
RESULTS, EXPECTED, PAGE = (
    HERE / "results.json",
    HERE / "expected.toml",
    HERE / "README.md",
)
PRIVATE = ("linked", "independent", "flattened")
FIGURES = {
    "child_counts": "number of children",
    "parent_child": "parent × child",
    "transitions": "child × next child",
    "distinct_values": "different values",
    "gaps": "gaps",
}
FLAWS = ("orphans", "repeated_keys", "backwards", "too_early")
Runs = list[Row]
Key = tuple[str, str, float | None]
"""Set, method and ε of some runs."""


def tables(results: Runs, expected: Runs) -> str:
    """Returns the tables, as lines of Markdown."""
    targets = ["| target | reached | |", "| --- | ---: | --- |"]
    targets += [markdown_row(cells) for cells in _targets(results, expected)]
    figures = [*FIGURES.values(), "flaws", "ROC-AUC", "seconds"]
    return "\n".join(
        [
            *markdown_table(
                ["set, link, ε", *FIGURES.values(), "ROC-AUC"], _nearest(results)
            ),
            "",
            *targets,
            "",
            *markdown_table(
                ["set, link", "method", "ε", "seeds", *figures],
                _lines(results),
                n_left=2,
            ),
        ]
    )


def runs_of(results: Runs, key: Key) -> Runs:
    """Returns the runs of a set, a method and ε."""
    return [
        row for row in results if (row["set"], row["method"], row["epsilon"]) == key
    ]


def mean(results: Runs, key: Key, link: str, figure: str) -> float | None:
    """Returns the mean over the seeds of a figure of a link."""
    values = []
    for row in runs_of(results, key):
        if "links" in row:
            figures = row if figure == "roc_auc" else row["links"].get(link, {})
            values.append(figures.get(figure))
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _nearest(results: Runs) -> Iterator[list[str]]:
    """Yields which private method is nearest in each figure of each set, link and ε that our method was run at."""
    places = dict.fromkeys(
        (row["set"], link, row["epsilon"])
        for row in results
        if row["method"] == PRIVATE[0] and "links" in row
        for link in row["links"]
    )
    for name, link, epsilon in places:
        cells = []
        for figure in (*FIGURES, "roc_auc"):
            means = {
                method: value
                for method in PRIVATE
                if (value := mean(results, (name, method, epsilon), link, figure))
                is not None
            }
            best = max if figure == "roc_auc" else min
            cells.append(best(means, key=lambda method: means[method], default="–"))
        yield [f"{name}, {link}, {epsilon:g}", *cells]


def _targets(results: Runs, expected: Runs) -> Iterator[list[str]]:
    for target in expected:
        name, epsilon = target["set"], target["epsilon"]
        link, figure = target["link"], target["figure"]
        ours = mean(results, (name, "linked", epsilon), link, figure)
        words = f"{name}, {link}, ε = {epsilon:g}: {FIGURES.get(figure, figure)}"
        if "share_of" in target:
            other = mean(results, (name, target["share_of"], epsilon), link, figure)
            ours = ours / other if ours is not None and other else None
            words += f", as a share of {target['share_of']}"
        if ours is None:
            reached, verdict = "–", "not run"
        else:
            reached = f"{ours:.3f}"
            verdict = "met" if ours <= target["value"] else "**missed**"
        yield [f"{words} ≤ {target['value']:g}", reached, verdict]


def _lines(results: Runs) -> Iterator[list[str]]:
    links = dict.fromkeys(
        (row["set"], link) for row in results for link in row.get("links", ())
    )
    for name, link in links:
        keys = dict.fromkeys(
            (name, row["method"], row["epsilon"])
            for row in results
            if row["set"] == name
        )
        for key in keys:
            yield from _line(results, key, link)


def _line(results: Runs, key: Key, link: str) -> Iterator[list[str]]:
    """Yields the line of some runs; none where they have no such link."""
    name, method, epsilon = key
    runs = runs_of(results, key)
    level = "–" if epsilon is None else f"{epsilon:g}"
    head = [f"{name}, {link}", method, level, str(len(runs))]
    failures = [row["failed"] for row in runs if "failed" in row]
    if failures:
        reason = f"{failures[0]['status']}: {failures[0]['error'][:60]}"
        yield [*head, reason, *[""] * (len(FIGURES) + 2)]
    elif any(link in row["links"] for row in runs):
        values = [mean(results, key, link, figure) for figure in (*FIGURES, "roc_auc")]
        texts = ["–" if value is None else f"{value:.3f}" for value in values]
        flaws = sum(row["links"][link].get(flaw, 0) for row in runs for flaw in FLAWS)
        seconds = [row["seconds"] for row in runs if "seconds" in row]
        time = f"{fmean(seconds):.0f}" if seconds else "–"
        yield [*head, *texts[:-1], str(flaws), texts[-1], time]


def page() -> str:
    """Returns README.md with the tables as the files have them."""
    expected = tomllib.loads(EXPECTED.read_text("utf-8"))["target"]
    lines = tables(read_json(RESULTS), expected)
    return filled(PAGE.read_text("utf-8"), lines, "results")


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text("utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
