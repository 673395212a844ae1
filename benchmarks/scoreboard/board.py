"""The table of the scoreboard: a commit beside the one before, and what became worse.

    python benchmarks/scoreboard/board.py [--before COMMIT] [--now COMMIT] [--page]

Without commits the last two of results.jsonl are compared. A figure is worse, or better,
where the means differ by more than two standard errors of the difference. The error
follows from the spread between releases, pooled over all commits that have lines, since
three releases tell little of it. `--page` writes the table into README.md.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from board_figures import COSTS, FIGURES, RESULTS, SETS, read_lines
from harness.options import option, optional, read_options
from harness.printing import markdown_row, markdown_table
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from scipy import stats

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tables"))

from summary import rows  # noqa: E402

PAGE = HERE / "README.md"
START, END = "<!-- board: start -->", "<!-- board: end -->"
PEER_RESULTS = HERE.parent / "tables" / "results.json"
_STANDARD_ERRORS = 2.0
# Values of lines are rounded to six digits.
_ROUNDING = 1e-6
PEERS = {
    "AIM": ("dpmm-aim", "synthcity-aim"),
    "MST": ("dpmm-mst", "opendp-mst", "smartnoise-mst"),
}
"""The packages of each peer in `benchmarks/tables/results.json`."""
SWIFT = {
    ("adult", "roc_auc"): 0.899,
    ("adult", "average_precision"): 0.746,
    ("adult", "distance_2"): 0.047,
    ("adult", "distance_3"): 0.088,
}
"""One run by other code, with settings that are not its defaults (`bakeoff.md`)."""

Line = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A figure of all releases of one commit.

    Attributes:
        values: One of each release.
        machines: Where they were made.
    """

    values: tuple[float, ...]
    machines: frozenset[str] = frozenset()

    @property
    def mean(self) -> float:
        """The mean over the releases."""
        return statistics.fmean(self.values)

    @property
    def variance(self) -> float | None:
        """The variance between releases; None of a single one."""
        return statistics.variance(self.values) if len(self.values) > 1 else None

    @property
    def standard_error(self) -> float | None:
        """The standard error of the mean; None of a single release."""
        if self.variance is None:
            return None
        return math.sqrt(self.variance / len(self.values))


@dataclass(frozen=True, kw_only=True)
class Row:
    """A figure of a set, of two commits.

    Attributes:
        set_name: The set.
        figure: One of `FIGURES`.
        before: Of the earlier commit; None where it has none.
        now: Of the later commit; None where it has none.
        error: The standard error of the difference; None where no spread is known.
        degrees: Degrees of freedom of that error.
        mark: "worse", "better", "gone" (a figure that there was before) or "".
    """

    set_name: str
    figure: str
    before: Sample | None
    now: Sample | None
    error: float | None = None
    degrees: int = 0
    mark: str = ""

    @property
    def difference(self) -> float | None:
        """The change of the mean; None where one is missing."""
        if self.before is None or self.now is None:
            return None
        return self.now.mean - self.before.mean

    @property
    def is_bad(self) -> bool:
        """Whether it is shown in red."""
        return self.mark in ("worse", "gone")

    @property
    def chance(self) -> float:
        """The probability that it would be marked worse if nothing had changed."""
        if self.before is None or not self.error:
            return 0.0
        smallest = smallest_marked(self.figure, self.before.mean, self.error)
        return float(stats.t.sf(smallest / self.error, self.degrees))


def commits_of(lines: Sequence[Line]) -> list[str]:
    """Returns the commits in the order of their first lines."""
    return list(dict.fromkeys(line["commit"] for line in lines))


def samples(lines: Sequence[Line]) -> dict[tuple[str, str, str], Sample]:
    """Returns all samples by commit, set and figure."""
    groups: dict[tuple[str, str, str], list[tuple[float, str]]] = {}
    for line in lines:
        for figure, value in line["figures"].items():
            key = (line["commit"], line["set"], figure)
            groups.setdefault(key, []).append((value, line["machine"]))
    return {
        key: Sample(
            values=tuple(value for value, _ in found),
            machines=frozenset(machine for _, machine in found),
        )
        for key, found in groups.items()
    }


def compare(lines: Sequence[Line], before: str | None, now: str) -> list[Row]:
    """Compares two commits, set by set, figure by figure.

    Args:
        lines: Of all commits: they say how far releases differ.
        before: The earlier commit; None for none.
        now: The later one.
    """
    by_key = samples(lines)
    run_sets = {line["set"] for line in lines if line["commit"] == now}
    compared = []
    for set_name in SETS:
        if set_name not in run_sets:
            continue
        for figure in FIGURES:
            earlier = by_key.get((before or "", set_name, figure))
            later = by_key.get((now, set_name, figure))
            if earlier is None and later is None:
                continue
            others = [
                sample
                for (_, *key), sample in by_key.items()
                if key == [set_name, figure]
            ]
            compared.append(_row(set_name, figure, earlier, later, others))
    return compared


def _row(
    set_name: str,
    figure: str,
    before: Sample | None,
    now: Sample | None,
    others: Sequence[Sample],
) -> Row:
    row = Row(set_name=set_name, figure=figure, before=before, now=now)
    if before is None:
        return row
    if now is None:
        return Row(
            set_name=set_name, figure=figure, before=before, now=now, mark="gone"
        )
    is_one_machine = len(before.machines | now.machines) == 1
    if figure in COSTS and not is_one_machine:
        return row
    repeated = [sample for sample in others if sample.variance is not None]
    degrees = sum(len(sample.values) - 1 for sample in repeated)
    if not degrees:
        return row
    pooled = sum(
        (len(sample.values) - 1) * (sample.variance or 0.0) for sample in repeated
    )
    error = math.sqrt(pooled / degrees * (1 / len(before.values) + 1 / len(now.values)))
    return Row(
        set_name=set_name,
        figure=figure,
        before=before,
        now=now,
        error=error,
        degrees=degrees,
        mark=_mark(figure, before.mean, now.mean - before.mean, error),
    )


def smallest_marked(figure: str, before: float, error: float) -> float:
    """Returns the difference beyond which a figure is marked.

    Args:
        figure: One of `FIGURES`.
        before: The earlier mean.
        error: The standard error of the difference.
    """
    min_change = FIGURES[figure].min_change * abs(before)
    return max(_STANDARD_ERRORS * error, min_change, _ROUNDING)


def _mark(figure: str, before: float, difference: float, error: float) -> str:
    """Returns "worse", "better", or "" where chance explains the difference."""
    smallest = smallest_marked(figure, before, error)
    if abs(difference) <= smallest:
        return ""
    is_better = (difference > 0) == FIGURES[figure].higher_is_better
    return "better" if is_better else "worse"


def peer_figures() -> dict[tuple[str, str], dict[str, float]]:
    """Returns the stored figures of peers at ε = 1, by set and figure; each of its package with the best ROC-AUC."""
    results = json.loads(PEER_RESULTS.read_text(encoding="utf-8"))
    found: dict[tuple[str, str], dict[str, float]] = {}
    stored = [row for row in rows(results["runs"]) if row.epsilon == 1.0]
    for peer, packages in PEERS.items():
        for set_name in SETS:
            # Rows come best ROC-AUC first.
            best = next(
                (
                    row
                    for row in stored
                    if row.table == set_name and row.method in packages
                ),
                None,
            )
            # Costs are of the machine that they were measured on.
            for figure, mean in {} if best is None else best.mean.items():
                if figure in FIGURES and figure not in COSTS:
                    found.setdefault((set_name, figure), {})[peer] = mean
    for key, value in SWIFT.items():
        found.setdefault(key, {})["SWIFT"] = value
    return found


def summary(compared: Sequence[Row], before: str | None, now: str) -> str:
    """Returns how many figures are worse, beside what chance alone does."""
    if before is None:
        return f"{now}: no earlier commit has lines"
    worse, better, gone = (
        sum(row.mark == mark for row in compared)
        for mark in ("worse", "better", "gone")
    )
    tested = sum(row.error is not None for row in compared)
    chance = sum(row.chance for row in compared)
    text = (
        f"{now} beside {before}: {worse} of {tested} figures are worse, {better} better; "
        f"chance alone makes some {chance:.0f} of each"
    )
    return text + (f"; {gone} are gone" if gone else "")


def cells_of(
    row: Row, peers: Mapping[tuple[str, str], Mapping[str, float]]
) -> list[str]:
    """Returns the cells of a row: set, figure, before, now, difference, mark, peers."""
    figure = FIGURES[row.figure]
    digits = figure.digits

    def sample_text(sample: Sample | None) -> str:
        if sample is None:
            return ""
        mean = f"{sample.mean:.{digits}f}"
        if sample.standard_error is None:
            return mean
        return f"{mean} ± {sample.standard_error:.{digits}f}"

    difference = ""
    if row.difference is not None:
        difference = f"{row.difference:+.{digits}f}"
        if row.error is not None:
            difference += f" ± {row.error:.{digits}f}"
    stored = peers.get((row.set_name, row.figure), {})
    direction = "↑" if figure.higher_is_better else "↓"
    return [
        row.set_name,
        f"{figure.title} {direction}",
        sample_text(row.before),
        sample_text(row.now),
        difference,
        row.mark,
        ", ".join(f"{peer} {value:.{digits}f}" for peer, value in stored.items()),
    ]


def _headings(before: str | None, now: str) -> list[str]:
    return ["set", "figure", before or "before", now, "difference", "", "peers"]


def print_board(
    console: Console, compared: Sequence[Row], before: str | None, now: str
) -> None:
    """Prints the table; what is worse is red on a terminal."""
    table = Table(title=summary(compared, before, now), title_justify="left")
    for place, heading in enumerate(_headings(before, now)):
        table.add_column(
            heading, justify="right" if 2 <= place <= 4 else "left", no_wrap=place < 6
        )
    peers = peer_figures()
    for place, row in enumerate(compared):
        is_last = row is compared[-1] or compared[place + 1].set_name != row.set_name
        cells = [escape(cell) for cell in cells_of(row, peers)]
        style = "red" if row.is_bad else "green" if row.mark == "better" else None
        table.add_row(*cells, style=style, end_section=is_last)
    console.print(table)


def page(before: str | None = None, now: str | None = None) -> str:
    """Returns README.md with the table of two commits; of those that it has, if none are named."""
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(START)
    shown, tail = rest.split(END)
    if now is None:
        # What `summary` wrote: "NOW beside BEFORE: ...".
        named = shown.strip().partition(":")[0].strip("*").split(" beside ")
        now, before = named[0], named[1] if len(named) > 1 else None
    compared = compare(read_lines(RESULTS), before, now)
    peers = peer_figures()
    headings = _headings(before, now)
    lines = [
        f"**{summary(compared, before, now)}.**",
        "",
        markdown_row(headings),
        "| --- | --- | ---: | ---: | ---: | --- | --- |",
    ]
    for row in compared:
        cells = cells_of(row, peers)
        if row.is_bad:
            cells[5] = f"**{cells[5]}**"
        lines.append(markdown_row(cells))
    lines += ["", "## The figures and the sets", "", *_definitions()]
    return f"{head}{START}\n" + "\n".join(lines) + f"\n{END}{tail}"


def _definitions() -> list[str]:
    """Returns what each figure and each set is, as lines of two tables."""
    figures = [
        [figure.title, figure.better, figure.definition] for figure in FIGURES.values()
    ]
    sets = [[name, some.description] for name, some in SETS.items()]
    return [
        *markdown_table(["figure", "better", "what it is"], figures),
        "",
        *markdown_table(["set", "what it is"], sets),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table of two commits."""
    options = read_options(
        __doc__,
        arguments,
        before=optional(str),
        now=optional(str),
        results=RESULTS,
        page=option(False, "also write the table into README.md"),
    )
    lines = read_lines(options.results)
    commits = commits_of(lines)
    for name in ("before", "now"):
        commit = getattr(options, name)
        if commit is not None and commit not in commits:
            print(
                f"--{name} {commit}: no line of {options.results} is of it; "
                f"expected one of {', '.join(commits) or 'none'}",
                file=sys.stderr,
            )
            return 2
    if not commits:
        print(f"{options.results} has no lines; run run.py first", file=sys.stderr)
        return 2
    now = options.now or commits[-1]
    earlier = [commit for commit in commits if commit != now]
    before = options.before or (earlier[-1] if earlier else None)
    console = Console(width=None if sys.stdout.isatty() else 200)
    print_board(console, compare(lines, before, now), before, now)
    if options.page:
        PAGE.write_text(page(before, now), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
