"""`noisegate report`: pages of a model to look at; the public one may be handed on, the private one may not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from noisegate.cli.console import ERR, OUT, print_json, say_files, steps
from noisegate.cli.options import Json
from noisegate.progress import spinner


def report_command(
    model: Annotated[Path, typer.Argument(help="Folder that `noisegate fit --out` wrote.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the pages; pages in it are replaced.")],
    test: Annotated[
        Path | None, typer.Option(help="Real records that the fit did not use: also makes the private page.")
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(help="Real records that the fit used: adds what they reach themselves, and looks for copies."),
    ] = None,
    classifiers: Annotated[
        str | None,
        typer.Option(help="For the private page, as in `noisegate evaluate`. Default: three; of images cnn."),
    ] = None,
    show_values: Annotated[bool, typer.Option("--show-values", help="Let errors quote private values.")] = False,
    as_json: Json = False,
) -> None:
    """Make the pages of a model: self-contained HTML files, without scripts, that load nothing.

    public.html follows from the model alone: what is promised, what was asked, how far the copy can be relied on. With
    --test, private.html compares it with real records, outside the guarantee; keep that one.

    Example: `noisegate report model -o pages`, or `noisegate report model -o pages --test real_test.csv`
    """
    from noisegate_evaluate.pages import report

    for path in (test, train):
        if path is not None and path.is_dir():
            _say_folder(path)
    asked: dict[str, Any] = {"test": test, "train": train, "classifiers": classifiers, "show_values": show_values}
    if test is None:
        with ERR.status("Drawing the page", spinner=spinner(ERR)):
            made = report(model, out=out, **asked)
    else:
        with steps("Training classifiers and comparing", None) as update:
            made = report(
                model, out=out, progress=lambda name, done, of: update(done, f"{done} of {of}, {name}"), **asked
            )
    if as_json:
        told = {"public": str(made.public), "private": None if made.private is None else str(made.private)}
        print_json(told | {"evaluation": None if made.evaluation is None else made.evaluation.to_json()})
        return
    OUT.print(f"May be published: {made.public}", soft_wrap=True, markup=False)
    if made.private is not None:
        OUT.print(f"PRIVATE, keep it: {made.private}", soft_wrap=True, markup=False)


def _say_folder(path: Path) -> None:
    """Says which files a folder of tables stands for; a folder of images stands for itself."""
    from noisegate.errors import DataError

    try:
        say_files(path)
    except DataError:
        return
