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
    from jinja2 import Environment, Template

    from noisegate.answers.domain import Floats

_CODE = re.compile("`([^`]+)`")
# Messages are also printed to consoles that lack the letter. Other words stay, since a
# column may have this name.
_EPSILON = re.compile(r"\b((?:at|larger|which|with) )epsilon\b")


def render_page(template: str, **values: Any) -> str:
    """Returns the page of a template in this package; a value that the template names and nobody gave is an error."""
    return _environment().get_template(template).render(**values)


def render_fragment(template: str, **values: Any) -> Markup:
    """Returns a fragment of a page by the text of its template, with the macros of `parts.html`."""
    return Markup(_fragment(template).render(**values))


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
    """Returns a message as HTML: escaped, with `code` marked, and with ε for epsilon."""
    text = _EPSILON.sub(r"\1ε", text).replace("ε=", "ε = ")
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
    made.filters |= {
        "percent": percent,
        "number": number,
        "coded": coded,
        "cut": cut,
        "printed_columns": printed_columns,
    }
    return made


@cache
def _fragment(text: str) -> Template:
    macros = "chart, cards, table, verdict, findings, key, signed, maps"
    return _environment().from_string(
        f'{{% from "parts.html" import {macros} %}}{text}'
    )


LETTER = 7.2  # about the width of a letter of 12 pixels in a wide font, in pixels


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A drawing, and the table of what it shows; a wide one keeps its size and scrolls in a box of its own."""

    drawing: Markup
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    of: int = 0  # how many rows there are, if these are but the first ones
    wide: bool = False


def _drawing(
    chart: str,
    key: str,
    title: str,
    description: str,
    *,
    width: int,
    height: int,
    **parts: Any,
) -> Markup:
    """Returns the SVG element of a chart.

    Args:
        chart: Name of its template.
        key: What it is called on the page, by a name of its own.
        title: What it shows.
        description: The same in a sentence.
        width: Width in pixels.
        height: Height in pixels.
        parts: What the template draws, by name.
    """
    template = _environment().get_template(f"{chart}.svg")
    return Markup(
        template.render(
            key=key,
            title=title,
            description=description,
            width=width,
            height=height,
            **parts,
        )
    )


def cut(text: str, most: int) -> str:
    """Returns a text on one line, of at most so many characters."""
    line = " ".join(text.split()) or "(empty)"
    return line if len(line) <= most else line[: most - 1] + "…"


# Characters of a column's values on paper: three lines.
_MAX_PRINTED = 180


def printed_columns(
    columns: Sequence[tuple[str, str, str]],
) -> list[tuple[str, str, str]]:
    """Returns the rows of columns for paper: long lists of values are cut between two of them.

    Args:
        columns: Name, kind and values of each column.
    """
    rows = []
    for name, kind, values in columns:
        if len(values) > _MAX_PRINTED:
            values = f"{cut(values, _MAX_PRINTED).rpartition(', ')[0]}, …"
        rows.append((name, kind, values))
    return rows


_BAR_WIDTH = 350
_BAR_ROW = 20
_BAR_NAMES = 170
_BAR_RIGHT = 12
_BAR_AXIS = 22
_BAR_LETTERS = 23  # of a name, such as a span of days


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One row, in shares: its bar, where a mark stands, and half the length of an error bar (0 for none)."""

    name: str
    value: float
    mark: float | None = None
    error: float = 0.0


def bars(key: str, title: str, description: str, rows: Sequence[Bar]) -> Markup:
    """Returns the drawing of rows, from top to bottom, on one scale from 0.

    Args:
        key: What it is called on the page.
        title: What it shows.
        description: The same in a sentence.
        rows: The rows.
    """
    largest = max(
        [1e-6, *(max(row.value + row.error, row.mark or 0.0) for row in rows)]
    )
    # Where the noise is larger than the records, bars are cut.
    end = min(_rounded_up(min(largest, 1.0)), 1.0)
    height = _BAR_ROW * len(rows) + _BAR_AXIS
    scale = (_BAR_WIDTH - _BAR_NAMES - _BAR_RIGHT) / end

    def x_of(share: float) -> float:
        return _BAR_NAMES + min(max(share, 0.0), end) * scale

    # One path for all bars, and so on: a page of many columns stays small.
    shapes = dict.fromkeys(("grid", "bar", "error", "mark"), "")
    for share in (0.0, end):
        shapes["grid"] += f"M{x_of(share):.4g} 0v{height - _BAR_AXIS + 4}"
    for index, row in enumerate(rows):
        middle = index * _BAR_ROW + _BAR_ROW // 2
        shapes["bar"] += f"M{_BAR_NAMES} {middle}H{x_of(row.value):.4g}"
        if row.error:
            low = x_of(row.value - row.error)
            high = x_of(row.value + row.error)
            shapes["error"] += f"M{low:.4g} {middle - 3}v6m0-3H{high:.4g}m0-3v6"
        if row.mark is not None:
            shapes["mark"] += f"M{x_of(row.mark):.4g} {middle}h0"
    return _drawing(
        "bars",
        key,
        title,
        description,
        width=_BAR_WIDTH,
        height=height,
        rows=rows,
        shapes=shapes,
        left=_BAR_NAMES,
        right=_BAR_WIDTH - _BAR_RIGHT,
        row_height=_BAR_ROW,
        letters=_BAR_LETTERS,
        end=f"{100 * end:.3g} %",
    )


def _rounded_up(share: float) -> float:
    """Returns the next end of an axis: 1, 1.5, 2, 3, 4, 5, 6 or 8 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(share))
    steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
    return power * next(step for step in steps if share <= step * power * (1 + 1e-9))


SHADES = 9
_LETTERS = 18


def heat_map(
    key: str,
    title: str,
    description: str,
    names: Sequence[str],
    values: npt.NDArray[np.float64],
    *,
    largest: float = 1.0,
    ends: tuple[str, str] = ("0", "1"),
) -> Markup:
    """Returns a square of values; below it stand the shades, and what hatched cells are.

    Args:
        key: What it is called on the page.
        title: What it shows.
        description: The same in a sentence.
        names: Names of rows and columns.
        values: The values, (names, names): no shade at 0, hatched where NaN.
        largest: The value of the darkest shade.
        ends: Both ends of the scale in words.
    """
    side = 22 if len(names) <= 24 else 16
    letters = min(max(map(len, names), default=0), _LETTERS)
    margin = round(LETTER * letters) + 12
    end = margin + side * len(names)
    shades = np.ceil(np.clip(values / largest, 0, 1) * SHADES - 1e-9)
    is_unknown = np.isnan(values)

    def path(is_drawn: npt.NDArray[np.bool_], mark: str = "h1") -> str:
        """One path for all squares of a shade: a page of 200 columns stays small."""
        squares = np.argwhere(is_drawn).tolist()
        return "".join(f"M{column} {row}{mark}" for row, column in squares)

    squares = {f"shade-{shade}": path(shades == shade) for shade in range(SHADES + 1)}
    squares["nothing"] = path(is_unknown)
    is_off_diagonal = ~np.eye(len(names), dtype=bool)
    squares["hatched"] = path(is_unknown & is_off_diagonal, ".5l1-1")
    return _drawing(
        "heat_map",
        key,
        title,
        description,
        width=max(end + 2, margin + 340),
        height=end + 40,
        names=names,
        squares=squares,
        ends=ends,
        side=side,
        margin=margin,
        letters=_LETTERS,
    )


_SIDE = 240
_LEFT = 52
_BOTTOM = 40
_TOP = 8
_RIGHT = 22
Points: TypeAlias = Sequence[tuple[float, float]]


def lines(
    key: str,
    title: str,
    description: str,
    curves: Mapping[str, Points],
    axes: tuple[str, str],
) -> Markup:
    """Returns curves over two axes from 0 to 1.

    Args:
        key: What it is called on the page.
        title: What it shows.
        description: The same in a sentence.
        curves: Points in [0, 1] by the class of their style.
        axes: Names of the axes to the right and upwards.
    """
    paths = {}
    for style, points in curves.items():
        places = (
            f"{_LEFT + x * _SIDE:.1f} {_TOP + (1 - y) * _SIDE:.1f}" for x, y in points
        )
        paths[style] = f"M{'L'.join(places)}"
    return _drawing(
        "lines",
        key,
        title,
        description,
        width=_LEFT + _SIDE + _RIGHT,
        height=_TOP + _SIDE + _BOTTOM,
        curves=paths,
        axes=axes,
        left=_LEFT,
        top=_TOP,
        side=_SIDE,
    )


_MAX_ROWS = 14


@dataclass(frozen=True, kw_only=True)
class Card:
    """One column on a page: its name, a line about it, and its chart."""

    name: str
    description: str
    chart: Chart


def card(
    key: str,
    columns: Sequence[Column],
    cells: Sequence[str],
    shares: tuple[Floats, Floats],
    description: str,
    headings: tuple[str, str],
    *,
    error: float = 0.0,
) -> Card:
    """Returns the card of columns, with the shares of their cells.

    A chart of many cells shows the largest ones and the rest as one, unless a reader
    expects an order, as of numbers or of several columns; its table has them all.

    Args:
        key: What the chart is called on the page.
        columns: The columns.
        cells: Names of their cells.
        shares: What was measured, as bars, and what synthetic records say, as marks,
            (cells,) each.
        description: A line about them.
        headings: What either of the shares is.
        error: Half the length of an error bar.
    """
    name = " × ".join(column.name for column in columns)
    is_ordered = len(columns) > 1 or columns[0].numeric or columns[0].ordered
    rows = [
        Bar(name=cell, value=float(bar), mark=float(mark), error=error)
        for cell, bar, mark in zip(cells, *shares, strict=True)
    ]
    error_text = f" ± {percent(error)}" if error else ""
    drawing = bars(
        key,
        name,
        f"{headings[0]} as bars, {headings[1]} as dots.",
        rows if is_ordered else _largest_rows(rows, error),
    )
    table = [
        (row.name, percent(row.value) + error_text, percent(row.mark or 0.0))
        for row in rows
    ]
    chart = Chart(drawing=drawing, headings=("", *headings), rows=table)
    return Card(name=name, description=description, chart=chart)


def _largest_rows(rows: list[Bar], error: float) -> list[Bar]:
    """Returns the largest rows in their order, and the rest as one."""
    if len(rows) <= _MAX_ROWS + 1:
        return rows
    sizes = [-max(row.value, row.mark or 0.0) for row in rows]
    ranked = np.argsort(sizes, kind="stable")
    rest = [rows[index] for index in ranked[_MAX_ROWS:]]
    others = Bar(
        name=f"{len(rest)} others",
        value=sum(row.value for row in rest),
        mark=sum(row.mark or 0.0 for row in rest),
        error=error * len(rest) ** 0.5,
    )
    return [*(rows[index] for index in sorted(ranked[:_MAX_ROWS])), others]
