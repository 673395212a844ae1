"""Prints what results.json says as tables in Markdown, and draws the curves: see README.md."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from harness.options import optional, positional, read_options

FIGURES = ("distance_1", "distance_2", "roc_auc")
INK, COLOURS = "#333333", ("#6a1b9a", "#1565c0", "#00897b", "#ef6c00")
Point = tuple[str, int, float]
Means = Mapping[str, Mapping[str, float]]


def means(results: list[dict[str, Any]]) -> dict[Point, Means]:
    """Returns the figures of each method at each point, means over seeds; uniform records are the same at every ε."""
    found: dict[Point, dict[str, list[list[float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in results:
        if row["method"] != "uniform":
            found[row["table"], row["records"], row["epsilon"]][row["method"]].append(
                [row[key] for key in FIGURES]
            )
    uniform = {
        (row["table"], row["records"]): {key: row[key] for key in FIGURES}
        for row in results
        if row["method"] == "uniform"
    }
    return {
        point: {"uniform": uniform[point[:2]]}
        | {
            name: dict(zip(FIGURES, np.mean(rows, axis=0).tolist(), strict=True))
            for name, rows in methods.items()
        }
        for point, methods in sorted(found.items())
        # One that is still being run says nothing yet.
        if len(methods) == 2
    }


def lines(points: Mapping[Point, Means]) -> list[str]:
    """Returns one Markdown table for all."""
    shown = [
        "| table | records | ε | uniform | single columns | default | ROC-AUC single → default |",
        "|---" * 7 + "|",
    ]
    for (table, records, epsilon), found in points.items():
        uniform, single, default = (
            found[name] for name in ("uniform", "single columns", "default")
        )
        cells = [
            f"{one['distance_1']:.3f} / {one['distance_2']:.3f}"
            for one in (uniform, single, default)
        ]
        roc = f"{single['roc_auc']:.3f} → {default['roc_auc']:.3f}"
        shown.append(
            f"| {table} | {records:,} | {epsilon:g} | {' | '.join(cells)} | {roc} |"
        )
    return shown


def excess(points: Mapping[Point, Means], figure: str) -> dict[Point, float]:
    """Returns by how much the default is further away than the nearer of the other two."""
    return {
        point: found["default"][figure]
        - min(found["uniform"][figure], found["single columns"][figure])
        for point, found in points.items()
    }


def draw(points: Mapping[Point, Means], path: Path) -> None:
    """Writes the curves: one panel a table, the mean distance of pairs against the number of records."""
    from matplotlib.figure import Figure

    tables = sorted({point[0] for point in points})
    figure = Figure(
        figsize=(4.2 * len(tables), 4.2), facecolor="white", layout="constrained"
    )
    panels = figure.subplots(1, len(tables), squeeze=False)[0]
    for axes, table in zip(panels, tables, strict=True):
        for colour, epsilon in zip(
            COLOURS, sorted({point[2] for point in points}), strict=False
        ):
            sizes = sorted(
                point[1]
                for point in points
                if point[0] == table and point[2] == epsilon
            )
            for method, style in (("default", "-o"), ("single columns", "--")):
                heights = [
                    points[table, size, epsilon][method]["distance_2"] for size in sizes
                ]
                label = f"ε = {epsilon:g}" if method == "default" else None
                axes.plot(
                    sizes,
                    heights,
                    style,
                    color=colour,
                    markersize=4,
                    linewidth=1.3,
                    label=label,
                )
        heights = [
            points[table, size, epsilon]["uniform"]["distance_2"] for size in sizes
        ]
        axes.plot(sizes, heights, ":", color=INK, linewidth=1.3)
        axes.set(xscale="log", ylim=(0, None), title=table, xlabel="records")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("mean total variation of pairs")
    panels[-1].legend(frameon=False, fontsize=9)
    figure.suptitle(
        "line: default; dashed: single columns at the whole budget; dotted: uniform",
        fontsize=10,
        color=INK,
    )
    figure.savefig(path, dpi=110)


def main() -> None:
    """Reads the command line and prints the page's figures."""
    options = read_options(
        __doc__,
        results=positional(Path),
        picture=optional(Path),
    )
    points = means(json.loads(options.results.read_text()))
    print("\n".join(lines(points)))
    for figure in FIGURES[:2]:
        over = excess(points, figure)
        worst = max(over, key=lambda point: over[point])
        near = sum(value <= 0.01 for value in over.values())
        print(
            f"\n{figure}: nearest, or within .01 of the nearest, at {near} of {len(over)} points;"
        )
        print(f"at worst {over[worst]:.3f} further, at {worst}")
    if options.picture:
        options.picture.parent.mkdir(parents=True, exist_ok=True)
        draw(points, options.picture)


if __name__ == "__main__":
    main()
