"""A page of the documentation as cells: what is said, files that it shows, consoles, and Python."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
HOWTO = sorted([*(DOCS / "howto").glob("*.md"), DOCS / "choosing.md"])
_FENCE = re.compile(
    r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```\n', re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One piece of a page; `name` is the file that a cell of the kind "file" is written to."""

    kind: str
    text: str
    name: str = ""

    def commands(self) -> list[tuple[str, list[str]]]:
        """Returns each command of a console with the lines that it prints."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
        return found


def cells(page: str) -> list[Cell]:
    """Cuts the text of a page into its cells; a block that is neither run nor named stays with what is said."""
    page_cells: list[Cell] = []
    position = 0
    for block in _FENCE.finditer(page):
        language, name, text = block.groups()
        kind = language if language in {"python", "console"} else "file" if name else ""
        if not kind:
            continue
        page_cells += [
            Cell(kind="prose", text=page[position : block.start()]),
            Cell(kind=kind, text=text, name=name or ""),
        ]
        position = block.end()
    page_cells.append(Cell(kind="prose", text=page[position:]))
    return [cell for cell in page_cells if cell.text.strip()]
