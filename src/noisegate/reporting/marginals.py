"""Single columns as charts: bars of what was measured, marks of what the synthetic records say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisegate.reporting.charts import Bar, Chart, bars
from noisegate.reporting.page import percent
from noisegate.reporting.released import Floats
from noisegate.schema import Column, NumericColumn, Ordinal

_MOST_ROWS = 14


@dataclass(frozen=True, kw_only=True)
class Card:
    """One column on a page: its name, a line about it, and its chart."""

    name: str
    told: str
    chart: Chart


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Shares of one column, cell by cell.

    Attributes:
        column: Its name.
        cells: Their names.
        bars: What was measured.
        marks: What the synthetic records say.
        error: Half of an error bar; 0 for none.
        ordered: Whether cells keep their order where not all of them fit.
    """

    column: str
    cells: Sequence[str]
    bars: Floats
    marks: Floats
    error: float = 0.0
    ordered: bool = False


def ordered(column: Column) -> bool:
    """Returns whether the cells of a column have an order that a reader expects."""
    return isinstance(column, NumericColumn | Ordinal)


def card(key: str, shown: Compared, told: str, headings: tuple[str, str]) -> Card:
    """Returns the card of a column; `headings` name what is measured and what is compared with it.

    A chart of many cells shows the largest ones and the rest as one; the table has them all.
    """
    rows = [
        Bar(name=name, value=float(bar), mark=float(mark), error=shown.error)
        for name, bar, mark in zip(shown.cells, shown.bars, shown.marks, strict=True)
    ]
    between = f" ± {percent(shown.error)}" if shown.error else ""
    table = [(row.name, percent(row.value) + between, percent(row.mark or 0.0)) for row in rows]
    drawn = bars(key, shown.column, f"{told} {headings[0]} as bars, {headings[1]} as dots.", _fitting(shown, rows))
    return Card(
        name=shown.column,
        told=told,
        chart=Chart(drawing=drawn, headings=("", *headings), rows=table),
    )


def _fitting(shown: Compared, rows: list[Bar]) -> list[Bar]:
    if len(rows) <= _MOST_ROWS + 1 or shown.ordered:
        return rows
    ranked = np.argsort([-max(row.value, row.mark or 0.0) for row in rows], kind="stable")
    kept, rest = sorted(ranked[:_MOST_ROWS]), [rows[place] for place in ranked[_MOST_ROWS:]]
    many = len(rest)
    together = Bar(
        name=f"{many} others",
        value=sum(row.value for row in rest),
        mark=sum(row.mark or 0.0 for row in rest),
        error=shown.error * many**0.5,
    )
    return [*(rows[place] for place in kept), together]
