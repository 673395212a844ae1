"""Pictures of the bake-off: for one table, quality against ε and, at ε = 1, against the time it takes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from peer_packages import PEERS
from summary import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Told apart without colour too: ours are filled and joined by a line, peers are hollow and dashed.
OURS = ("#00695c", "#26a69a", "#1565c0", "#42a5f5", "#283593", "#6a1b9a")
THEIRS = (
    "#d84315",
    "#ef6c00",
    "#f9a825",
    "#8d6e63",
    "#c2185b",
    "#757575",
    "#558b2f",
    "#000000",
)
MARKERS = "osD^vP*X"
INK, FAINT = "#333333", "#bbbbbb"
QUALITIES = {
    "roc_auc": "ROC-AUC (higher is better)",
    "distance_2": "2-way distance (lower is better)",
}


def draw(
    table: str, found: Sequence[Row], ceiling: Mapping[str, float], path: Path
) -> None:
    """Writes a PNG file: above quality against ε, below against seconds at ε = 1, each for both qualities."""
    from matplotlib.figure import Figure

    methods = sorted(
        {row.method for row in found}, key=lambda method: (method in PEERS, method)
    )
    styles = _styles(methods)
    figure = Figure(figsize=(10, 7.6), facecolor="white", layout="constrained")
    axes = figure.subplots(2, 2)
    for column, (quality, title) in enumerate(QUALITIES.items()):
        _against_epsilon(axes[0, column], found, quality, styles)
        _against_seconds(
            axes[1, column], [row for row in found if row.epsilon == 1], quality, styles
        )
        for row in (0, 1):
            axes[row, column].axhline(
                ceiling[quality], color=INK, linewidth=1, linestyle=":", zorder=0
            )
            axes[row, column].set_ylabel(title, color=INK)
            axes[row, column].spines[["top", "right"]].set_visible(False)
            axes[row, column].grid(color=FAINT, linewidth=0.4)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=9)
    figure.suptitle(
        f"{table}; the dotted line is real data",
        x=0.01,
        ha="left",
        fontsize=12,
        color=INK,
    )
    figure.savefig(path, dpi=110)


def _styles(methods: Sequence[str]) -> dict[str, dict[str, str]]:
    ours, theirs = itertools.cycle(OURS), itertools.cycle(THEIRS)
    return {
        method: {
            "color": (color := next(theirs if method in PEERS else ours)),
            "marker": MARKERS[place % len(MARKERS)],
            "markerfacecolor": "white" if method in PEERS else color,
            "linestyle": "--" if method in PEERS else "-",
        }
        for place, method in enumerate(methods)
    }


def _against_epsilon(
    axes: Axes,
    found: Sequence[Row],
    quality: str,
    styles: Mapping[str, Mapping[str, str]],
) -> None:
    for method, style in styles.items():
        points = sorted(
            (row.epsilon, row.mean[quality]) for row in found if row.method == method
        )
        label = method if method in PEERS else f"noisegate {method}"
        axes.plot(
            *zip(*points, strict=True),
            label=label,
            markersize=6,
            linewidth=1.2,
            **style,
        )
    budgets = sorted({row.epsilon for row in found})
    axes.set_xscale("log")
    axes.set_xticks(budgets, [f"{budget:g}" for budget in budgets])
    axes.minorticks_off()
    axes.set_xlabel("ε", color=INK)


def _against_seconds(
    axes: Axes,
    found: Sequence[Row],
    quality: str,
    styles: Mapping[str, Mapping[str, str]],
) -> None:
    for row in found:
        style = {**styles[row.method], "linestyle": ""}
        # Other work on the machine does not count in seconds of the processor; where they were not noted, the wall's.
        axes.plot(
            row.mean.get("cpu_seconds", row.mean["seconds"]),
            row.mean[quality],
            markersize=8,
            **style,
        )
    axes.set_xscale("log")
    axes.set_xlabel("seconds of the processor at ε = 1", color=INK)
