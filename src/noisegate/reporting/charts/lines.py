"""Curves over one axis, both axes from 0 to 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from noisegate.reporting.charts.svg import drawing, tag

_SIDE, _LEFT, _BOTTOM, _TOP, _RIGHT = 240.0, 52.0, 40.0, 8.0, 22.0
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Points of one curve in order, in [0, 1], and the class of its style: "curve" or "guess"."""

    points: Sequence[tuple[float, float]]
    style: str


def lines(key: str, title: str, told: str, curves: Sequence[Curve], axes: tuple[str, str]) -> Markup:
    """Returns the drawing; `axes` names the one to the right and the one upwards."""
    width, height = _LEFT + _SIDE + _RIGHT, _TOP + _SIDE + _BOTTOM

    def across(share: float) -> float:
        return _LEFT + share * _SIDE

    def up(share: float) -> float:
        return _TOP + (1 - share) * _SIDE

    inside = []
    for tick in _TICKS:
        inside += [
            tag("line", x1=across(0), x2=across(1), y1=up(tick), y2=up(tick), cls="grid"),
            tag("text", f"{100 * tick:.0f} %", x=_LEFT - 6, y=up(tick) + 4, text_anchor="end", cls="axis"),
        ]
        if tick in (0.0, 0.5, 1.0):
            inside.append(
                tag("text", f"{100 * tick:.0f} %", x=across(tick), y=up(0) + 16, text_anchor="middle", cls="axis")
            )
    for curve in curves:
        path = "L".join(f"{across(x):.1f} {up(y):.1f}" for x, y in curve.points)
        inside.append(tag("path", d=f"M{path}", cls=curve.style))
    inside += [
        tag("text", axes[0], x=across(0.5), y=height - 6, text_anchor="middle", cls="name"),
        tag(
            "text",
            axes[1],
            x=0,
            y=0,
            text_anchor="middle",
            cls="name",
            transform=f"translate(11 {up(0.5)}) rotate(-90)",
        ),
    ]
    return drawing(key, title, told, (width, height), *inside)
