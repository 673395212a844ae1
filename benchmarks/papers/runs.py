"""Commands that make the papers' tables and figures, their figures in JSON, and what came of them: runs.toml, results/.

A command writes what it likes to its own folder, where it goes on when it is started again; what is kept in the
repository is a small file of the figures that stand beside the papers'.
"""

from __future__ import annotations

import json
import shlex
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

FILE = Path(__file__).with_name("runs.toml")
RESULTS = Path(__file__).with_name("results")
DATA = ("adult", "cifar10", "mnist", "papers")
"""Folders of data sets that a command may ask for, as {adult}; README.md says what is in each."""

Direction = Literal["higher", "lower", "near"]
Verdict = Literal["reproduced", "better", "short"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a command beside the paper's.

    Attributes:
        name: as the page prints it.
        at: where it stands in the command's JSON: names and numbers of places with dots between, ``*`` for all.
        paper: the published figure; None where there is none.
        tolerance: how far ours may be from it and still be the same.
        better: which way is better.
    """

    name: str
    at: str
    paper: float | None = None
    tolerance: float = 0.0
    better: Direction = "higher"

    def verdict(self, ours: float) -> Verdict | None:
        """Says how our figure stands to the paper's; None where there is none."""
        if self.paper is None:
            return None
        gain = (ours - self.paper) * {"higher": 1, "lower": -1, "near": -1}[self.better]
        if self.better == "near":
            gain = -abs(ours - self.paper)
        if gain < -self.tolerance:
            return "short"
        return "better" if gain > self.tolerance else "reproduced"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A command and the figures that it gives.

    Attributes:
        id: also the name of its file in results/.
        items: ids of items.toml that it belongs to.
        command: from the root, Python's arguments; {out} is its folder, {json} the file of its figures, {mnist} data.
        minutes: that it takes on one core, about.
        protocol: seeds, adjacency, and what is less than in the paper, for the page.
        figures: of its JSON.
    """

    id: str
    items: tuple[str, ...]
    command: str
    minutes: float
    protocol: str
    figures: tuple[Figure, ...]

    @property
    def data(self) -> tuple[str, ...]:
        """Folders of data that the command asks for."""
        return tuple(name for name in DATA if f"{{{name}}}" in self.command)

    def arguments(self, data: Path, out: Path) -> list[str]:
        """Returns the arguments of Python, with the folders in place."""
        places = {name: data / name for name in DATA} | {
            "out": out,
            "json": out / "figures.json",
        }
        return [word.format_map(places) for word in shlex.split(self.command)]

    def shown(self) -> str:
        """Returns the command as a reader would type it."""
        places = {name: f"DATA/{name}" for name in DATA} | {
            "out": "OUT",
            "json": "OUT/figures.json",
        }
        return "python " + self.command.format_map(places)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a command came to.

    Attributes:
        figures: by name, one value for each seed or part.
        date: of the run, as in 2026-11-23.
        seconds: that it took.
        revision: of the program; empty where it is not known.
    """

    figures: Mapping[str, tuple[float, ...]]
    date: str
    seconds: float
    revision: str = ""
    notes: tuple[str, ...] = field(default=())

    def text(self, name: str) -> str:
        """Returns a figure as the page prints it: the mean, the spread of several and how many there were."""
        values = self.figures[name]
        mean = f"{statistics.fmean(values):.4g}"
        return (
            f"{mean} ± {statistics.stdev(values):.2g} ({len(values)})"
            if len(values) > 1
            else mean
        )

    def save(self, path: Path) -> None:
        """Writes it."""
        content = {
            **vars(self),
            "figures": {name: list(values) for name, values in self.figures.items()},
        }
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )


def read_runs(file: Path = FILE) -> tuple[Run, ...]:
    """Returns all commands in the order in which they are worth running.

    Raises:
        ValueError: a field is not known, or missing, or an id stands twice.
    """
    found: dict[str, Run] = {}
    for entry in tomllib.loads(file.read_text(encoding="utf-8"))["run"]:
        try:
            figures = tuple(Figure(**figure) for figure in entry.pop("figures"))
            run = Run(**entry | {"items": tuple(entry["items"]), "figures": figures})
        except (TypeError, KeyError) as error:
            raise ValueError(f"{file.name}, run {entry.get('id')!r}: {error}") from None
        if run.id in found:
            raise ValueError(f"{file.name}: the id {run.id!r} stands twice")
        found[run.id] = run
    return tuple(found.values())


def read_result(run: Run, folder: Path = RESULTS) -> Result | None:
    """Returns what a command came to; None where it was not run."""
    path = folder / f"{run.id}.json"
    if not path.exists():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    content["figures"] = {
        name: tuple(values) for name, values in content["figures"].items()
    }
    return Result(**content | {"notes": tuple(content.get("notes", ()))})


def figures_of(run: Run, content: Any) -> dict[str, tuple[float, ...]]:
    """Returns the figures of a command from its JSON.

    Raises:
        ValueError: one of them is not there, or is no number.
    """
    found = {}
    for figure in run.figures:
        values = list(_at(content, figure.at.split(".")))
        if not values or not all(isinstance(value, int | float) for value in values):
            raise ValueError(
                f"{run.id}: its JSON has no number at {figure.at!r} for {figure.name!r}"
            )
        found[figure.name] = tuple(float(value) for value in values)
    return found


def _at(content: Any, path: Sequence[str]) -> list[Any]:
    """The values at a place; none where there is no such place."""
    if not path:
        return [content]
    first, rest = path[0], path[1:]
    if first == "*":
        parts = (
            content.values()
            if isinstance(content, dict)
            else content
            if isinstance(content, list)
            else ()
        )
        return [value for part in parts for value in _at(part, rest)]
    if (
        isinstance(content, list)
        and first.lstrip("-").isdigit()
        and -len(content) <= int(first) < len(content)
    ):
        return _at(content[int(first)], rest)
    return (
        _at(content[first], rest)
        if isinstance(content, dict) and first in content
        else []
    )
