"""results.json as rows: for each table, ε and method the means over the seeds."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

COSTS = ("seconds", "cpu_seconds", "peak_megabytes")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method on one table at one ε.

    Attributes:
        table: name of the table.
        epsilon: ε of the runs.
        method: name of the method.
        seeds: number of runs.
        mean: the mean of each figure and each cost over the runs; a cost that was not noted is absent.
        spread: their standard deviation, where there are two runs or more.
    """

    table: str
    epsilon: float
    method: str
    seeds: int
    mean: Mapping[str, float]
    spread: Mapping[str, float]


def rows(runs: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The runs that were scored, by table, ε and, best ROC-AUC first, method."""
    groups: dict[tuple[str, float, str], list[Mapping[str, float]]] = defaultdict(list)
    for run in runs:
        if "scores" in run:
            costs = {name: run[name] for name in COSTS if run.get(name) is not None}
            groups[run["table"], run["epsilon"], run["method"]].append({**run["scores"], **costs})
    made = [_row(*key, figures) for key, figures in groups.items()]
    return sorted(made, key=lambda row: (row.table, row.epsilon, -row.mean["roc_auc"]))


def failures(runs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The runs without a score."""
    return [run for run in runs if run["status"] != "done"]


def _row(table: str, epsilon: float, method: str, figures: Sequence[Mapping[str, float]]) -> Row:
    names = [name for name in figures[0] if all(name in one for one in figures)]
    columns = {name: [one[name] for one in figures] for name in names}
    return Row(
        table=table,
        epsilon=epsilon,
        method=method,
        seeds=len(figures),
        mean={name: statistics.fmean(values) for name, values in columns.items()},
        spread={name: statistics.stdev(values) for name, values in columns.items() if len(values) > 1},
    )
