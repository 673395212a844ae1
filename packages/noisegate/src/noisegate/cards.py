"""How results show themselves: lines in a terminal, small tables in a notebook. No script, and nothing is fetched."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

MOST_LINES = 10
"""Of the text of a card, its title included."""
_WIDEST = 118
_MOST_ROWS = 500
_CELL = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table of texts with its title and headings."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, kw_only=True, repr=False)
class ResultCard:
    """What a result says of itself; it shows itself too."""

    title: str  # one line
    facts: Mapping[str, str] = field(
        default_factory=dict
    )  # by name; a terminal shows the first ones
    sheets: Sequence[Sheet] = ()  # tables that only a notebook shows, folded
    notes: Sequence[
        str
    ] = ()  # sentences that must not be overlooked; they end the text
    whole: bool = False  # the text leaves nothing out

    def text(self) -> str:
        """The card in at most `MOST_LINES` lines, or whole."""
        notes = [f"  {note}" for note in self.notes]
        room, wide = MOST_LINES - 1 - len(notes), max(map(len, self.facts), default=0)
        facts = [
            f"  {name:<{min(wide, 24)}}  {told}" for name, told in self.facts.items()
        ]
        if len(facts) > room and not self.whole:
            facts = [*facts[: room - 1], f"  ... and {len(facts) - room + 1:,} more"]
        lines = (" ".join(line.splitlines()) for line in (self.title, *facts, *notes))
        return "\n".join(
            line if self.whole or len(line) <= _WIDEST else f"{line[: _WIDEST - 4]} ..."
            for line in lines
        )

    def html(self) -> str:
        """The card as a fragment of HTML: every text in it is escaped."""
        facts = "".join(
            f'<tr><th style="{_CELL}">{escape(name)}</th><td style="{_CELL}">{escape(told)}</td></tr>'
            for name, told in self.facts.items()
        )
        parts = [
            f"<strong>{escape(self.title)}</strong>",
            f"<table>{facts}</table>" if facts else "",
        ]
        parts += [f"<p>{escape(note)}</p>" for note in self.notes]
        return f"<div>{''.join([*parts, *map(_sheet_html, self.sheets)])}</div>"

    __repr__, _repr_html_ = text, html


class Shown(ABC):
    """A base of results that show themselves as a card, in a terminal and in a notebook."""

    @abstractmethod
    def card(self) -> ResultCard:
        """What it says of itself."""

    def __repr__(self) -> str:
        return self.card().text()

    def _repr_html_(self) -> str:
        return self.card().html()


def _sheet_html(sheet: Sheet) -> str:
    rows = [
        _row("th", sheet.headings),
        *(_row("td", row) for row in sheet.rows[:_MOST_ROWS]),
    ]
    left_out = len(sheet.rows) - _MOST_ROWS
    more = f"<p>and {left_out:,} more rows</p>" if left_out > 0 else ""
    return f"<details><summary>{escape(sheet.title)}</summary><table>{''.join(rows)}</table>{more}</details>"


def _row(tag: str, cells: Sequence[Any]) -> str:
    return (
        "<tr>"
        + "".join(
            f'<{tag} style="{_CELL}">{escape(str(cell))}</{tag}>' for cell in cells
        )
        + "</tr>"
    )
