"""`noisegate verify`: recompute ε from a certificate, and check whose it is.

It needs no data. What it checks, and what it says of the rest of a folder::

    events in the certificate   ε is recomputed from them
    files with a stated hash    hashes are recomputed
    the signature               checked with --signed-by, else named as unchecked
    any other file              named as not covered
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from noisegate.app.cli.console import OUT, print_json
from noisegate.app.cli.options import Json
from noisegate.privacy.events import describe_unit

if TYPE_CHECKING:
    from noisegate.models.folder import Verification
    from noisegate.privacy.schema_certificate import SchemaVerification


def verify_command(
    model: Annotated[
        Path,
        typer.Argument(
            help="Folder of `fit`, `release` or `merge`, or SCHEMA.certificate.json of "
            "a discovery."
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
    from noisegate.models.folder import verify
    from noisegate.privacy.schema_certificate import SchemaVerification

    signed: tuple[str, ...] | None = None
    if signed_by is not None:
        from noisegate.app.signature import check_signature

        signed = check_signature(model, signed_by)
    verification = verify(model)
    if as_json:
        fields: dict[str, Any] = {
            "ok": True,
            "recomputed_epsilon": verification.recomputed_epsilon,
        }
        if isinstance(verification, SchemaVerification):
            fields["schema_unchanged"] = verification.is_unchanged
        else:
            fields["not_covered"] = [
                name for name in verification.others if name not in (signed or ())
            ]
        if signed is not None:
            fields["signed"] = list(signed)
        fields["certificate"] = verification.certificate.to_json()
        print_json(fields)
        return
    if isinstance(verification, SchemaVerification):
        _show_schema(verification)
        return
    _show_folder(verification)
    if signed_by is not None and signed is not None:
        _show_signed(verification, model, signed_by, signed)
    else:
        _show_not_covered(verification, model)


def _show_claim(verification: Verification | SchemaVerification, subject: str) -> None:
    """Prints the claim that holds: ε, δ, the adjacency and the privacy unit.

    The recomputed ε may be below the stated one: ``epsilon = 1 (recomputed:
    0.999999997)``. A claim below what the events cost does not hold.

    Args:
        verification: What was verified.
        subject: What the claim is about, with its punctuation, as in "3 releases,".
    """
    certificate = verification.certificate
    unit = describe_unit(certificate.unit, certificate.contributions)
    OUT.print(
        f"[green]The certificate holds.[/green] {subject} epsilon = "
        f"{certificate.epsilon:g} (recomputed: {verification.recomputed_epsilon:.9g}) "
        f"at delta = {certificate.delta:g}, {certificate.adjacency.value}, "
        f"unit: {unit}."
    )


def _show_schema(verification: SchemaVerification) -> None:
    """Prints what was verified of a discovered schema.

    The schema may have been corrected since, from public knowledge: the cost of the
    discovery is the same.
    """
    _show_claim(verification, f"{verification.certificate.method}:")
    if verification.is_unchanged:
        state = "is as it was discovered"
    else:
        state = "was changed since, which only public knowledge may do"
    OUT.print(f"{verification.schema} {state}.")


def _show_folder(verification: Verification) -> None:
    """Prints what was verified of a model or release, and what its claim rests on.

    That is what a discovered schema cost beside it, who states that silos share no
    unit, and which periods of a stream are covered.
    """
    from noisegate.privacy.certificate import schema_cost_sentence

    certificate = verification.certificate
    _show_claim(verification, f"{len(certificate.events)} releases,")
    schema_cost = schema_cost_sentence(certificate)
    if schema_cost is not None:
        OUT.print(schema_cost, soft_wrap=True)
    if certificate.silos is not None:
        OUT.print(certificate.silos.sentence, soft_wrap=True)
    if certificate.stream is not None:
        OUT.print(certificate.stream.sentence, soft_wrap=True)
        if certificate.stream.condition is not None:
            OUT.print(certificate.stream.condition, soft_wrap=True)
    OUT.print(f"Hashes match: {', '.join(verification.files)}.")


def _show_signed(
    verification: Verification, model: Path, signed_by: Path, signed: Sequence[str]
) -> None:
    """Prints which files the owner has signed.

    Args:
        verification: Of the folder.
        model: The folder.
        signed_by: Public key of the owner.
        signed: Names of the files whose signature was checked.
    """
    from noisegate.models.folder import PUBLIC_PAGE

    OUT.print(
        f"Signed with {signed_by}: {', '.join(signed)}.", soft_wrap=True, markup=False
    )
    has_unsigned_page = PUBLIC_PAGE in verification.others and PUBLIC_PAGE not in signed
    if has_unsigned_page:
        OUT.print(
            f"[yellow]Not signed[/yellow]: {PUBLIC_PAGE}, as the signature was made "
            "before pages were signed. Do not rely on it: `noisegate report "
            f"{escape(str(model))} -o DIR` makes it again."
        )


def _show_not_covered(verification: Verification, model: Path) -> None:
    """Prints the files of a folder that were not checked, for want of a public key.

    Args:
        verification: Of the folder.
        model: The folder.
    """
    from noisegate.models.folder import PUBLIC_PAGE, SIGNATURE

    if PUBLIC_PAGE in verification.others:
        OUT.print(
            f"{PUBLIC_PAGE} is not part of this; `noisegate report "
            f"{escape(str(model))} -o DIR` makes it again."
        )
    if SIGNATURE in verification.others:
        OUT.print(
            f"{SIGNATURE} is not checked; to do so, give the owner's public key with "
            "--signed-by."
        )
    unknown_files = [
        name for name in verification.others if name not in (PUBLIC_PAGE, SIGNATURE)
    ]
    if unknown_files:
        names = ", ".join(map(repr, unknown_files))
        OUT.print(f"[yellow]Not covered[/yellow]by this check: {escape(names)}.")
