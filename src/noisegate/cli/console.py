"""What every verb shares: where to print, how to print JSON, progress, and warnings."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate.methods.method import Method
    from noisegate.models.synthesizer import Synthesizer
    from noisegate.schema import Schema

_MOST_FILES = 20

OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)


def print_json(data: Mapping[str, Any]) -> None:
    """Prints one JSON object to standard output, for programs; NaN and infinity, which JSON lacks, become null."""
    sys.stdout.write(json.dumps(_finite(data), indent=2, allow_nan=False, default=str) + "\n")


def say(text: str) -> None:
    """Prints a line for people to standard error, so that standard output stays for results."""
    ERR.print(escape(text))


def say_files(data: str | Path) -> None:
    """Says which files a folder of tables stands for: one that does not belong there would be read with the others.

    Raises:
        DataError: if there is nothing that can be read.
    """
    from noisegate.data.tables.tables import find_files

    path = Path(data)
    names = [origin.name for origin in find_files(path)]
    if path.is_dir():
        more = [f"and {len(names) - _MOST_FILES:,} more"] if len(names) > _MOST_FILES else []
        say(f"{path} is read as one table of {len(names):,} files: {', '.join([*names[:_MOST_FILES], *more])}")


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


def fit_aloud(method: Method, gate: Gate, *, records: str, sums: str, model: str) -> Synthesizer:
    """Returns the synthesizer of the records behind a gate, and says on the way what happens to them."""
    release = method.query(gate)
    numbers = sum(values.size for values in release.values.values())
    epsilon = release.certificate.epsilon
    say(f"2. The gate: {numbers:,} noisy {sums} left it, epsilon = {epsilon:g}. The {records} are not used again.")
    fitting = method.fitting(release)
    with steps(f"3. Fitting a {model} to the {sums}", fitting.steps) as progress:
        fitting.run(lambda state: progress(state.step, closeness(state.discrepancy)))
    say(f"3. A {model}, fitted to the {sums} in {fitting.step} steps.")
    return method.synthesizer(release, fitting)


def show_files(
    out: Path, files: Mapping[str, str], figures: Mapping[str, Any], text: Any, lines: tuple[str, ...]
) -> None:
    """Prints the figures of a demo and where its files are: as JSON where there is no text for people."""
    if text is None:
        print_json({name: str(out / file) for name, file in files.items()} | dict(figures))
        return
    OUT.print(text, soft_wrap=isinstance(text, str), markup=not isinstance(text, str))
    for line in lines:
        OUT.print(line, soft_wrap=True, markup=False)


def _finite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {str(name): _finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
