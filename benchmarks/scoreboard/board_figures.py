"""The sets, the figures and the lines of the scoreboard; board.toml says what each is, and which way is better.

Nothing but the standard library is imported here: `run.py` stays small, since the peak
memory of a process counts that of the process which started it.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results.jsonl"
EPSILON, DELTA = 1.0, 1e-5


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of one release.

    Attributes:
        title: Its name in tables.
        better: "higher" or "lower".
        definition: What it is, in one line.
        digits: Digits after the point in tables.
        min_change: A difference of a smaller part of the earlier mean is never marked.
    """

    title: str
    better: str
    definition: str
    digits: int = 4
    min_change: float = 0.0

    @property
    def higher_is_better(self) -> bool:
        """Whether more of it is better."""
        return self.better == "higher"


_BOARD = tomllib.loads(Path(__file__).with_name("board.toml").read_text("utf-8"))
FIGURES = {name: Figure(**entry) for name, entry in _BOARD["figures"].items()}
COSTS = ("cpu_seconds", "peak_megabytes")
"""Figures that are compared only between runs of one machine."""


@dataclass(frozen=True, kw_only=True)
class BoardSet:
    """A set of records.

    Attributes:
        description: What it is, in one line.
        is_linked: Whether it has several tables.
        is_on_board: Whether it is run unless others are named.
    """

    description: str
    is_linked: bool = False
    is_on_board: bool = True


SETS = {name: BoardSet(**entry) for name, entry in _BOARD["sets"].items()}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Returns all lines of a file of results, one a release; none where there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
