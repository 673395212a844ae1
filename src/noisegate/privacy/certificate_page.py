"""The certificate as a page that a person can read and sign for."""

from __future__ import annotations

from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import GaussianEvent, Sampler

_SAMPLERS = {
    Sampler.DISCRETE_GAUSSIAN: "exact discrete Gaussian (OpenDP)",
    Sampler.ROUNDED_GAUSSIAN: "float64 Gaussian from ChaCha20, rounded to a grid",
}


def render(certificate: Certificate) -> str:
    """Returns the page, Markdown."""
    lines = [
        "# Privacy certificate",
        "",
        "What was made from the private records satisfies "
        f"{headline(certificate)}: "
        f"{certificate.adjacency.sentence()}. One record stands for one {certificate.unit}.",
        "",
        "In words: whoever sees the synthetic records, the model and this page, and knows everything about all other "
        f"records, can hardly tell whether any one {certificate.unit} took part. For every conclusion that could be "
        f"drawn, its probability with and without that {certificate.unit} differs by a factor of at most "
        f"exp({certificate.epsilon:g}) = {_factor(certificate.epsilon)}, except for a chance of {certificate.delta:g}.",
        "",
        f"Method: {certificate.method}. Written by noisegate {certificate.version}.",
        "",
        "## What was computed from private records",
        "",
        "Nothing else was. All numbers are sums over records of vectors of bounded norm, with noise added once.",
        "",
        "| question | numbers released | sensitivity (grid) | noise (grid) | noise / sensitivity | noise drawn by |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for event in certificate.events:
        times = "" if isinstance(event, GaussianEvent) else f" x {event.steps} steps at rate {event.rate:g}"
        lines.append(
            f"| {event.name} | {event.coordinates}{times} | {event.sensitivity:g} | {event.noise_std:.1f} "
            f"| {event.noise_multiplier:.4g} | {_SAMPLERS[event.sampler]} |"
        )
    lines += ["", "The noise has no seed: its randomness came from the operating system.", "", *_public(certificate)]
    return "\n".join(lines) + "\n"


def headline(certificate: Certificate) -> str:
    """Returns the claim, as it stands on the page of every version."""
    return f"**({certificate.epsilon:g}, {certificate.delta:g})-differential privacy**"


def _factor(epsilon: float) -> str:
    from math import exp

    return f"{exp(epsilon):.4g}" if epsilon < 700 else "beyond any meaning"


def _public(certificate: Certificate) -> list[str]:
    schema = certificate.public.get("schema", {})
    columns = ", ".join(str(column.get("name")) for column in schema.get("columns", []) if isinstance(column, dict))
    records = certificate.public.get("records")
    lines = [
        "## What was taken as public knowledge",
        "",
        f"* The schema: names, kinds, bounds and levels of the columns{f' ({columns})' if columns else ''}.",
        "* The settings of the method, in `certificate.json`.",
    ]
    if records is not None:
        exact = certificate.adjacency is Adjacency.REPLACE_ONE
        lines.append(f"* {'The number of records' if exact else 'A guess of the number of records'}: {records}.")
    if certificate.ledger:
        lines += ["", f"The cost is booked in a ledger on the data set {certificate.ledger.get('dataset')!r}."]
    return [
        *lines,
        "",
        "## How to check this",
        "",
        "`noisegate verify FOLDER` recomputes ε from the table above and checks the hashes, without the data. The "
        "proofs of the bounds are in the documentation, under Guarantees. This page says nothing about other releases "
        "from the same records: their costs add up, which is what a ledger is for.",
    ]
