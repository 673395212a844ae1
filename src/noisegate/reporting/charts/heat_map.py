"""A figure for each pair of columns, as a square of shades with a name at every row and column."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from noisegate.reporting.charts.svg import LETTER, drawing, label, tag

SHADES = 9
_LETTERS = 18


def heat_map(
    key: str, title: str, told: str, names: Sequence[str], values: npt.NDArray[np.float64], *, most: float = 1.0
) -> Markup:
    """Returns the drawing of a square of values, (names, names), from no shade at 0 to the darkest at `most`.

    Where nothing was measured, which is NaN, the paper shows.
    """
    side = 22.0 if len(names) <= 24 else 16.0
    margin = LETTER * min(max(map(len, names), default=0), _LETTERS) + 12
    end = margin + side * len(names)
    inside = [tag("rect", x=margin, y=margin, width=end - margin, height=end - margin, cls="nothing")]
    shades = np.where(np.isnan(values), -1, np.ceil(np.clip(values / most, 0, 1) * SHADES - 1e-9))
    for shade in range(SHADES + 1):
        # One path for all squares of a shade: a page of 200 columns stays small.
        squares = [
            f"M{margin + column * side:.0f} {margin + row * side:.0f}h{side:.0f}v{side:.0f}h-{side:.0f}z"
            for row, column in zip(*np.nonzero(shades == shade), strict=True)
        ]
        if squares:
            inside.append(tag("path", d="".join(squares), cls=f"shade-{shade}"))
    for place, name in enumerate(names):
        middle = margin + (place + 0.5) * side
        inside += [
            label(name, _LETTERS, x=margin - 6, y=middle + 4, text_anchor="end", cls="name"),
            label(
                name, _LETTERS, x=0, y=4, cls="name", transform=f"translate({middle:.1f} {margin - 6:.1f}) rotate(-90)"
            ),
        ]
    return drawing(key, title, told, (end + 2, end + 2), *inside)


def shade_names(most: float) -> list[tuple[int, str]]:
    """Returns the shades of a legend, each with the largest value that it stands for."""
    return [(shade, f"{100 * most * shade / SHADES:.3g} %") for shade in range(0, SHADES + 1, 3) if math.isfinite(most)]
