"""What the tabular benchmark prints: our scores, the papers' beside them, and what the papers' noise costs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from harness.printing import mean_and_spread, print_table
from paper_budget import paper_cost, paper_split

from noisegate_evaluate import CAVEAT, PrintedScores, Scores, UtilityReport

EXPECTED = tomllib.loads(
    Path(__file__).with_name("expected.toml").read_text(encoding="utf-8")
)
TITLES = {
    "roc_auc": "ROC-AUC",
    "average_precision": "average precision",
    "f1": "F1",
    "accuracy": "accuracy",
}
# What the papers print, with our name of it: two figures for two classes, one for more.
PRINTED = {"roc": "area under ROC", "prc": "area under PRC", "f1": "F1, weighted"}
OURS = {"roc": "roc_auc", "prc": "average_precision", "f1": "weighted_f1"}
SOURCES = {
    "dp-merf": "DP-MERF",
    "dp-merf-again": "by DP-HP's authors",
    "dp-hp": "DP-HP",
    "real": "real",
    "real-again": "by DP-HP's authors",
    "dp-cgan": "DP-CGAN",
    "dp-gan": "DP-GAN",
}
# DP-HP gives 0.6 of ε to the sum kernel and the counts, the rest to as many product kernels as epochs (its code).
HP_SUM_PART, HP_SUMS, HP_PRODUCTS = 0.6, 2, 20


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What was asked for, as it goes into the report."""

    dataset: str
    method: str
    settings: Mapping[str, object]
    epsilon: float
    delta: float
    adjacency: str
    even: bool = False
    thinned: bool = False

    @property
    def classes(self) -> str:
        """How classes are drawn and scored, in words; empty where they are as they are."""
        drawn = ", classes drawn evenly" if self.even else ""
        return drawn + (
            ", test records thinned as in the papers" if self.thinned else ""
        )


@dataclass(frozen=True, kw_only=True)
class Runs:
    """What the runs came to.

    Attributes:
        synthetic: scores of the classifiers trained on synthetic records, one report per seed.
        real: those of the classifiers trained on the real training records of seed 0; None if not asked for.
        records: training records of each run, for the reader: outside the guarantee.
    """

    synthetic: tuple[UtilityReport, ...]
    real: UtilityReport | None
    records: tuple[int, ...]

    @property
    def mean(self) -> Scores:
        """The mean over the seeds of the mean over the classifiers."""
        return Scores.mean([report.mean for report in self.synthetic])

    @property
    def printed(self) -> tuple[PrintedScores, ...]:
        """The mean over the classifiers of the scores that papers print, for each seed."""
        return tuple(
            report.printed_mean for report in self.synthetic if report.printed_mean
        )

    @property
    def deviation(self) -> Scores | None:
        """The standard deviation over the seeds of that mean; None for one seed."""
        return (
            Scores.deviation([report.mean for report in self.synthetic])
            if len(self.synthetic) > 1
            else None
        )


def papers_figures(dataset: str) -> dict[str, dict[str, float]]:
    """Returns what the papers print at (1, 1e-5)-DP, by figure and source."""
    return dict(EXPECTED["tabular"][dataset])


def papers_rate(dataset: str) -> float:
    """Returns the share of the largest class that DP-MERF keeps (its Table 4)."""
    return float(EXPECTED["kept"][dataset])


def papers_classifiers(dataset: str) -> dict[str, dict[str, float]]:
    """Returns what DP-MERF prints at (1, 1e-5)-DP for each classifier (Tables 6 and 8); nothing for other sets."""
    return dict(EXPECTED["each"].get(dataset, {}))


def hp_paper_cost(epsilon: float, delta: float) -> float:
    """Returns the ε of the noise by which DP-HP claims (ε, δ); it is the same for any number of products."""
    return paper_split(
        epsilon, delta, sum_part=HP_SUM_PART, products=HP_PRODUCTS, sums=HP_SUMS
    )[2]


def print_page(asked: Asked, runs: Runs, *, each: bool = False) -> None:
    """Prints the scores, the papers' below, notes, what the papers' noise costs, and the caveat.

    With `each`, the scores of each classifier too, which DP-MERF prints for Credit and Intrusion.
    """
    guarantee = f"({asked.epsilon:g}, {asked.delta:g})-DP, {asked.adjacency}"
    title = (
        f"{asked.dataset}, {asked.method}, {guarantee}{asked.classes}: 12 classifiers"
    )
    lines = []
    for name, heading in TITLES.items():
        text = f"{getattr(runs.mean, name):.3f}"
        if runs.deviation is not None:
            text += f" ± {getattr(runs.deviation, name):.3f}"
        real = "" if runs.real is None else f"{getattr(runs.real.mean, name):.3f}"
        lines.append([heading, text, real])
    mean = f"mean of {len(runs.synthetic)} seed(s) ± sd"
    print_table(title, ["", mean, "trained on real records"], lines)
    print(f"Scores: {runs.synthetic[0].averaging}.")
    for seed, report in enumerate(runs.synthetic):
        for note in report.notes:
            print(f"seed {seed}: {note}")
    # At another guarantee the papers have no figures.
    if (asked.epsilon, asked.delta) == (1.0, 1e-5):
        _print_papers(asked.dataset, runs)
    if each:
        _print_each(asked.dataset, runs)
    print(budget_text(asked.epsilon, asked.delta))
    print(CAVEAT)


def budget_text(epsilon: float, delta: float) -> str:
    """Returns what the papers' noise costs where they claim (ε, δ), in words."""
    cost = paper_cost(epsilon, delta)
    return (
        f"What the papers' noise costs where they claim ε = {epsilon:g} (δ = {delta:g}), by the exact curve: DP-MERF "
        f"{cost.composed:.3f} as composed, {cost.together:.3f} for what one record can change, {cost.add_remove:.3f} "
        f"under add/remove-one; DP-HP {hp_paper_cost(epsilon, delta):.3f}. What their code reads without noise is in "
        "none of these. Each run above spends the ε in the title; several on the same records add up."
    )


def content(asked: Asked, runs: Runs) -> dict[str, object]:
    """Returns the same as JSON values, with the scores of every classifier."""
    return {
        "caveat": CAVEAT,
        **vars(asked),
        "records": list(runs.records),
        "mean": runs.mean.to_json(),
        "standard_deviation": None
        if runs.deviation is None
        else runs.deviation.to_json(),
        "as_printed": [one.to_json() for one in runs.printed],
        "seeds": [report.to_json() for report in runs.synthetic],
        "real": None if runs.real is None else runs.real.to_json(),
        "papers_at_epsilon_1": papers_figures(asked.dataset),
        "papers_noise_costs": {
            "dp-merf": vars(paper_cost(asked.epsilon, asked.delta)),
            "dp-hp": hp_paper_cost(asked.epsilon, asked.delta),
        },
    }


def _print_each(dataset: str, runs: Runs) -> None:
    """Prints scores of each classifier as the papers print them, means over the seeds, beside DP-MERF's."""
    kinds = tuple(papers_figures(dataset))
    theirs = papers_classifiers(dataset)
    lines = []
    for name in runs.synthetic[0].printed:
        cells = [name]
        for kind in kinds:
            ours = [getattr(each.printed[name], OURS[kind]) for each in runs.synthetic]
            cells.append(f"{fmean(ours):.3f}")
            cells.append(f"{theirs[name][kind]:.3f}" if name in theirs else "")
        lines.append(cells)
    headings = [""]
    for kind in kinds:
        headings += [PRINTED[kind], "DP-MERF"]
    title = "Each classifier, hard predictions (DP-MERF: Tables 6 and 8)"
    print_table(title, headings, lines)


def _print_papers(dataset: str, runs: Runs) -> None:
    """Prints our scores as the papers print theirs, beside these."""
    real = None if runs.real is None else runs.real.printed_mean
    lines = []
    for name, figures in papers_figures(dataset).items():
        first, *others = (f"{figures[source]:.3f}" for source in SOURCES)
        values = [getattr(scores, OURS[name]) for scores in runs.printed]
        ours = mean_and_spread(values) if values else ""
        ceiling = "" if real is None else f"{getattr(real, OURS[name]):.3f}"
        first = f"{first} ± {figures['tolerance']:g}"
        lines.append([PRINTED[name], ours, ceiling, first, *others])
    title = "Hard predictions, as the papers print them; expected.toml says what else differs"
    print_table(title, ["", "ours", "ours, real", *SOURCES.values()], lines)
