"""`noisegate report`: pages of a model."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from noisegate.app.cli.console import (
    OUT,
    announce_files,
    print_json,
    show_progress,
    show_verdict,
)
from noisegate.app.cli.options import Json
from noisegate.errors import DataError
from noisegate_evaluate.cli.evaluate import Owner, Purpose, Title


def report_command(
    model: Annotated[Path, Argument(help="Folder that `noisegate fit --out` wrote.")],
    out: Annotated[
        Path,
        Option("--out", "-o", help="Folder of the pages; pages in it are replaced."),
    ],
    test: Annotated[
        Path | None,
        Option(
            help="Real records that the fit did not use: also makes the private page."
        ),
    ] = None,
    train: Annotated[
        Path | None,
        Option(
            help="Real records that the fit used: adds what they reach themselves, and looks for copies."
        ),
    ] = None,
    classifiers: Annotated[
        str | None,
        Option(
            help="For the private page, as in `noisegate evaluate`. Default: three; of images cnn."
        ),
    ] = None,
    title: Title = None,
    owner: Owner = None,
    purpose: Purpose = None,
    show_values: Annotated[
        bool, Option("--show-values", help="Let errors quote private values.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make the pages of a model: self-contained HTML files, without scripts, that load nothing.

    public.html follows from the model alone: the guarantee, the queries run, how far the copy can be relied on. With
    --test, private.html compares it with real records, outside the guarantee; keep that one.

    Example: `noisegate report model -o pages`, or `noisegate report model -o pages --test real_test.csv`
    """
    from noisegate_evaluate.pages import report

    for path in (test, train):
        if path is not None and path.is_dir():
            with suppress(DataError):  # a folder of images stands for itself
                announce_files(path)
    doing = "Drawing the page"
    if test is not None:
        doing = "Training classifiers and comparing"
    with show_progress(doing, None) as update:
        pages = report(
            model,
            out=out,
            test=test,
            train=train,
            classifiers=classifiers,
            title=title,
            owner=owner,
            purpose=purpose,
            show_values=show_values,
            progress=lambda name, done, of: update(done, f"{done} of {of}, {name}"),
        )
    if as_json:
        evaluation = pages.evaluation
        print_json(
            {
                "public": str(pages.public),
                "private": None if pages.private is None else str(pages.private),
                "evaluation": None if evaluation is None else evaluation.to_json(),
            }
        )
        return
    if pages.evaluation is not None:
        show_verdict(pages.evaluation.verdict)
    OUT.print(f"May be published: {pages.public}", soft_wrap=True, markup=False)
    if pages.private is not None:
        OUT.print(f"PRIVATE, keep it: {pages.private}", soft_wrap=True, markup=False)
