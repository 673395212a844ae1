"""`noisegate verify`: recompute ε from a certificate, without the data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noisegate.cli.arguments import Json
from noisegate.cli.console import OUT, print_json


def verify(
    model: Annotated[Path, typer.Argument(help="Folder that `noisegate fit --out` wrote.")], as_json: Json = False
) -> None:
    """Recompute ε from the events in the certificate and check every hash.

    Needs neither the data nor trust in the maker of the model.

    Example: `noisegate verify model`
    """
    from noisegate.model_folder import verify_model

    found = verify_model(model)
    certificate = found.certificate
    if as_json:
        print_json({"ok": True, "recomputed_epsilon": found.recomputed_epsilon, "certificate": certificate.to_json()})
        return
    OUT.print(
        f"[green]The certificate holds.[/green] {len(certificate.events)} releases, epsilon = {certificate.epsilon:g} "
        f"(recomputed: {found.recomputed_epsilon:.9g}) at delta = {certificate.delta:g}, "
        f"{certificate.adjacency.value}, unit: {certificate.unit}."
    )
    OUT.print(f"Hashes are right: {', '.join(found.files)}.")
