"""A picture of a synthetic table beside the real one: the distribution of each column, the association of each pair."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from noisegate.errors import DataError
from noisegate.evaluation import CAVEAT
from noisegate.evaluation.metrics.marginals import total_variation
from noisegate.evaluation.reading import cells, read_numbers
from noisegate.reporting.drawing import FAINT, FONT, INK, REAL, SYNTHETIC, at, legible, save_picture
from noisegate.schema import CodedColumn, Column, Date, Datetime, NumericColumn, Ordinal, Schema

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure
    from matplotlib.image import AxesImage

_ACROSS = 5
_MOST_PANELS = 25
_MOST_PAIRED = 30
_MOST_LEVELS = 7
_WIDTH = 16.0  # inches, like all sizes here
_HEAD, _PANEL, _MAPS = 1.0, 2.05, 7.0


def comparison_picture(synthetic: pa.Table, real: pa.Table, schema: Schema, path: str | Path) -> None:
    """Draws the distribution of every column, and the association of every pair, in both tables, into a PNG file.

    With many columns the 25 with the largest distance, and the first 30 of the schema for the pairs, are shown. The
    picture says that it was computed on real data and is outside the guarantee.

    Raises:
        DataError: if a table has no rows or lacks a column.
        OptionError: if the file cannot be written.
    """
    import matplotlib
    from matplotlib.figure import Figure  # off screen, without touching the state of pyplot

    for table, what in ((synthetic, "synthetic"), (real, "real")):
        if table.num_rows == 0:
            raise DataError(f"the {what} table has no rows; a picture needs at least one row in each table")
    shown = [marginal(synthetic, real, column, schema) for column in schema.columns]
    if len(shown) > _MOST_PANELS:
        shown = sorted(shown, key=lambda one: -one.distance)[:_MOST_PANELS]
    rows = math.ceil(len(shown) / _ACROSS)
    paired = schema.columns[:_MOST_PAIRED]
    heights = [_HEAD, rows * _PANEL] + ([_MAPS] if len(paired) > 1 else [])
    # Names and levels are data, not mathematics: a dollar sign is a dollar sign.
    with matplotlib.rc_context({"text.parse_math": False, "font.family": [FONT]}):
        figure = Figure(figsize=(_WIDTH, sum(heights)), facecolor="white")
        parts = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
        _head(parts[0], synthetic.num_rows, real.num_rows, len(shown), len(schema.columns))
        _marginals(parts[1], shown, rows)
        if len(paired) > 1:
            _maps(parts[2], paired, associations(synthetic, paired, schema), associations(real, paired, schema))
        target = io.BytesIO()
        figure.savefig(target, format="png")
    save_picture(path, target.getvalue())


def _head(part: SubFigure, ours: int, theirs: int, shown: int, columns: int) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    part.text(0.012, 0.72, "Synthetic against real", fontsize=19, fontweight="bold", color=INK, va="center")
    scope = f"all {columns} columns" if shown == columns else f"the {shown} of {columns} columns that differ most"
    part.text(
        0.012, 0.33, f"Share of rows in each column: {scope}.  TV = total variation distance, 0 the same, 1 disjoint.",
        fontsize=10.5, color=FAINT, va="center",
    )  # fmt: skip
    part.text(0.012, 0.07, CAVEAT, fontsize=10.5, fontweight="bold", color="#9a3412", va="center")
    part.legend(
        handles=[
            Patch(color=REAL, label=f"real, {theirs:,} rows"),
            Line2D([], [], color=SYNTHETIC, marker="o", linewidth=1.6, label=f"synthetic, {ours:,} rows"),
        ],
        loc="center right", bbox_to_anchor=(0.99, 0.72), ncols=2, frameon=False, fontsize=11.5, labelcolor=INK,
    )  # fmt: skip


def _marginals(part: SubFigure, shown: Sequence[Marginal], rows: int) -> None:
    grid = _margins(_WIDTH, rows * _PANEL, left=1.25, right=0.3, top=0.35, bottom=0.25)
    panels = part.subplots(rows, _ACROSS, squeeze=False, gridspec_kw=grid | {"wspace": 0.66, "hspace": 0.45}).ravel()
    for axes, one in zip(panels, shown, strict=False):
        draw_marginal(axes, one)
    for axes in panels[len(shown) :]:
        axes.set_axis_off()


def _maps(part: SubFigure, columns: Sequence[Column], ours: np.ndarray, theirs: np.ndarray) -> None:
    grid = _margins(_WIDTH, _MAPS, left=1.6, right=1.1, top=0.6, bottom=1.2)
    left, right = part.subplots(1, 2, gridspec_kw=grid | {"wspace": 0.26})
    names = [legible(column.name, 18) for column in columns]
    apart = np.abs(ours - theirs)
    measured = apart[~np.isnan(apart)]
    difference = f", mean difference {measured.mean():.3f}" if len(measured) else ""
    _map(left, theirs, names, "Real: association of each pair of columns")
    image = _map(right, ours, names, f"Synthetic{difference}")
    bar = part.colorbar(image, cax=part.add_axes((0.95, grid["bottom"], 0.01, grid["top"] - grid["bottom"])))
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=0, colors=INK)
    bar.set_label("0 none, 1 one decides the other; grey: a constant column", fontsize=8.5, color=FAINT)


def _map(axes: Axes, matrix: np.ndarray, names: Sequence[str], title: str) -> AxesImage:
    places = np.arange(len(names))
    axes.set_facecolor("#eceef2")  # shows through where there is nothing to measure
    image = axes.imshow(np.ma.masked_invalid(matrix), cmap="YlGnBu", vmin=0.0, vmax=1.0)
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", color=INK)
    axes.set_xticks(places, names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(places, names)
    axes.set_xticks(places[:-1] + 0.5, minor=True)
    axes.set_yticks(places[:-1] + 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.0)
    axes.tick_params(which="both", length=0, labelsize=8.5, colors=INK)
    axes.spines[:].set_visible(False)
    return image


def _margins(width: float, height: float, *, left: float, right: float, top: float, bottom: float) -> dict[str, float]:
    """Margins in inches as the shares of the part that matplotlib wants.

    The margins are fixed, because texts have a greatest length; fitting them to the texts costs many seconds.
    """
    return {"left": left / width, "right": 1 - right / width, "top": 1 - top / height, "bottom": bottom / height}


@dataclass(frozen=True, kw_only=True)
class Marginal:
    """The share of rows in each cell of one column, whose last two are missing and outside, in two tables."""

    column: Column
    real: np.ndarray
    synthetic: np.ndarray
    distance: float
    """Total variation distance between the two."""


def marginal(synthetic: pa.Table, real: pa.Table, column: Column, schema: Schema) -> Marginal:
    """Returns the shares of one column in two tables that are not empty."""
    both = (cells(table, column, schema) for table in (synthetic, real))
    ours, theirs = (np.bincount(found.codes, minlength=found.size) for found in both)
    real_shares, shares = theirs / theirs.sum(), ours / ours.sum()
    return Marginal(column=column, real=real_shares, synthetic=shares, distance=total_variation(ours, theirs))


def draw_marginal(axes: Axes, shown: Marginal) -> None:
    """Draws one column: real as grey area or bars, synthetic as a red outline or dots."""
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
    _in_percent(axes, "y")


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
    _in_percent(axes, "x")
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


def _in_percent(axes: Axes, side: Literal["x", "y"]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis = axes.xaxis if side == "x" else axes.yaxis
    axis.set_major_locator(MaxNLocator(3))
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g}%"))
    axes.grid(axis=side, color=REAL, linewidth=0.5, alpha=0.6)


def _share(share: float) -> str:
    return f"{100 * share:.1f}%"


def associations(table: pa.Table, columns: Sequence[Column], schema: Schema) -> np.ndarray:
    """Returns how strongly each pair of columns moves together, a symmetric matrix from 0 to 1, (columns, columns).

    1 is one column that decides the other, NaN the diagonal and a column that is constant. Two numeric columns: the
    absolute Pearson correlation. Two columns with levels: Cramér's V. One of each: the correlation ratio. The last two
    are corrected for the bias that many levels on few rows would bring. Missing is a level; a missing number leaves the
    row out.
    """
    ready = [
        read_numbers(table, column, schema).unit
        if isinstance(column, NumericColumn)
        else cells(table, column, schema).codes
        for column in columns
    ]
    numeric = [isinstance(column, NumericColumn) for column in columns]
    matrix = np.full((len(ready), len(ready)), math.nan)
    for i, j in itertools.combinations(range(len(ready)), 2):
        first, second = (i, j) if numeric[i] else (j, i)
        measure = _correlation if numeric[i] and numeric[j] else _correlation_ratio if numeric[first] else _cramers_v
        matrix[i, j] = matrix[j, i] = measure(ready[first], ready[second])
    return matrix


def _correlation(left: np.ndarray, right: np.ndarray) -> float:
    both = ~(np.isnan(left) | np.isnan(right))
    left, right = left[both], right[both]
    if len(left) < 2 or np.ptp(left) == 0 or np.ptp(right) == 0:
        return math.nan
    left, right = left - left.mean(), right - right.mean()
    return float(min(1.0, abs(left @ right) / math.sqrt((left @ left) * (right @ right))))


def _correlation_ratio(numbers: np.ndarray, codes: np.ndarray) -> float:
    """The share of the spread of the numbers that the levels explain, as a root; epsilon-squared correction."""
    known = ~np.isnan(numbers)
    numbers = numbers[known]
    groups, member = np.unique(codes[known], return_inverse=True)
    if len(groups) < 2 or len(numbers) <= len(groups) or np.ptp(numbers) == 0:
        return math.nan
    centred = numbers - numbers.mean()
    sums, counts = np.bincount(member, weights=centred), np.bincount(member)
    explained = float((sums**2 / counts).sum() / (centred @ centred))
    corrected = 1 - (1 - explained) * (len(numbers) - 1) / (len(numbers) - len(groups))
    return math.sqrt(min(1.0, max(0.0, corrected)))


def _cramers_v(left: np.ndarray, right: np.ndarray) -> float:
    """Cramér's V with the correction of Bergsma (2013)."""
    (rows, row), (columns, column) = (np.unique(codes, return_inverse=True) for codes in (left, right))
    r, c, n = len(rows), len(columns), len(left)
    if min(r, c) < 2:
        return math.nan
    counts = np.bincount(row * c + column, minlength=r * c).reshape(r, c)
    expected = counts.sum(axis=1, keepdims=True) * (counts.sum(axis=0, keepdims=True) / n)
    phi_squared = float(((counts - expected) ** 2 / expected).sum() / n)
    corrected = max(0.0, phi_squared - (r - 1) * (c - 1) / (n - 1))
    room = min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1
    return math.sqrt(min(1.0, corrected / room)) if room > 0 else math.nan
