"""What the papers have, item by item, and the state of each: items.toml, read and checked."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("items.toml")
ROOT = FILE.parents[2]
STATES = {
    "reproduced": "our figure, by our protocol, is within the paper's own spread",
    "better": "beyond the paper, in its figure or in what is guaranteed",
    "faithful": "what is described is there, as described (for what has no figure)",
    "short": "there in part, or below the paper's figure: the note says what is missing",
    "not run": "the code is there and no figure yet: the note says why",
    "unobtainable": "data or weights cannot be had here: the note says which",
    "left out": "not built, on purpose: the note says why",
}
SECTIONS = {
    "algorithms": "Algorithms, variants, options, ablations",
    "baselines": "Baselines",
    "data": "Data sets",
    "tables": "Tables and figures",
    "metrics": "Metrics",
    "theory": "Theory",
}
_PATH = re.compile(r"(?<![\w/])(?:benchmarks|docs|src|tests)/[\w./-]*[\w/]")


@dataclass(frozen=True, kw_only=True)
class Item:
    """One item of the papers; the head of items.toml says what each field holds."""

    id: str
    section: str
    item: str
    source: str
    state: str
    where: tuple[str, ...] = ()
    command: str = ""
    paper: str = ""
    ours: str = ""
    note: str = ""

    def wrong(self, root: Path = ROOT) -> Iterator[str]:
        """Says what is wrong with it, a sentence each: a state that is none, a reason or a file that is not there."""
        if self.state not in STATES:
            yield f"{self.id}: state {self.state!r}; expected one of {', '.join(STATES)}"
        if self.section not in SECTIONS:
            yield f"{self.id}: section {self.section!r}; expected one of {', '.join(SECTIONS)}"
        if (
            self.state in ("short", "not run", "unobtainable", "left out")
            and not self.note
        ):
            yield f"{self.id}: state {self.state!r} without a note; say what is missing"
        if (
            self.state in ("reproduced", "better", "faithful", "not run")
            and not self.where
        ):
            yield f"{self.id}: state {self.state!r} without `where`; name the files that hold it"
        said = " ".join((*self.where, self.command, self.note))
        for path in dict.fromkeys((*self.where, *_PATH.findall(said))):
            if not (root / path).exists():
                yield f"{self.id}: {path} is not there; name the file as it is called now"


def read_items(file: Path = FILE) -> tuple[Item, ...]:
    """Returns all items in the order of the file.

    Raises:
        ValueError: a field is not known, or missing, or an id stands twice.
    """
    found: dict[str, Item] = {}
    for entry in tomllib.loads(file.read_text(encoding="utf-8"))["item"]:
        item = _item(entry)
        if item.id in found:
            raise ValueError(f"{file.name}: the id {item.id!r} stands twice")
        found[item.id] = item
    return tuple(found.values())


def _item(entry: dict[str, Any]) -> Item:
    try:
        return Item(**entry | {"where": tuple(entry.get("where", ()))})
    except TypeError as error:
        raise ValueError(f"{FILE.name}, item {entry.get('id')!r}: {error}") from None
