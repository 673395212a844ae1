"""What every verb shares: where and how it prints results, progress and warnings.

Results go to standard output, so that they can be piped; all else goes to standard
error::

    OUT, print_json ──► standard output   results: a table, a sentence, one JSON object
    say ──────────────► standard error    what the operator may know
    show_progress ────► standard error    a bar, or a line now and then
    warn ─────────────► standard error    what the operator must know

With --quiet, `ERR` prints nothing: what is said and shown is left out, in every verb.
Warnings, errors and results remain.

Nothing here imports NumPy or Arrow: verbs such as `ledger show` answer at once.
"""

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

from noisegate.atomic import shown_path
from noisegate.errors import OptionError
from noisegate.progress import Tell, bar, progress_lines, shows_bars

if TYPE_CHECKING:
    from noisegate.answers.verdict import Verdict
    from noisegate.schema import Schema

_MAX_FILES_NAMED = 20
"""Names of the files of a folder that are listed at most."""
_NOTABLE_BYTES = 2**29
"""Memory of a fit from which on it is stated: half a gibibyte fits any machine."""
_MAY_BE_BLANK = {"label"}
"""Parameters for which a blank value means something: images without labels have
``--label ''``."""


class _PatientConsole(Console):
    """A console that continues in silence when nobody reads its output any more.

    The work may be half paid for by then, so a closed pipe must not stop it.
    """

    def on_broken_pipe(self) -> None:
        """Drops what is still to be written; rich would end the process."""
        discard_output(self.file)
        self._buffer.clear()


def discard_output(stream: IO[str]) -> None:
    """Lets a stream swallow what is left in its buffer, and all that follows.

    The interpreter flushes the standard streams once more at its end; that must not
    fail a second time.

    Args:
        stream: A stream with a file descriptor, which is redirected to the null device.
    """
    null_device = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, stream.fileno())
    os.close(null_device)


OUT = _PatientConsole(highlight=False)
"""For results: standard output."""
ERR = _PatientConsole(stderr=True, highlight=False)
"""For what an operator reads beside the results: standard error. Silent if quiet."""
_ALERTS = _PatientConsole(stderr=True, highlight=False)
"""For warnings of a quiet verb."""


def be_quiet(context: Any, _option: Any, is_typed: bool) -> None:
    """Silences remarks and progress until a verb ends: the callback of --quiet.

    Args:
        context: Context of the verb.
        is_typed: Whether --quiet is on the command line.
    """
    if is_typed:
        ERR.quiet = True
        context.call_on_close(_speak)


def _speak() -> None:
    """Lets remarks and progress be printed again."""
    ERR.quiet = False


def print_json(data: Mapping[str, Any]) -> None:
    """Prints one JSON object to standard output, for programs.

    Args:
        data: The object. NaN and infinity, which JSON lacks, become null; other values
            that JSON lacks, such as paths, become text.

    Examples:
        >>> from noisegate.app.cli.console import print_json
        >>> print_json({"epsilon": 1.0, "remaining": float("inf")})
        {
          "epsilon": 1.0,
          "remaining": null
        }
    """
    text = json.dumps(_without_nonfinite(data), indent=2, allow_nan=False, default=str)
    sys.stdout.write(text + "\n")


def _without_nonfinite(value: Any) -> Any:
    """Returns a JSON value with null in place of NaN and infinity, at any depth."""
    if isinstance(value, Mapping):
        return {str(name): _without_nonfinite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nonfinite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def say(text: str) -> None:
    """Prints a line for people to standard error, so that results stand alone."""
    ERR.print(escape(text))


def warn(text: str) -> None:
    """Prints a warning to standard error."""
    # A bar and a line of one console do not disturb each other.
    console = _ALERTS if ERR.quiet else ERR
    console.print(f"[yellow]warning:[/yellow] {escape(text)}")


def warn_about_constraints(schema: Schema) -> None:
    """Warns if so few records meet the constraints that sampling may be refused."""
    if schema.hardly_satisfiable is not None:
        warn(schema.hardly_satisfiable)


def warn_about_delta(delta: float, records: float | None) -> None:
    """Warns if δ is no longer small beside one record.

    Args:
        delta: δ of the guarantee.
        records: Number of records, public or noisy; None if it is not known.
    """
    if records is not None and delta >= 1 / records:
        warn(
            f"delta={delta:g} is at least 1/(number of records) = {1 / records:.3g}: "
            "publishing one record outright would satisfy such a guarantee. Choose a "
            "smaller --delta."
        )


def show_verdict(verdict: Verdict | None) -> None:
    """Prints a verdict for people; nothing if there is none."""
    if verdict is not None:
        OUT.print(verdict.render())


def announce_files(data: str | Path) -> None:
    """Lists the files that a folder of one table stands for, before they are read.

    A file that does not belong there would be read with the others, and nobody would
    notice. A single file is not announced.

    Args:
        data: Path of a file or folder, or its address in an object store.
    """
    from noisegate.sources.stores import in_store
    from noisegate.sources.tables.tables import ANY_TEXT, find_files

    path = Path(data)
    names = [origin.name for origin in find_files(path, ANY_TEXT)]
    is_folder = path.is_dir() or (len(names) > 1 and in_store(path))
    if not is_folder:
        return
    listed = names[:_MAX_FILES_NAMED]
    unlisted_count = len(names) - len(listed)
    if unlisted_count:
        listed.append(f"and {unlisted_count:,} more")
    say(
        f"{shown_path(path)} is read as one table of {len(names):,} files: "
        f"{', '.join(listed)}"
    )


def table(title: str, columns: Mapping[str, str], rows: list[list[str]]) -> Table:
    """Lays out a table that stays legible at 80 columns and in a file.

    Args:
        title: Printed above the table.
        columns: The headings in order, each with the side to which its cells are
            aligned, "left" or "right": ``{"query": "left", "noise": "right"}``.
        rows: Cells of each row, as many as there are headings; markup in them is
            printed as it stands.

    Returns:
        The table, for `OUT.print`. Cells that are too long are folded.
    """
    laid_out = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for heading, side in columns.items():
        laid_out.add_column(
            heading, justify="right" if side == "right" else "left", overflow="fold"
        )
    for row in rows:
        laid_out.add_row(*map(escape, row))
    return laid_out


def show_progress(title: str, total: int | None) -> AbstractContextManager[Tell]:
    """Shows how far a piece of work is, on standard error.

    A terminal shows a bar. Elsewhere, as in a scheduler's log, a line follows every
    half minute.

    Args:
        title: What is done, as in "Sampling".
        total: Amount of work; None if it is not known.

    Returns:
        A block of work. It yields a function that takes the amount done and a note.
    """
    if shows_bars(ERR):
        return bar(title, total, ERR)
    return progress_lines(title, total, ERR)


class VerbGroup(typer.core.TyperGroup):
    """A group of verbs that refuse blank values.

    A blank path would be the current folder, and a blank name nobody's: most come from
    a variable of a shell script that was not set.
    """

    # Typer brings its own copy of click or uses the installed one, so a context and a
    # command have no class that could be named here.
    def resolve_command(
        self, ctx: Any, args: list[str]
    ) -> tuple[str | None, Any, list[str]]:
        """Returns the verb that is called, with its values checked.

        Args:
            ctx: Context of the group.
            args: The words behind the group on the command line.

        Returns:
            The verb's name, the verb, and the words behind it.

        Raises:
            OptionError: if a value is blank.
        """
        name, command, following = super().resolve_command(ctx, args)
        is_group = isinstance(command, typer.core.TyperGroup)
        # While the shell completes a line, an option may still lack its value.
        is_completing = ctx.resilient_parsing
        if command is not None and not is_group and not is_completing:
            context = command.context_class(command, info_name=name, parent=ctx)
            _refuse_blank_values(command, context, following)
        return name, command, following


def _refuse_blank_values(command: Any, context: Any, arguments: list[str]) -> None:
    """Raises an OptionError that names the first option with a blank value."""
    values, _, _ = command.make_parser(context).parse_args(list(arguments))
    for parameter in command.params:
        if parameter.name in _MAY_BE_BLANK:
            continue
        value = values.get(parameter.name)
        texts = value if isinstance(value, list | tuple) else [value]
        blank_texts = [
            text for text in texts if isinstance(text, str) and not text.strip()
        ]
        if blank_texts:
            raise OptionError(
                f"{_shown_name(parameter)} {blank_texts[0]!r} is empty; give a value, "
                "or leave it out."
            )


def _shown_name(parameter: Any) -> str:
    """Returns how help calls a parameter of a verb: ``--out``, or ``DATA``."""
    if parameter.param_type_name == "option":
        return str(parameter.opts[0])
    return str(parameter.metavar or parameter.name.upper())


def describe_images(schema: Schema) -> str:
    """Returns the schema of images in words.

    Args:
        schema: A schema whose `images` is set.

    Returns:
        Their size, labels and rules, without a full stop, as in "images of 28 x 28 x 1
        pixels without labels; those of another size: refuse". Of large images also the
        memory that a fit takes.
    """
    from noisegate.schema.pixels import estimated_fit_bytes

    image_form = schema.images
    assert image_form is not None
    labels = "without labels"
    if image_form.label is not None:
        labels = f"with {len(image_form.labels)} labels in {image_form.label!r}"
    parts = [
        f"images of {image_form.shape} pixels {labels}",
        f"those of another size: {image_form.resize}",
    ]
    if image_form.convert:
        parts.append("grey and colour are converted")
    fit_bytes = estimated_fit_bytes(image_form.shape)
    if fit_bytes > _NOTABLE_BYTES:
        parts.append(f"a fit to them takes about {fit_bytes / 1e9:,.1f} GB of memory")
    return "; ".join(parts)
