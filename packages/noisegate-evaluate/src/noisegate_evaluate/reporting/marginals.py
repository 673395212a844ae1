"""Single columns as charts: bars of what was measured, marks of what the synthetic records say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisegate.schema import Column, NumericColumn, Ordinal
from noisegate_evaluate.reporting.charts import Bar, Chart, bars
from noisegate_evaluate.reporting.page import percent
from noisegate_evaluate.reporting.released import Floats

_MOST_ROWS = 14


@dataclass(frozen=True, kw_only=True)
class Card:
    """One column on a page: its name, a line about it, and its chart."""

    name: str
    told: str
    chart: Chart


def ordered(column: Column) -> bool:
    """Returns whether the cells of a column have an order that a reader expects."""
    return isinstance(column, NumericColumn | Ordinal)


def card(
    key: str,
    column: str,
    cells: Sequence[str],
    shares: tuple[Floats, Floats],
    told: str,
    headings: tuple[str, str],
    *,
    error: float = 0.0,
    ordered: bool = False,
) -> Card:
    """Returns the card of a column: `shares` are what was measured, as bars, and what synthetic records say, as marks.

    A chart of many cells shows the largest ones and the rest as one, unless they are ordered; the table has them all.
    `error` is half of an error bar.
    """
    rows = [
        Bar(name=name, value=float(bar), mark=float(mark), error=error)
        for name, bar, mark in zip(cells, *shares, strict=True)
    ]
    between = f" ± {percent(error)}" if error else ""
    table = [(row.name, percent(row.value) + between, percent(row.mark or 0.0)) for row in rows]
    drawn = bars(
        key, column, f"{told} {headings[0]} as bars, {headings[1]} as dots.", rows if ordered else _fitting(rows, error)
    )
    return Card(name=column, told=told, chart=Chart(drawing=drawn, headings=("", *headings), rows=table))


def _fitting(rows: list[Bar], error: float) -> list[Bar]:
    if len(rows) <= _MOST_ROWS + 1:
        return rows
    ranked = np.argsort([-max(row.value, row.mark or 0.0) for row in rows], kind="stable")
    kept, rest = sorted(ranked[:_MOST_ROWS]), [rows[place] for place in ranked[_MOST_ROWS:]]
    together = Bar(
        name=f"{len(rest)} others",
        value=sum(row.value for row in rest),
        mark=sum(row.mark or 0.0 for row in rest),
        error=error * len(rest) ** 0.5,
    )
    return [*(rows[place] for place in kept), together]
