"""What every verb shares: where to print, how to print JSON, progress, and warnings."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from noisegate.schema import Schema

OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)


def print_json(data: Mapping[str, Any]) -> None:
    """Prints one JSON object to standard output, for programs; NaN and infinity, which JSON lacks, become null."""
    sys.stdout.write(json.dumps(_finite(data), indent=2, allow_nan=False, default=str) + "\n")


def say(text: str) -> None:
    """Prints a line for people to standard error, so that standard output stays for results."""
    ERR.print(escape(text))


def warn(text: str) -> None:
    """Prints a warning to standard error."""
    ERR.print(f"[yellow]warning:[/yellow] {escape(text)}")


def warn_about_constraints(schema: Schema) -> None:
    """Warns where the constraints leave so few records that sampling may be refused."""
    why = schema.hardly_satisfiable
    if why is not None:
        warn(why)


def table(title: str, columns: Mapping[str, str], rows: list[list[str]]) -> Table:
    """Returns a table that stays legible at 80 columns and in a file; `columns` maps headings to "left" or "right"."""
    result = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=box.SIMPLE_HEAD)
    result.show_edge, result.padding = False, (0, 1, 0, 0)
    for heading, side in columns.items():
        result.add_column(heading, justify="right" if side == "right" else "left", overflow="fold")
    for row in rows:
        result.add_row(*map(escape, row))
    return result


def closeness(discrepancy: float) -> str:
    """Returns how close a fit is to its release, for a progress line; nothing before it was measured."""
    return f"distance / noise {discrepancy:.2f}" if math.isfinite(discrepancy) else ""


@contextmanager
def steps(title: str, total: int | None) -> Iterator[Callable[[int, str], None]]:
    """Shows progress; yields a function that takes how many are done and a note. Without `total`, the note says all."""
    counted = [] if total is None else [MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        *counted,
        TextColumn("{task.fields[note]}"),
        console=ERR,
        transient=True,
        disable=not ERR.is_terminal,
    ) as bar:
        task = bar.add_task(title, total=total, note="")

        def update(done: int, note: str) -> None:
            bar.update(task, completed=done, note=note)

        yield update


def _finite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {str(name): _finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
