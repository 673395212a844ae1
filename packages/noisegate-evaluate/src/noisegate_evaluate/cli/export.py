"""`noisegate export`: a model's statements as the registry of deployments and NIST SP 800-226 ask for them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noisegate.app.cli.console import OUT, print_json
from noisegate.app.cli.options import Json
from noisegate.errors import OptionError


def export_command(
    model: Annotated[
        Path, typer.Argument(help="Folder that `noisegate fit --out` or `merge` wrote.")
    ],
    registry: Annotated[
        Path | None,
        typer.Option(
            help="Write an entry for the registry of deployments of differential privacy: a .yaml file."
        ),
    ] = None,
    nist: Annotated[
        Path | None,
        typer.Option(
            help="Write a sheet by NIST SP 800-226, Markdown, with what is not answered."
        ),
    ] = None,
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--field",
            metavar="NAME=TEXT",
            help="What only the owner knows, such as name, data_curators or publication_date: what is left out is "
            "listed, and stands there to be filled in. Repeatable.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a model's certificate and verdict in the forms of registries. Reads no record.

    What only the owner knows is left to be filled in, unless it is given by --field.

    Example: `noisegate export model --registry survey.yaml --nist survey.md --field 'name=Synthetic survey'`
    """
    from noisegate_evaluate.reporting.statements import OWNER, export

    stated: dict[str, list[str]] = {}
    for text in fields or []:
        name, sign, value = text.partition("=")
        if not sign:
            raise OptionError(f"--field {text!r} must look like NAME=TEXT.")
        stated.setdefault(name.strip(), []).append(value.strip())
    missing = export(model, registry=registry, nist=nist, fields=stated)
    out = [path and str(path) for path in (registry, nist)]
    if as_json:
        print_json({"registry": out[0], "nist": out[1], "missing": list(missing)})
        return
    for path in filter(None, out):
        OUT.print(f"Written: {path}", soft_wrap=True, markup=False)
    for name in missing:
        OUT.print(
            f"To be filled in: {name}, {OWNER[name]}.", soft_wrap=True, markup=False
        )
