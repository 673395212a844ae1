"""What every verb shares: where to print, how to print JSON, progress and warnings."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from noisegate.errors import OptionError
from noisegate.progress import Tell, bar

if TYPE_CHECKING:
    from noisegate.answers.verdict import Verdict
    from noisegate.schema import Schema

_MOST_FILES = 20
_MAY_BE_EMPTY = {"label"}  # images without labels have --label ''


class _Patient(Console):
    """A console that goes on in silence when nobody reads any more: what runs may be half paid for."""

    def on_broken_pipe(self) -> None:
        discard(self.file)
        self._buffer.clear()


def discard(stream: IO[str]) -> None:
    """Lets a stream swallow what is left in it and all that follows; it must not fail again at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


_MUCH = 2**29  # bytes of memory that are worth telling
OUT = _Patient(highlight=False)
ERR = _Patient(stderr=True, highlight=False)


def print_json(data: Mapping[str, Any]) -> None:
    """Prints one JSON object to standard output, for programs; NaN and infinity, which JSON lacks, become null."""
    sys.stdout.write(
        json.dumps(_finite(data), indent=2, allow_nan=False, default=str) + "\n"
    )


def _finite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {str(name): _finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def say(text: str) -> None:
    """Prints a line for people to standard error, so that standard output stays for results."""
    ERR.print(escape(text))


def warn(text: str) -> None:
    """Prints a warning to standard error."""
    ERR.print(f"[yellow]warning:[/yellow] {escape(text)}")


def warn_about_constraints(schema: Schema) -> None:
    """Warns where the constraints leave so few records that sampling may be refused."""
    if schema.hardly_satisfiable is not None:
        warn(schema.hardly_satisfiable)


def show_verdict(verdict: Verdict | None) -> None:
    """Prints a verdict for people; nothing where there is none."""
    if verdict is not None:
        OUT.print(verdict.render())


def say_files(data: str | Path) -> None:
    """Says which files a folder of tables stands for: one that does not belong there would be read with the others."""
    from noisegate.sources.stores import in_store, shown_path
    from noisegate.sources.tables.tables import find_files

    path = Path(data)
    names = [origin.name for origin in find_files(path)]
    if path.is_dir() or (in_store(path) and len(names) > 1):
        more = (
            [f"and {len(names) - _MOST_FILES:,} more"]
            if len(names) > _MOST_FILES
            else []
        )
        say(
            f"{shown_path(path)} is read as one table of {len(names):,} files: "
            f"{', '.join([*names[:_MOST_FILES], *more])}"
        )


def table(title: str, columns: Mapping[str, str], rows: list[list[str]]) -> Table:
    """Returns a table that stays legible at 80 columns and in a file; `columns` maps headings to "left" or "right"."""
    result = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=box.SIMPLE_HEAD,
    )
    result.show_edge, result.padding = False, (0, 1, 0, 0)
    for heading, side in columns.items():
        result.add_column(
            heading, justify="right" if side == "right" else "left", overflow="fold"
        )
    for row in rows:
        result.add_row(*map(escape, row))
    return result


def steps(title: str, total: int | None) -> AbstractContextManager[Tell]:
    """Shows progress on standard error; see `noisegate.progress.bar`."""
    return bar(title, total, ERR)


class Verbs(typer.core.TyperGroup):
    """A group whose verbs get no blank value, which as a path would be the current folder."""

    def resolve_command(
        self, ctx: Any, args: list[str]
    ) -> tuple[str | None, Any, list[str]]:
        """Returns the verb that is asked for, after a look at what follows it."""
        name, command, following = super().resolve_command(ctx, args)
        # While the shell completes a line, an option may still lack its value.
        if (
            command is not None
            and not isinstance(command, typer.core.TyperGroup)
            and not ctx.resilient_parsing
        ):
            _refuse_blank(
                command,
                command.context_class(command, info_name=name, parent=ctx),
                following,
            )
        return name, command, following


def _refuse_blank(command: Any, ctx: Any, following: list[str]) -> None:
    given, _, _ = command.make_parser(ctx).parse_args(list(following))
    for parameter in command.params:
        value = given.get(parameter.name)
        option = parameter.param_type_name == "option"
        shown = (
            parameter.opts[0] if option else parameter.metavar or parameter.name.upper()
        )
        texts = value if isinstance(value, list | tuple) else [value]
        blank = [text for text in texts if isinstance(text, str) and not text.strip()]
        if blank and parameter.name not in _MAY_BE_EMPTY:
            raise OptionError(
                f"{shown} {blank[0]!r} is empty; give a value, or leave it out."
            )


def pictured(schema: Schema) -> str:
    """Returns in words what a schema of images says, and the memory that reading large ones takes."""
    from noisegate.schema.pixels import estimated_fit_bytes

    form = schema.images
    assert form is not None
    labels = (
        f"with {len(form.labels)} labels in {form.label!r}"
        if form.label is not None
        else "without labels"
    )
    converted = "; grey and colour are converted" if form.convert else ""
    needed = estimated_fit_bytes(form.shape)
    memory = (
        f"; a fit to them takes about {needed / 1e9:,.1f} GB of memory"
        if needed > _MUCH
        else ""
    )
    return f"images of {form.shape} pixels {labels}; those of another size: {form.resize}{converted}{memory}"
