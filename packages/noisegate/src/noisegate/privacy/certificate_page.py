"""The page of a certificate, that a person can read and sign for."""

from __future__ import annotations

import math

from noisegate.privacy.certificate import Certificate, schema_cost
from noisegate.privacy.event_words import HEADINGS, row
from noisegate.privacy.events import Adjacency
from noisegate.privacy.units import used

_MASKED = (
    "The numbers beside this page are the masked share of one silo, and tell nothing by themselves. What is claimed is "
    "claimed of the sum of all shares.\n"
)


def render(certificate: Certificate) -> str:
    """Returns the certificate as a page that a person can read and sign for, Markdown."""
    unit, limit, adjacency = certificate.unit, certificate.contributions, certificate.adjacency
    somebody, them = (f"any one {unit}", f"that {unit}") if limit is None else (unit, "them")
    relation = (
        f"{adjacency.sentence()}. One record stands for one {unit}."
        if limit is None
        else f"{adjacency.sentence(unit)}. One unit is {used(unit, limit)}."
    )
    factor = f"{math.exp(certificate.epsilon):.4g}" if certificate.epsilon < 700 else "beyond any meaning"
    lines = [
        "# Privacy certificate",
        "",
        f"What was made from the private records satisfies {headline(certificate)}: {relation}",
        "",
        "In words: whoever sees the synthetic records, the model and this page, and knows everything about all other "
        f"records, can hardly tell whether {somebody} took part. For every conclusion that could be drawn, its "
        f"probability with and without {them} differs by a factor of at most exp({certificate.epsilon:g}) = "
        f"{factor}, except for a chance of {certificate.delta:g}.",
        "",
        f"Method: {certificate.method}. Written by noisegate {certificate.version}.",
        "",
        "## What was computed from private records",
        "",
        "Nothing else was. All numbers are sums over records of vectors of bounded norm, with noise added once.",
        "",
        *([] if certificate.silos is None else [f"{certificate.silos.sentence} The table is of one silo.", ""]),
        f"| {' | '.join(HEADINGS)} |",
        "| --- | --- | --- | --- | --- | --- |",
        *map(row, certificate.events),
        "",
        "The noise has no seed: its randomness came from the operating system.",
        "",
        *_public(certificate),
        "",
        "## How to check this",
        "",
        "`noisegate verify FOLDER` recomputes ε from the table above and checks the hashes, without the data. The "
        "proofs of the bounds are in the documentation, under Guarantees. This page says nothing about other releases "
        "from the same records: their costs add up, which is what a ledger is for.",
    ]
    return "\n".join(lines) + "\n"


def headline(certificate: Certificate) -> str:
    """Returns the claim, as it stands on the page of every version."""
    return f"**({certificate.epsilon:g}, {certificate.delta:g})-differential privacy**"


def _public(certificate: Certificate) -> list[str]:
    schema = certificate.public.get("schema")
    described = schema.get("columns") if isinstance(schema, dict) else None
    listed = described if isinstance(described, list) else []
    columns = ", ".join(str(column.get("name")) for column in listed if isinstance(column, dict))
    records = certificate.public.get("records")
    masked = [] if certificate.silos is not None or "secure_sum" not in certificate.public else [_MASKED]
    lines = [
        *masked,
        "## What was taken as public knowledge",
        "",
        f"* The schema: names, kinds, bounds and levels of the columns{f' ({columns})' if columns else ''}.",
        "* The settings of the method, in `certificate.json`.",
    ]
    if records is not None:
        exact = certificate.adjacency is Adjacency.REPLACE_ONE
        lines.append(f"* {'The number of records' if exact else 'A guess of the number of records'}: {records}.")
    bought = schema_cost(certificate)
    lines += [] if bought is None else ["", bought]
    if certificate.ledger:
        lines += ["", f"The cost is booked in a ledger on the data set {certificate.ledger.get('dataset')!r}."]
    return lines
