"""What pages are made of: templates, charts as inline SVG with tables of their numbers, and cards of columns.

Each page is one self-contained HTML file: every value escaped, no script, nothing that
is fetched.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from noisegate.schema import Column

if TYPE_CHECKING:
    from jinja2 import Environment

    from noisegate.answers.domain import Floats

_CODE = re.compile("`([^`]+)`")


def render_page(template: str, **values: Any) -> str:
    """Returns the page of a template in this package; a value that the template names and nobody gave is an error."""
    return _environment().get_template(template).render(**values)


def percent(share: float) -> str:
    """Returns a share in percent, with as many digits as say something: 0.04 %, 3.1 %, 57 %.

    Examples:
        >>> [percent(share) for share in (0.0, 0.000412, 0.0312, 0.57)]
        ['0 %', '0.041 %', '3.1 %', '57 %']
    """
    return (
        "–"
        if not math.isfinite(share)
        else f"{100 * share:.2g} %"
        if abs(share) < 0.1
        else f"{100 * share:.0f} %"
    )


def number(value: float) -> str:
    """Returns a number with at most four digits that count; a whole one with all of them."""
    if not math.isfinite(value):
        return "–"
    return (
        f"{round(value):,}"
        if abs(value) >= 1000 or float(value).is_integer()
        else f"{value:.4g}"
    )


def coded(text: str) -> Markup:
    """Returns a text, escaped, with what stands between backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    made = Environment(
        loader=PackageLoader("noisegate_evaluate.reporting"),
        autoescape=select_autoescape(("html", "svg")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["today"] = lambda: datetime.now(UTC).date().isoformat()
    made.filters |= {"percent": percent, "number": number, "coded": coded, "cut": cut}
    return made


LETTER = 7.2  # about the width of a letter of 12 pixels in a wide font, in pixels


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A drawing, and the table of what it shows; a wide one keeps its size and scrolls in a box of its own."""

    drawing: Markup
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    of: int = 0  # how many rows there are, if these are but the first ones
    wide: bool = False


def _drawn(
    chart: str, key: str, title: str, told: str, size: tuple[int, int], **parts: Any
) -> Markup:
    """Returns the SVG element of a chart by its template, with what it says in words; `key` is its own."""
    head = {
        "key": key,
        "title": title,
        "told": told,
        "width": size[0],
        "height": size[1],
    }
    return Markup(_environment().get_template(f"{chart}.svg").render(head | parts))


def cut(text: str, most: int) -> str:
    """Returns a text on one line, of at most so many characters."""
    line = " ".join(text.split()) or "(empty)"
    return line if len(line) <= most else line[: most - 1] + "…"


_BAR_WIDTH, _BAR_ROW, _BAR_NAMES, _BAR_RIGHT, _BAR_AXIS = 350, 20, 170, 12, 22
_BAR_LETTERS = 23  # of a name, such as a span of days


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One row, in shares: its bar, where a mark stands, and half the length of an error bar (0 for none)."""

    name: str
    value: float
    mark: float | None = None
    error: float = 0.0


def bars(key: str, title: str, told: str, rows: Sequence[Bar]) -> Markup:
    """Returns the drawing of rows, from top to bottom, on one scale from 0."""
    ends = [max(row.value + row.error, row.mark or 0.0) for row in rows]
    share = min(
        max([*ends, 1e-6]), 1.0
    )  # where the noise is larger than the records, bars are cut
    power = 10.0 ** math.floor(math.log10(share))
    steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
    most = min(
        next(step for step in steps if share <= step * power * (1 + 1e-9)) * power, 1.0
    )
    height = _BAR_ROW * len(rows) + _BAR_AXIS
    scale = (_BAR_WIDTH - _BAR_NAMES - _BAR_RIGHT) / most

    def at(share: float) -> float:
        return _BAR_NAMES + min(max(share, 0.0), most) * scale

    # One path for all bars, and so on: a page of many columns stays small.
    shapes = {
        "grid": "".join(
            f"M{at(part):.4g} 0v{height - _BAR_AXIS + 4}" for part in (0.0, most)
        )
    }
    shapes |= dict.fromkeys(("bar", "error", "mark"), "")
    for place, row in enumerate(rows):
        middle = place * _BAR_ROW + _BAR_ROW // 2
        shapes["bar"] += f"M{_BAR_NAMES} {middle}H{at(row.value):.4g}"
        if row.error:
            low, high = at(row.value - row.error), at(row.value + row.error)
            shapes["error"] += f"M{low:.4g} {middle - 3}v6m0-3H{high:.4g}m0-3v6"
        if row.mark is not None:
            shapes["mark"] += f"M{at(row.mark):.4g} {middle}h0"
    parts: Any = {
        "rows": rows,
        "shapes": shapes,
        "left": _BAR_NAMES,
        "right": _BAR_WIDTH - _BAR_RIGHT,
    }
    parts |= {
        "row_height": _BAR_ROW,
        "letters": _BAR_LETTERS,
        "most": f"{100 * most:.3g} %",
    }
    return _drawn("bars", key, title, told, (_BAR_WIDTH, height), **parts)


SHADES = 9
_LETTERS = 18


def heat_map(
    key: str,
    title: str,
    told: str,
    names: Sequence[str],
    values: npt.NDArray[np.float64],
    *,
    most: float = 1.0,
    ends: tuple[str, str] = ("0", "1"),
) -> Markup:
    """Returns a square of values, (names, names), from no shade at 0 to the darkest at `most`; hatched where NaN.

    Below it stand the shades with their `ends`, and what hatched cells are.
    """
    side, letters = (
        22 if len(names) <= 24 else 16,
        min(max(map(len, names), default=0), _LETTERS),
    )
    margin = round(LETTER * letters) + 12
    end = margin + side * len(names)
    shades = np.where(
        np.isnan(values), -1, np.ceil(np.clip(values / most, 0, 1) * SHADES - 1e-9)
    )

    def marked(where: npt.NDArray[np.bool_], mark: str) -> str:
        """One path for all squares of a shade, in squares: a page of 200 columns stays small."""
        return "".join(
            f"M{column} {row}{mark}" for row, column in np.argwhere(where).tolist()
        )

    squares = {
        f"shade-{shade}": marked(shades == shade, "h1") for shade in range(SHADES + 1)
    }
    squares |= {"nothing": marked(shades < 0, "h1")}
    squares |= {
        "hatched": marked((shades < 0) & ~np.eye(len(names), dtype=bool), ".5l1-1")
    }
    parts = {
        "names": names,
        "squares": squares,
        "ends": ends,
        "side": side,
        "margin": margin,
        "letters": _LETTERS,
    }
    return _drawn(
        "heat_map", key, title, told, (max(end + 2, margin + 340), end + 40), **parts
    )


_SIDE, _LEFT, _BOTTOM, _TOP, _RIGHT = 240, 52, 40, 8, 22
Points: TypeAlias = Sequence[tuple[float, float]]


def lines(
    key: str, title: str, told: str, curves: Mapping[str, Points], axes: tuple[str, str]
) -> Markup:
    """Returns curves, points in [0, 1] by the class of their style, over axes named to the right and upwards."""
    drawn = {
        style: "M"
        + "L".join(
            f"{_LEFT + x * _SIDE:.1f} {_TOP + (1 - y) * _SIDE:.1f}" for x, y in points
        )
        for style, points in curves.items()
    }
    size, parts = (
        (_LEFT + _SIDE + _RIGHT, _TOP + _SIDE + _BOTTOM),
        {"left": _LEFT, "top": _TOP, "side": _SIDE},
    )
    return _drawn("lines", key, title, told, size, curves=drawn, axes=axes, **parts)


_MOST_ROWS = 14


@dataclass(frozen=True, kw_only=True)
class Card:
    """One column on a page: its name, a line about it, and its chart."""

    name: str
    told: str
    chart: Chart


def card(
    key: str,
    columns: Sequence[Column],
    cells: Sequence[str],
    shares: tuple[Floats, Floats],
    told: str,
    headings: tuple[str, str],
    *,
    error: float = 0.0,
) -> Card:
    """Returns the card of columns: `shares` are what was measured, as bars, and what synthetic ones say, as marks."""
    # A chart of many cells shows the largest ones and the rest as one, unless a reader expects an order, as of numbers
    # or of several columns; the table has them all. `error` is half of an error bar.
    column = " × ".join(one.name for one in columns)
    ordered = len(columns) > 1 or columns[0].numeric or columns[0].ordered
    shown = zip(cells, *shares, strict=True)
    rows = [
        Bar(name=name, value=float(bar), mark=float(mark), error=error)
        for name, bar, mark in shown
    ]
    between = f" ± {percent(error)}" if error else ""
    table = [
        (row.name, percent(row.value) + between, percent(row.mark or 0.0))
        for row in rows
    ]
    whole = f"{headings[0]} as bars, {headings[1]} as dots."
    drawn = bars(key, column, whole, rows if ordered else _fitting(rows, error))
    return Card(
        name=column,
        told=told,
        chart=Chart(drawing=drawn, headings=("", *headings), rows=table),
    )


def _fitting(rows: list[Bar], error: float) -> list[Bar]:
    if len(rows) <= _MOST_ROWS + 1:
        return rows
    ranked = np.argsort(
        [-max(row.value, row.mark or 0.0) for row in rows], kind="stable"
    )
    kept, rest = (
        sorted(ranked[:_MOST_ROWS]),
        [rows[place] for place in ranked[_MOST_ROWS:]],
    )
    together = Bar(
        name=f"{len(rest)} others",
        value=sum(row.value for row in rest),
        mark=sum(row.mark or 0.0 for row in rest),
        error=error * len(rest) ** 0.5,
    )
    return [*(rows[place] for place in kept), together]
