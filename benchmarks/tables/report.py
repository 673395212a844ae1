"""results.json as a page: tables between two markers of bakeoff.md, and a picture for each table beside it.

    python benchmarks/tables/report.py RESULTS.json [--page benchmarks/tables/bakeoff.md]

Nothing outside the markers is changed. The figures of `outside.py` are read from outside.json beside the results.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pictures
from harness.options import positional, read_options
from harness.printing import markdown_row, markdown_table
from harness.results import read_json
from peer_packages import PEERS
from scoring import FIGURES
from summary import COMPARED, COSTS, HIGHER, Lead, Row, failures, leads, rows

START, END = "<!-- results: start -->", "<!-- results: end -->"
PAGE = Path(__file__).with_name("bakeoff.md")
HEADINGS = {
    "roc_auc": "ROC-AUC",
    "average_precision": "avg. prec.",
    "f1": "F1",
    "distance_1": "1-way",
    "distance_2": "2-way",
    "distance_3": "3-way",
    "wasserstein": "W₁",
    "seconds": "s",
    "cpu_seconds": "CPU s",
    "peak_megabytes": "MB",
}

OUTSIDE = {
    "plain_roc_auc": "ROC-AUC",
    "plain_average_precision": "avg. prec.",
    "plain_distance_2": "2-way",
    "plain_distance_3": "3-way",
    "sdmetrics_shapes": "shapes",
    "sdmetrics_pairs": "pair trends",
    "sdmetrics_f1": "F1",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrites the part of the page between the markers, and the pictures beside it."""
    options = read_options(
        __doc__,
        arguments,
        results=positional(Path),
        page=PAGE,
    )
    results = read_json(options.results)
    outside = read_json(options.results.with_name("outside.json"), [])
    page = options.page.read_text(encoding="utf-8")
    if START not in page or END not in page:
        print(
            f"{options.page} lacks the lines {START!r} and {END!r}; add them",
            file=sys.stderr,
        )
        return 2
    folder = options.page.parent / options.page.stem
    folder.mkdir(exist_ok=True)
    found = rows(results["runs"])
    for table, ceiling in results["ceilings"].items():
        shown = [row for row in found if row.table == table]
        if shown:
            pictures.draw(table, shown, ceiling, folder / f"{table}.png")
    before, after = page.split(START)[0], page.split(END)[1]
    text = (
        f"{before}{START}\n\n{in_markdown(results, folder.name, outside)}\n{END}{after}"
    )
    options.page.write_text(text, encoding="utf-8")
    return 0


def in_markdown(
    results: Mapping[str, Any], folder: str, outside: Sequence[Mapping[str, Any]] = ()
) -> str:
    """All figures: who is ahead, other scorers; for each table its picture and a table for each ε; what did not run."""
    found = rows(results["runs"])
    parts = []
    if ahead := leads(found, PEERS):
        parts += ["### Who is ahead\n", _leads(ahead)]
    if outside:
        parts += ["### By scorers that are not ours\n", _outside(outside)]
    for name, ceiling in results["ceilings"].items():
        shown = [row for row in found if row.table == name]
        if not shown:
            continue
        parts += [
            f"### {name}\n",
            f"![Quality on {name} against ε and against seconds]({folder}/{name}.png)\n",
        ]
        for epsilon in sorted({row.epsilon for row in shown}):
            parts += [f"**{name}, ε = {epsilon:g}**\n"]
            parts += [_table([row for row in shown if row.epsilon == epsilon], ceiling)]
    lost = failures(results["runs"])
    if lost:
        parts += ["### What did not run\n", _failures(lost)]
    return "\n".join(parts)


def _outside(entries: Sequence[Mapping[str, Any]]) -> str:
    """A line for each table, ε and method: means over the seeds, best boosted trees first."""
    groups: dict[tuple[str, float, str], list[Mapping[str, Any]]] = {}
    for entry in entries:
        groups.setdefault(
            (entry["table"], entry["epsilon"], entry["method"]), []
        ).append(entry)
    means = {
        key: {name: [run[name] for run in runs if name in run] for name in OUTSIDE}
        for key, runs in groups.items()
    }
    order = sorted(
        groups,
        key=lambda key: (key[:2], -statistics.fmean(means[key]["plain_roc_auc"])),
    )
    lines = []
    for key in order:
        table, epsilon, method = key
        level = f"{epsilon:g}" if epsilon else ""
        shown = _shown(method) if epsilon else f"*{method}*"
        cells = [_spread(means[key][name]) for name in OUTSIDE]
        lines.append([table, level, shown, *cells, len(groups[key])])
    headings = ["table", "ε", "method", *OUTSIDE.values(), "seeds"]
    table_lines = markdown_table(headings, lines, n_left=3)
    table_lines[1] = table_lines[1].replace("| --- | --- |", "| --- | ---: |", 1)
    return "\n".join(table_lines) + "\n"


def _shown(method: str) -> str:
    """Returns the name of a method in tables."""
    return method if method in PEERS else f"noisegate {method}"


def _spread(values: Sequence[float]) -> str:
    """The mean, and the standard deviation where there are two values or more; "" without any."""
    mean = f"{statistics.fmean(values):.4f}" if values else ""
    return f"{mean} ± {statistics.stdev(values):.4f}" if len(values) > 1 else mean


def _leads(ahead: Sequence[Lead]) -> str:
    """Counts in a sentence, and a line for each table and ε: who leads in each figure, and by how much."""
    counted = [
        f"{HEADINGS[figure]} {_count(lead for lead in ahead if lead.figure == figure)}"
        for figure in COMPARED
    ]
    lines = [
        f"Ahead clearly / about level / behind clearly / no spread known: {'; '.join(counted)}.\n",
        markdown_row(["table", "ε", *(HEADINGS[figure] for figure in COMPARED)]),
        "| --- | ---: |" + " --- |" * len(COMPARED),
    ]
    for table, epsilon in dict.fromkeys((lead.table, lead.epsilon) for lead in ahead):
        cells = [
            _lead(lead)
            for lead in ahead
            if (lead.table, lead.epsilon) == (table, epsilon)
        ]
        lines.append(markdown_row([table, f"{epsilon:g}", *cells]))
    return "\n".join(lines) + "\n"


def _count(ahead: Iterable[Lead]) -> str:
    kinds = [
        "unknown"
        if lead.clear is None
        else "level"
        if not lead.clear
        else lead.margin > 0
        for lead in ahead
    ]
    return " / ".join(
        str(kinds.count(kind)) for kind in (True, "level", False, "unknown")
    )


def _lead(lead: Lead) -> str:
    """Who leads, by how much and before whom; in bold where it is clear, with a question mark where it is not known."""
    if lead.clear is False:
        return f"level, {lead.margin:+.4f} ({lead.peer})"
    leader = (
        f"noisegate by {lead.margin:.4f} ({lead.peer})"
        if lead.margin > 0
        else f"{lead.peer} by {-lead.margin:.4f}"
    )
    return f"**{leader}**" if lead.clear else f"{leader} ?"


def _table(shown: Sequence[Row], ceiling: Mapping[str, float]) -> str:
    # The best of each figure is in bold, so that a reader need not search ten columns.
    best = {
        name: (max if name in HIGHER else min)(
            (row.mean[name] for row in shown if name in row.mean), default=0.0
        )
        for name in FIGURES
    }
    real = [f"{ceiling[name]:.4f}" if name in ceiling else "" for name in FIGURES]
    lines = [["*real data*", *real, *[""] * (len(COSTS) + 1)]]
    for row in shown:
        cells = [_figure(row, figure, best[figure]) for figure in FIGURES]
        costs = [f"{row.mean[cost]:,.0f}" if cost in row.mean else "" for cost in COSTS]
        lines.append([_shown(row.method), *cells, *costs, row.seeds])
    headings = ["method", *HEADINGS.values(), "seeds"]
    return "\n".join(markdown_table(headings, lines, n_left=1)) + "\n"


def _figure(row: Row, name: str, best: float) -> str:
    if name not in row.mean:
        return ""
    text = f"{row.mean[name]:.4f}"
    if row.mean[name] == best:
        text = f"**{text}**"
    return text + (f" ± {row.spread[name]:.4f}" if name in row.spread else "")


def _failures(lost: Sequence[Mapping[str, Any]]) -> str:
    """One line for each way in which a method failed on a table, with the values of ε."""
    groups: dict[tuple[str, str, str, str], set[float]] = {}
    for run in lost:
        reason = run["error"].strip().splitlines()[-1] if run["error"] else ""
        groups.setdefault(
            (run["method"], run["table"], run["status"], reason), set()
        ).add(run["epsilon"])
    lines = []
    for (method, table, status, reason), budgets in sorted(groups.items()):
        quoted = reason[:200].replace("|", "\\|").replace("`", "'")
        listed = ", ".join(f"{budget:g}" for budget in sorted(budgets))
        lines.append([method, table, listed, status, f"`{quoted}`" if quoted else ""])
    headings = ["method", "table", "ε", "what happened", "its last line"]
    return "\n".join(markdown_table(headings, lines)) + "\n"


if __name__ == "__main__":
    sys.exit(main())
