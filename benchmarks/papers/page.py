"""results.md: the state of every item of the papers, from items.toml, runs.toml and results/ alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from papers.items import ROOT, SECTIONS, STATES, Item
from papers.runs import Result, Run

PAGE = ROOT / "benchmarks" / "papers" / "results.md"
SUMMARY = ROOT / "docs" / "papers.md"
_SUMMARY = """# Reproduction of the papers

noisegate implements the seven methods of five publications: DP-MERF, DP-HP, DP-MEPF, DP-LLM, DP-MGE, DP-DRE and \
Private Set Generation. These publications contain {items} items: algorithms, data sets, tables, figures and theorems. \
`benchmarks/papers/results.md` gives the state of each item. `make papers DATA=DIR` runs the commands for which `DIR` \
has the data, and writes that page and this one.

| | {states} |
| --- | {marks} |
| all items | {all} |
| tables and figures | {figures} |

| state | meaning |
| --- | --- |
| reproduced | our figure, by our protocol, is within the spread of the paper |
| better | our figure, or our guarantee, is better than that of the paper |
| faithful | implemented as described (for items without a figure) |
| short | implemented in part, or our figure is worse than that of the paper |
| not run | implemented, but not yet measured |
| unobtainable | data or weights are not available to us |
| left out | not implemented, on purpose |

{run} of {commands} commands have been run. Some published figures rest on an error: see \
[claims that do not hold](differences.md#claims).
"""
_HEAD = """# The papers, item by item

Every algorithm, baseline, data set, table, figure, metric and theorem of the five papers that noisegate implements,
with its state here. `make papers DATA=DIR` runs what can be run on the data in `DIR` and writes this page from
`benchmarks/papers/items.toml`, `runs.toml` and `results/`; edit those, not this. Which published figures rest on an
error is on [a page of its own](../claims/README.md).

Sources: 000 and 004 are DP-MEPF ([Harder et al. 2023](https://openreview.net/forum?id=R6W7zkMz0P)), 001 DP-MGE and
DP-DRE, 002 the dissertation that holds DP-LLM (A), DP-MERF (B, [2021](https://arxiv.org/abs/2002.11603)), DP-HP (C,
[2022](https://arxiv.org/abs/2106.05042)) and DP-MEPF (D), 003 Private Set Generation.
"""
_FIGURES = """## Figures

What `make papers` has run. Scores are computed on real data, outside the guarantee. A figure with ± is the mean of as
many values as the bracket says, seeds as a rule, and the standard deviation between them.
"""


def page(
    items: Sequence[Item], runs: Sequence[Run], results: Mapping[str, Result]
) -> str:
    """Returns the page as Markdown."""
    parts = [_HEAD, *_totals(items), *_figures(runs, results)]
    for section, title in SECTIONS.items():
        parts += _section(
            title, [item for item in items if item.section == section], runs, results
        )
    return "\n".join(parts).rstrip() + "\n"


def summary(
    items: Sequence[Item], runs: Sequence[Run], results: Mapping[str, Result]
) -> str:
    """Returns the page of the documentation, Markdown: how many items there are of each state."""
    counts = Counter(
        (place, item.state) for item in items for place in ("", item.section)
    )
    every, figures = (
        [counts[place, state] for state in STATES] for place in ("", "tables")
    )
    cells = {
        "states": STATES,
        "marks": ["---:"] * len(STATES),
        "all": every,
        "figures": figures,
    }
    rows = {name: " | ".join(map(str, row)) for name, row in cells.items()}
    return _SUMMARY.format(
        items=len(items), run=len(results), commands=len(runs), **rows
    )


def _totals(items: Sequence[Item]) -> Iterable[str]:
    counts = Counter((item.section, item.state) for item in items)
    yield "## States\n"
    yield from (f"- **{state}**: {meaning}." for state, meaning in STATES.items())
    yield ""
    yield _row(["", *STATES, "items"])
    yield _row(["---", *["---:"] * (len(STATES) + 1)])
    for section, title in (*SECTIONS.items(), ("", "**all**")):
        every = [
            sum(
                n
                for (where, what), n in counts.items()
                if where == (section or where) and what == state
            )
            for state in STATES
        ]
        yield _row([title, *every, sum(every)])
    yield ""


def _figures(runs: Sequence[Run], results: Mapping[str, Result]) -> Iterable[str]:
    yield _FIGURES
    yield _row(
        [
            "what",
            "figure",
            "ours",
            "the paper",
            "tolerance",
            "",
            "protocol",
            "date",
            "minutes",
        ]
    )
    yield _row(["---", "---", "---:", "---:", "---:", "---", "---", "---", "---:"])
    for run in runs:
        if (result := results.get(run.id)) is None:
            continue
        for place, figure in enumerate(run.figures):
            if figure.name not in result.figures:
                continue
            values = result.figures[figure.name]
            verdict = figure.verdict(sum(values) / len(values))
            paper = "" if figure.paper is None else f"{figure.paper:g}"
            first = (
                (run.protocol, result.date, f"{result.seconds / 60:.1f}")
                if not place
                else ("", "", "")
            )
            name = f"`{run.id}`" if not place else ""
            tolerance = f"{figure.tolerance:g}" if paper and figure.tolerance else ""
            yield _row(
                [
                    name,
                    figure.name,
                    result.text(figure.name),
                    paper,
                    tolerance,
                    verdict or "",
                    *first,
                ]
            )
    yield ""
    waiting = [run for run in runs if run.id not in results]
    if waiting:
        yield "Not run yet, in the order of their worth:\n"
        yield from (
            f"- `{run.id}` (about {run.minutes:g} minutes of a core): `{run.shown()}`"
            for run in waiting
        )
        yield ""


def _section(
    title: str,
    items: Sequence[Item],
    runs: Sequence[Run],
    results: Mapping[str, Result],
) -> Iterable[str]:
    yield f"## {title}\n"
    yield _row(["item", "in", "state", "what there is"])
    yield _row(["---"] * 4)
    for item in items:
        yield _row(
            [item.item, item.source, f"**{item.state}**", _said(item, runs, results)]
        )
    yield ""


def _said(item: Item, runs: Sequence[Run], results: Mapping[str, Result]) -> str:
    """Figures, note, command and files of an item, as sentences of a cell."""
    parts = [item.note]
    if item.ours:
        parts.append(
            f"Ours {item.ours}" + (f"; the paper {item.paper}." if item.paper else ".")
        )
    elif item.paper:
        parts.append(f"The paper has {item.paper}.")
    made = [f"`{run.id}`" for run in runs if item.id in run.items and run.id in results]
    if made:
        parts.append(f"Figures above: {', '.join(made)}.")
    if item.command:
        parts.append(f"`{item.command}`.")
    parts.append(", ".join(f"`{path}`" for path in item.where))
    return " ".join(part for part in parts if part)


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def write(text: str, path: Path = PAGE) -> bool:
    """Writes the page; returns whether it changed."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True
