"""A schema and its columns in words, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noisegate.cards import ResultCard, Sheet
from noisegate.schema.coded import Boolean, Categorical, Ordinal
from noisegate.schema.columns import Column

HEADINGS = ("column", "kind", "range", "missing", "role")


def row_of(column: Column, label: str | None) -> list[str]:
    """Returns the name and kind of a column, its range, whether it may be missing, and whether it is the label."""
    if isinstance(column, Boolean | Ordinal | Categorical):
        span = f"{column.size - column.missing} levels"
    else:
        step = getattr(column, "step", None)
        span = f"{column.lower} to {column.upper}" + (f" by {step:g}" if step is not None else "")
        span += f"; atoms {', '.join(map(str, column.atoms))}" if column.atoms else ""
    return [column.name, column.kind, span, "allowed" if column.missing else "no", "label" * (column.name == label)]


def columns_card(columns: Sequence[Column], label: str | None, constraints: Sequence[Any]) -> ResultCard:
    """Returns the card of a schema of a table."""
    rows = [row_of(column, label) for column in columns]
    sheets = [Sheet(title=f"{len(rows):,} columns", headings=HEADINGS, rows=rows)]
    title = f"Schema: {len(rows):,} columns" + ("" if label is None else f", label {label!r}")
    if constraints:
        rules = [[str(one)] for one in constraints]
        sheets.append(Sheet(title=f"{len(rules):,} constraints", headings=["what records keep to"], rows=rules))
        title += f", {len(rules):,} constraints"
    missing = {"allowed": ", may be missing", "no": ""}
    facts = {name: f"{kind}, {span}{missing[may]}" for name, kind, span, may, _ in rows}
    return ResultCard(title=title, facts=facts, sheets=sheets)
