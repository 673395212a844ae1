"""`noisegate verify`: recompute ε from a certificate, without the data, and check whose it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from noisegate.app.cli.console import OUT, print_json
from noisegate.app.cli.options import Json
from noisegate.privacy.events import describe_unit


def verify_command(
    model: Annotated[
        Path,
        typer.Argument(
            help="Folder of `fit`, `release` or `merge`, or SCHEMA.certificate.json of a discovery."
        ),
    ],
    signed_by: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Public key of the owner: check the signature, too."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Recompute ε from the events in the certificate and check every hash, and with --signed-by who made it.

    Needs neither the data nor, for ε, trust in the maker of the model.

    Example: `noisegate verify model --signed-by owner.pub`
    """
    from noisegate.models.folder import PUBLIC_PAGE, SIGNATURE, verify
    from noisegate.privacy.certificate import schema_cost_sentence
    from noisegate.privacy.schema_certificate import SchemaVerification

    signed: tuple[str, ...] = ()
    if signed_by is not None:
        from noisegate.app.signature import check_signature

        signed = check_signature(model, signed_by)
    found = verify(model)
    certificate = found.certificate
    state: dict[str, Any] = {"ok": True, "recomputed_epsilon": found.recomputed_epsilon}
    if isinstance(found, SchemaVerification):
        what, state["schema_unchanged"] = f"{certificate.method}:", found.unchanged
    else:
        what = f"{len(certificate.events)} releases,"
        state["not_covered"] = [name for name in found.others if name not in signed]
    if as_json:
        signature = {} if signed_by is None else {"signed": list(signed)}
        print_json({**state, **signature, "certificate": certificate.to_json()})
        return
    OUT.print(
        f"[green]The certificate holds.[/green] {what} epsilon = {certificate.epsilon:g} (recomputed: "
        f"{found.recomputed_epsilon:.9g}) at delta = {certificate.delta:g}, {certificate.adjacency.value}, unit: "
        f"{describe_unit(certificate.unit, certificate.contributions)}."
    )
    if isinstance(found, SchemaVerification):
        now = (
            "is as it was discovered"
            if found.unchanged
            else "was changed since, which only public knowledge may do"
        )
        OUT.print(f"{found.schema} {now}.")
        return
    bought = schema_cost_sentence(certificate)
    if bought is not None:
        OUT.print(bought, soft_wrap=True)
    for added in (certificate.silos, certificate.stream):
        if added is not None:
            OUT.print(added.sentence, soft_wrap=True)
    if certificate.stream is not None and certificate.stream.condition is not None:
        OUT.print(certificate.stream.condition, soft_wrap=True)
    OUT.print(f"Hashes are right: {', '.join(found.files)}.")
    if signed_by is not None:
        OUT.print(
            f"Signed with {signed_by}: {', '.join(signed)}.",
            soft_wrap=True,
            markup=False,
        )
        if PUBLIC_PAGE in found.others and PUBLIC_PAGE not in signed:
            OUT.print(
                f"[yellow]Not signed[/yellow]: {PUBLIC_PAGE}, as the signature was made before pages were signed. "
                f"Do not rely on it: `noisegate report {escape(str(model))} -o DIR` makes it again."
            )
        return
    if PUBLIC_PAGE in found.others:
        OUT.print(
            f"{PUBLIC_PAGE} is not part of this; `noisegate report {escape(str(model))} -o DIR` makes it again."
        )
    if SIGNATURE in found.others:
        OUT.print(
            f"{SIGNATURE} is not checked; to do so, give the owner's public key with --signed-by."
        )
    if others := [
        name for name in found.others if name not in (PUBLIC_PAGE, SIGNATURE)
    ]:
        OUT.print(
            f"[yellow]Not covered[/yellow], whatever it holds: {escape(', '.join(map(repr, others)))}."
        )
