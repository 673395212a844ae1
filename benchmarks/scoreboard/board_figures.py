"""The sets, the figures and the lines of the scoreboard: what each is, and which way is better.

Nothing but the standard library is imported here: `run.py` stays small, since the peak
memory of a process counts that of the process which started it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results.jsonl"
EPSILON, DELTA = 1.0, 1e-5


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of one release.

    Attributes:
        title: Its name in tables.
        higher_is_better: Whether more of it is better.
        definition: What it is, in one line.
        digits: Digits after the point in tables.
        min_change: A difference of a smaller part of the earlier mean is never marked.
    """

    title: str
    higher_is_better: bool
    definition: str
    digits: int = 4
    min_change: float = 0.0


def _higher(title: str, definition: str) -> Figure:
    return Figure(title=title, higher_is_better=True, definition=definition)


def _lower(title: str, definition: str) -> Figure:
    return Figure(title=title, higher_is_better=False, definition=definition)


_WIDTH = "mean width of the 95 % intervals of `infer`, where it answers, of"

FIGURES = {
    "roc_auc": _higher(
        "ROC-AUC",
        "mean of a logistic regression, a random forest and boosted trees, trained on the copy, on test records",
    ),
    "average_precision": _higher("average precision", "the same of average precision"),
    "f1": _higher("F1", "the same of F1"),
    "distance_1": _lower(
        "1-way TV",
        "mean total variation distance of single columns to the training records, numbers in 20 bins of equal width",
    ),
    "distance_2": _lower("2-way TV", "the same of all pairs of columns"),
    "distance_3": _lower("3-way TV", "the same of at most 120 triples, always these"),
    "equal_mass_2": _lower(
        "2-way TV, equal mass",
        "the same of all pairs, numbers in 20 cells that hold as many training records each",
    ),
    "tail_error": _lower(
        "tail quantiles",
        "mean error of the 1 and 99 % quantiles of all numbers, over their real distance from the median",
    ),
    "associations_kept": _higher(
        "rank correlations kept",
        "mean kept part of associations above .3: rank correlations, Cramér's V, correlation ratios",
    ),
    "associations_error": _lower(
        "rank correlations, error", "mean error of all these associations"
    ),
    "pearson_kept": _higher(
        "Pearson correlations kept",
        "mean kept part of Pearson's correlations above .3",
    ),
    "regression_error": _lower(
        "regressions, error",
        "mean error of coefficients, each number (OLS) and truth value (logistic) on all other columns, standardised",
    ),
    "ols_error": _lower(
        "OLS error",
        "mean error of the seven coefficients that the records of `regression` were made by",
    ),
    "infer_width_mean": _lower("infer, mean", f"{_WIDTH} a mean"),
    "infer_width_share": _lower("infer, share", f"{_WIDTH} a share"),
    "infer_width_corr": _lower("infer, correlation", f"{_WIDTH} a correlation"),
    "infer_width_ols": _lower("infer, OLS", f"{_WIDTH} the coefficients of an OLS"),
    "child_counts": _lower(
        "number of children",
        "distance of the distributions of the number of children, mean over links",
    ),
    "parent_child": _lower(
        "parent × child", "mean distance of pairs of a parent's and a child's column"
    ),
    "transitions": _lower(
        "child × next child", "mean distance of pairs of a child's and the next's"
    ),
    "distinct_values": _lower(
        "different values", "distance of how many different values a parent's have"
    ),
    "gaps": _lower("gaps", "largest distance of the gaps between dates of children"),
    "flaws": Figure(
        title="flaws",
        higher_is_better=False,
        definition="orphans, repeated keys, dates that go back or are too early",
        digits=0,
    ),
    # Other work on the machine doubles the seconds of the same fit (1.2 and 2.5 were
    # measured): less than that is no sign of anything.
    "cpu_seconds": Figure(
        title="seconds of processor",
        higher_is_better=False,
        definition="of the fit and the sample of as many records, one thread, without imports",
        digits=2,
        min_change=1.2,
    ),
    "peak_megabytes": Figure(
        title="megabytes",
        higher_is_better=False,
        definition="largest resident memory of the process that fits and samples",
        digits=0,
        min_change=0.05,
    ),
}
COSTS = ("cpu_seconds", "peak_megabytes")
"""Figures that are compared only between runs of one machine."""


@dataclass(frozen=True, kw_only=True)
class BoardSet:
    """A set of records.

    Attributes:
        description: What it is, in one line.
        is_linked: Whether it has several tables.
        is_on_board: Whether it is run unless others are named.
    """

    description: str
    is_linked: bool = False
    is_on_board: bool = True


SETS = {
    "adult": BoardSet(description="UCI Adult, 32,561 records; needs the data folder"),
    "randhie": BoardSet(
        description="health insurance experiment, of the package statsmodels, 14,133 records, numbers with atoms"
    ),
    "loans": BoardSet(
        description="loans of the R package openintro, 6,427 records, heavy tails; needs the data folder"
    ),
    "causal": BoardSet(
        description="simulated, 10,000 records of ten columns, rough functions of each other, and a label"
    ),
    "gauss10": BoardSet(description="simulated, 20,000 records of 10 dense Gaussians"),
    "gauss30": BoardSet(description="simulated, 20,000 records of 30 dense Gaussians"),
    "regression": BoardSet(
        description="simulated, 10,000 records whose linear regression is known"
    ),
    "clinic": BoardSet(
        description="simulated linked tables: 5,000 patients, their visits and diagnoses",
        is_linked=True,
    ),
    "small": BoardSet(
        description="600 records of `causal`, to try the board itself",
        is_on_board=False,
    ),
}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Returns all lines of a file of results, one a release; none where there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
