"""The tables of README.md, from results.json and expected.toml: python benchmarks/linked/page.py [--check].

results.json is what run.py keeps in its --out.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

HERE = Path(__file__).parent
RESULTS, EXPECTED, PAGE = (
    HERE / "results.json",
    HERE / "expected.toml",
    HERE / "README.md",
)
BEGIN, END = "<!-- results -->", "<!-- end of results -->"
PRIVATE = ("linked", "independent", "flattened")
FIGURES = {
    "child_counts": "number of children",
    "parent_child": "parent × child",
    "transitions": "child × next child",
    "distinct_values": "different values",
    "gaps": "gaps",
}
FLAWS = ("orphans", "repeated_keys", "backwards", "too_early")
Rows = list[dict[str, Any]]


def page(results: Rows, expected: Rows) -> str:
    """Returns the tables, as lines of Markdown."""
    return "\n".join(
        [*_verdicts(results), "", *_targets(results, expected), "", *_all(results)]
    )


def mean(
    results: Rows, place: tuple[str, str, float | None], link: str, figure: str
) -> float | None:
    """Returns the mean over the seeds of a figure of a link; of a set, method and ε."""
    values = [
        found
        for row in results
        if (row["set"], row["method"], row["epsilon"]) == place and "links" in row
        for found in [
            row["roc_auc"]
            if figure == "roc_auc"
            else row["links"].get(link, {}).get(figure)
        ]
        if found is not None
    ]
    return fmean(values) if values else None


def places(results: Rows) -> Iterator[tuple[str, str, float]]:
    """Yields each set, link and ε that our method was run at."""
    found = {
        (row["set"], link, row["epsilon"]): None
        for row in results
        if row["method"] == PRIVATE[0] and "links" in row
        for link in row["links"]
    }
    yield from found


def _verdicts(results: Rows) -> Iterator[str]:
    yield "| set, link, ε | " + " | ".join((*FIGURES.values(), "ROC-AUC")) + " |"
    yield "| --- |" + " --- |" * (len(FIGURES) + 1)
    for name, link, epsilon in places(results):
        cells = []
        for figure in (*FIGURES, "roc_auc"):
            found = {
                method: mean(results, (name, method, epsilon), link, figure)
                for method in PRIVATE
            }
            told = {
                method: value for method, value in found.items() if value is not None
            }
            best = (max if figure == "roc_auc" else min)(
                told, key=lambda method: told[method], default="–"
            )
            cells.append(best)
        yield f"| {name}, {link}, {epsilon:g} | " + " | ".join(cells) + " |"


def _targets(results: Rows, expected: Rows) -> Iterator[str]:
    yield "| target | reached | |"
    yield "| --- | ---: | --- |"
    for one in expected:
        place = one["set"], "linked", one["epsilon"]
        ours = mean(results, place, one["link"], one["figure"])
        words = f"{one['set']}, {one['link']}, ε = {one['epsilon']:g}: {FIGURES.get(one['figure'], one['figure'])}"
        if "share_of" in one:
            other = mean(
                results,
                (one["set"], one["share_of"], one["epsilon"]),
                one["link"],
                one["figure"],
            )
            ours = None if ours is None or not other else ours / other
            words += f", as a share of {one['share_of']}"
        verdict = (
            "not run"
            if ours is None
            else "met"
            if ours <= one["value"]
            else "**missed**"
        )
        yield f"| {words} ≤ {one['value']:g} | {'–' if ours is None else f'{ours:.3f}'} | {verdict} |"


def _all(results: Rows) -> Iterator[str]:
    yield (
        "| set, link | method | ε | seeds | "
        + " | ".join(FIGURES.values())
        + " | flaws | ROC-AUC | seconds |"
    )
    yield "| --- | --- | ---: | ---: |" + " ---: |" * (len(FIGURES) + 3)
    for name, link in dict.fromkeys(
        (row["set"], link) for row in results for link in row.get("links", ())
    ):
        for method, epsilon in dict.fromkeys(
            (row["method"], row["epsilon"]) for row in results if row["set"] == name
        ):
            rows = [
                row
                for row in results
                if (row["set"], row["method"], row["epsilon"])
                == (name, method, epsilon)
            ]
            yield from _line(results, rows, (name, method, epsilon), link)


def _line(
    results: Rows, rows: Rows, place: tuple[str, str, float | None], link: str
) -> Iterator[str]:
    name, method, epsilon = place
    head = f"| {name}, {link} | {method} | {'–' if epsilon is None else f'{epsilon:g}'} | {len(rows)} |"
    if failed := [row["failed"] for row in rows if "failed" in row]:
        yield f"{head} {failed[0]['status']}: {failed[0]['error'][:60]}" + " |" * (
            len(FIGURES) + 3
        )
        return
    if not any(link in row["links"] for row in rows):
        return
    values = [mean(results, place, link, figure) for figure in (*FIGURES, "roc_auc")]
    *told, score = ("–" if value is None else f"{value:.3f}" for value in values)
    flaws = sum(row["links"][link].get(flaw, 0) for row in rows for flaw in FLAWS)
    seconds = [row["seconds"] for row in rows if "seconds" in row]
    yield f"{head} {' | '.join(told)} | {flaws} | {score} | {f'{fmean(seconds):.0f}' if seconds else '–'} |"


def written() -> str:
    """Returns README.md with the tables as the files have them."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    told = page(
        json.loads(RESULTS.read_text("utf-8")),
        tomllib.loads(EXPECTED.read_text("utf-8"))["target"],
    )
    return f"{before}{BEGIN}\n{told}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text("utf-8") != written())
    PAGE.write_text(written(), encoding="utf-8")
