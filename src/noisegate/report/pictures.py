"""A picture of a synthetic table beside the real one."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from noisegate.errors import DataError
from noisegate.evaluation import CAVEAT
from noisegate.report.associations import associations
from noisegate.report.drawing import FAINT, FONT, INK, REAL, SYNTHETIC, legible, save_picture
from noisegate.report.panels import Marginal, draw_marginal, marginal
from noisegate.schema import Column, Schema

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure
    from matplotlib.image import AxesImage

_ACROSS = 5
_MOST_PANELS = 25
_MOST_PAIRED = 30
_WIDTH = 16.0  # inches, like all sizes here
_HEAD, _PANEL, _MAPS = 1.0, 2.05, 7.0


def comparison_picture(synthetic: pa.Table, real: pa.Table, schema: Schema, path: str | Path) -> None:
    """Draw the distribution of every column, and the association of every pair, in both tables.

    With many columns the 25 with the largest distance, and the first 30 of the schema for the pairs, are shown. The
    picture says that it was computed on real data and is outside the guarantee.

    Args:
        synthetic: the synthetic table.
        real: the real table.
        schema: the columns to draw.
        path: the PNG file to write; replaced if it is there.

    Raises:
        DataError: a table has no rows or lacks a column.
        OptionError: the file cannot be written.
    """
    for table, what in ((synthetic, "synthetic"), (real, "real")):
        if table.num_rows == 0:
            raise DataError(f"the {what} table has no rows; a picture needs at least one row in each table")
    save_picture(path, _draw(synthetic, real, schema))


def _draw(synthetic: pa.Table, real: pa.Table, schema: Schema) -> bytes:
    """The picture as PNG bytes; drawn off screen, without touching the state of pyplot."""
    import matplotlib
    from matplotlib.figure import Figure

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
    return target.getvalue()


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
