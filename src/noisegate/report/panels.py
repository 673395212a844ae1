"""One panel per column: its distribution in the real and in the synthetic table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from noisegate.evaluation.metrics.marginals import total_variation
from noisegate.evaluation.reading import cells
from noisegate.report.drawing import FAINT, INK, REAL, SYNTHETIC, at, legible
from noisegate.schema import CodedColumn, Column, Date, Datetime, NumericColumn, Ordinal, Schema

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ticker import Formatter, Locator

_MOST_LEVELS = 7


@dataclass(frozen=True, kw_only=True)
class Marginal:
    """The shares of one column's cells in two tables.

    Attributes:
        column: its description.
        real: share of the real rows in each cell; the last two cells are missing and outside.
        synthetic: the same for the synthetic rows.
        distance: total variation distance between the two.
    """

    column: Column
    real: np.ndarray
    synthetic: np.ndarray
    distance: float


def marginal(synthetic: pa.Table, real: pa.Table, column: Column, schema: Schema) -> Marginal:
    """Count one column in two tables that are not empty."""
    both = (cells(table, column, schema) for table in (synthetic, real))
    ours, theirs = (np.bincount(found.codes, minlength=found.size) for found in both)
    return Marginal(
        column=column,
        real=theirs / theirs.sum(),
        synthetic=ours / ours.sum(),
        distance=total_variation(ours, theirs),
    )


def draw_marginal(axes: Axes, shown: Marginal) -> None:
    """Draw one column: real as grey area or bars, synthetic as a red outline or dots."""
    axes.set_title(legible(shown.column.name, 18), loc="left", fontsize=9.5, fontweight="bold", color=INK)
    axes.set_title(f"TV {shown.distance:.3f}", loc="right", fontsize=8, color=FAINT)
    if isinstance(shown.column, NumericColumn):
        _draw_bins(axes, shown, shown.column)
    else:
        _draw_levels(axes, shown, shown.column)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(REAL)
    axes.tick_params(colors=INK, labelsize=8, length=0)


def _draw_bins(axes: Axes, shown: Marginal, column: NumericColumn) -> None:
    edges = np.linspace(0.0, 1.0, len(shown.real) - 1)
    axes.stairs(shown.real[:-2], edges, fill=True, color=REAL)
    axes.stairs(shown.synthetic[:-2], edges, color=SYNTHETIC, linewidth=1.6)
    axes.set_xlim(0, 1)
    # Three dates would run into each other.
    marks = [0.0, 1.0] if isinstance(column, Date | Datetime) else [0.0, 0.5, 1.0]
    axes.set_xticks(marks, [at(column, unit) for unit in marks])
    ends = axes.get_xticklabels()
    ends[0].set_horizontalalignment("left")
    ends[-1].set_horizontalalignment("right")
    remarks = [
        f"{what}: {_share(shown.real[place])} real, {_share(shown.synthetic[place])} synthetic"
        for place, what in ((-2, "missing"), (-1, "outside"))
        if max(shown.real[place], shown.synthetic[place]) > 0
    ]
    highest = max(shown.real[:-2].max(), shown.synthetic[:-2].max(), 1e-9)
    axes.set_ylim(0, highest * (1.08 + 0.14 * len(remarks)))
    axes.text(0.99, 0.98, "\n".join(remarks), transform=axes.transAxes, ha="right", va="top", fontsize=7.5, color=INK)
    axes.yaxis.set_major_locator(_few_ticks())
    axes.yaxis.set_major_formatter(_percent())
    axes.grid(axis="y", color=REAL, linewidth=0.5, alpha=0.6)


def _draw_levels(axes: Axes, shown: Marginal, column: CodedColumn) -> None:
    names, real, synthetic = _largest_levels(shown, column)
    places = np.arange(len(names))
    axes.barh(places, real, height=0.72, color=REAL)
    axes.plot(synthetic, places, "o", color=SYNTHETIC, markersize=5.5, markeredgecolor="white", markeredgewidth=0.6)
    axes.hlines(places, 0, synthetic, color=SYNTHETIC, linewidth=1.2)
    axes.set_yticks(places, names)
    # As tall as a full panel, so that bars are equally thick in all panels.
    axes.set_ylim(max(len(names), 4) - 0.4, -0.6)
    axes.set_xlim(0, max(real.max(), synthetic.max()) * 1.08)
    axes.xaxis.set_major_locator(_few_ticks())
    axes.xaxis.set_major_formatter(_percent())
    axes.grid(axis="x", color=REAL, linewidth=0.5, alpha=0.6)
    axes.set_axisbelow(True)


def _largest_levels(shown: Marginal, column: CodedColumn) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The most frequent levels, then missing, outside and the rest in one where they occur."""
    names = [legible(level, 16) for level in column.levels]
    mass = shown.real[:-2] + shown.synthetic[:-2]
    ranked = np.argsort(-mass, kind="stable")
    room = len(names) if len(names) <= _MOST_LEVELS + 1 else _MOST_LEVELS
    kept, rest = ranked[:room], ranked[room:]
    if isinstance(column, Ordinal):
        kept = np.sort(kept)
    rows = [(names[i], shown.real[i], shown.synthetic[i]) for i in kept]
    if len(rest):
        rows.append((f"{len(rest)} more levels", shown.real[rest].sum(), shown.synthetic[rest].sum()))
    for place, what in ((-2, "(missing)"), (-1, "(outside)")):
        if max(shown.real[place], shown.synthetic[place]) > 0:
            rows.append((what, shown.real[place], shown.synthetic[place]))
    return [row[0] for row in rows], np.array([row[1] for row in rows]), np.array([row[2] for row in rows])


def _few_ticks() -> Locator:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(3)


def _percent() -> Formatter:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda share, _: f"{100 * share:.3g}%")


def _share(share: float) -> str:
    return f"{100 * share:.1f}%"
