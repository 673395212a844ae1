"""results.json as rows: for each table, ε and method the means over the seeds; and who is ahead of whom."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OURS = "pairwise"  # what noisegate does to a table unless told otherwise
HIGHER = ("roc_auc", "average_precision", "f1")  # figures of which more is better
COMPARED = ("roc_auc", "average_precision", "distance_2", "distance_3")
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


@dataclass(frozen=True, kw_only=True)
class Lead:
    """How far our default method is ahead of the best of the peers.

    Attributes:
        table: name of the table.
        epsilon: ε of the runs.
        figure: one of `COMPARED`.
        peer: the method that is best among the peers in this figure.
        margin: in the figure, positive where ours is better.
        clear: whether the margin is more than twice its standard error; None where no spread is known.
    """

    table: str
    epsilon: float
    figure: str
    peer: str
    margin: float
    clear: bool | None


def leads(found: Sequence[Row], peers: Collection[str]) -> list[Lead]:
    """Who is ahead, wherever ours and a peer have figures, in the order of the rows."""
    made = []
    for ours in (row for row in found if row.method == OURS):
        theirs = [
            row
            for row in found
            if row.method in peers
            and (row.table, row.epsilon) == (ours.table, ours.epsilon)
        ]
        for figure in COMPARED if theirs else ():
            sign = 1 if figure in HIGHER else -1
            best = max(
                theirs,
                key=lambda row, sign=sign, figure=figure: sign * row.mean[figure],
            )
            margin = sign * (ours.mean[figure] - best.mean[figure])
            made.append(
                Lead(
                    table=ours.table,
                    epsilon=ours.epsilon,
                    figure=figure,
                    peer=best.method,
                    margin=margin,
                    clear=_clear(margin, figure, ours, best),
                )
            )
    return made


def _clear(margin: float, figure: str, *compared: Row) -> bool | None:
    """Whether a margin is beyond chance; a method of one seed is taken to spread as the other does."""
    spreads = [row.spread[figure] for row in compared if figure in row.spread]
    if not spreads:
        return None
    return abs(margin) > 2 * max(spreads) * math.sqrt(
        sum(1 / row.seeds for row in compared)
    )


def rows(runs: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The runs that were scored, by table, ε and, best ROC-AUC first, method."""
    groups: dict[tuple[str, float, str], list[Mapping[str, float]]] = defaultdict(list)
    for run in runs:
        if "scores" in run:
            costs = {name: run[name] for name in COSTS if run.get(name) is not None}
            groups[run["table"], run["epsilon"], run["method"]].append(
                {**run["scores"], **costs}
            )
    made = [_row(*key, figures) for key, figures in groups.items()]
    return sorted(made, key=lambda row: (row.table, row.epsilon, -row.mean["roc_auc"]))


def failures(runs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The runs without a score."""
    return [run for run in runs if run["status"] != "done"]


def _row(
    table: str, epsilon: float, method: str, figures: Sequence[Mapping[str, float]]
) -> Row:
    names = [name for name in figures[0] if all(name in one for one in figures)]
    columns = {name: [one[name] for one in figures] for name in names}
    return Row(
        table=table,
        epsilon=epsilon,
        method=method,
        seeds=len(figures),
        mean={name: statistics.fmean(values) for name, values in columns.items()},
        spread={
            name: statistics.stdev(values)
            for name, values in columns.items()
            if len(values) > 1
        },
    )
