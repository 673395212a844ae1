"""Bars with error bars, each beside a mark: what was measured with noise, and what the synthetic records say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from noisegate.reporting.charts.svg import drawing, label, tag

_WIDTH, _ROW, _NAMES, _RIGHT, _AXIS = 350.0, 20.0, 170.0, 12.0, 22.0
_LETTERS = 23  # of a name, such as a span of days


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One row, in shares.

    Attributes:
        name: Of the row.
        value: The length of the bar.
        mark: Where the mark stands; None for none.
        error: Half the length of the error bar; 0 for none.
    """

    name: str
    value: float
    mark: float | None = None
    error: float = 0.0


def bars(key: str, title: str, told: str, rows: Sequence[Bar]) -> Markup:
    """Returns the drawing of rows, from top to bottom, on one scale from 0."""
    ends = [max(row.value + row.error, row.mark or 0.0) for row in rows]
    most = _round_up(min(max([*ends, 1e-6]), 1.0))  # where the noise is larger than the records, bars are cut
    height = _ROW * len(rows) + _AXIS
    scale = (_WIDTH - _NAMES - _RIGHT) / most

    def at(share: float) -> float:
        return _NAMES + min(max(share, 0.0), most) * scale

    inside = [tag("line", x1=at(part), x2=at(part), y1=0, y2=height - _AXIS + 4, cls="grid") for part in (0.0, most)]
    for place, row in enumerate(rows):
        inside.append(_row(row, at, place * _ROW))
    for part, anchor in ((0.0, "start"), (most, "end")):
        inside.append(tag("text", f"{100 * part:.3g} %", x=at(part), y=height - 4, text_anchor=anchor, cls="axis"))
    return drawing(key, title, told, (_WIDTH, height), *inside)


def _row(row: Bar, at: object, top: float) -> Markup:
    assert callable(at)
    middle = top + _ROW / 2
    parts = [
        label(row.name, _LETTERS, x=_NAMES - 8, y=middle + 4, text_anchor="end", cls="name"),
        tag("rect", x=at(0.0), y=top + 4, width=at(row.value) - at(0.0), height=_ROW - 8, cls="bar"),
    ]
    if row.error:
        low, high = at(row.value - row.error), at(row.value + row.error)
        parts.append(tag("path", d=f"M{low:.1f} {middle:.1f}H{high:.1f}", cls="error"))
        parts += [tag("path", d=f"M{end:.1f} {middle - 3:.1f}v6", cls="error") for end in (low, high)]
    if row.mark is not None:
        parts.append(tag("circle", cx=at(row.mark), cy=middle, r=4, cls="mark"))
    return tag("g", *parts)


def _round_up(share: float) -> float:
    """Returns the end of an axis for a share above 0: 1, 1.5, 2, 3, 4, 5, 6 or 8 times a power of ten, at most 1."""
    power = 10.0 ** math.floor(math.log10(share))
    steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
    return min(next(step for step in steps if share <= step * power * (1 + 1e-9)) * power, 1.0)
