"""The certificate as a page that a person can read and sign for."""

from __future__ import annotations

from collections.abc import Mapping

from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import (
    Event,
    SampledGaussianEvent,
    Sampler,
    ThresholdedGaussianEvent,
    ZeroConcentratedEvent,
)
from noisegate.privacy.units import used

_SAMPLERS = {
    Sampler.DISCRETE_GAUSSIAN: "exact discrete Gaussian (OpenDP)",
    Sampler.ROUNDED_GAUSSIAN: "float64 Gaussian from ChaCha20, rounded to a grid",
    Sampler.CONVOLVED_GAUSSIAN: "discrete Gaussian from ChaCha20 and a table",
}


def render(certificate: Certificate) -> str:
    """Returns the page, Markdown."""
    lines = [
        "# Privacy certificate",
        "",
        f"What was made from the private records satisfies {headline(certificate)}: {_relation(certificate)}",
        "",
        "In words: whoever sees the synthetic records, the model and this page, and knows everything about all other "
        f"records, can hardly tell whether {_somebody(certificate)} took part. For every conclusion that could be "
        f"drawn, its probability with and without {_them(certificate)} differs by a factor of at most "
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
    lines += [_row(event) for event in certificate.events]
    lines += ["", "The noise has no seed: its randomness came from the operating system.", "", *_public(certificate)]
    return "\n".join(lines) + "\n"


def _row(event: Event) -> str:
    if isinstance(event, ZeroConcentratedEvent):
        return f"| {event.name} | marginals chosen on the way | - | rho = {event.rho:.6g} | - | {event.mechanism} |"
    times = f" x {event.steps} steps at rate {event.rate:g}" if isinstance(event, SampledGaussianEvent) else ""
    released = f"{event.coordinates}{times}"
    if isinstance(event, ThresholdedGaussianEvent):
        released = f"those of at least {event.threshold}"
    return (
        f"| {event.name} | {released} | {event.sensitivity:g} | {event.noise_std:.1f} "
        f"| {event.noise_multiplier:.4g} | {_SAMPLERS[event.sampler]} |"
    )


def _relation(certificate: Certificate) -> str:
    if certificate.contributions is None:
        return f"{certificate.adjacency.sentence()}. One record stands for one {certificate.unit}."
    limit = used(certificate.unit, certificate.contributions)
    return f"{certificate.adjacency.sentence(certificate.unit)}. One unit is {limit}."


def _somebody(certificate: Certificate) -> str:
    unit = certificate.unit
    return f"any one {unit}" if certificate.contributions is None else unit


def _them(certificate: Certificate) -> str:
    return f"that {certificate.unit}" if certificate.contributions is None else "them"


def headline(certificate: Certificate) -> str:
    """Returns the claim, as it stands on the page of every version."""
    return f"**({certificate.epsilon:g}, {certificate.delta:g})-differential privacy**"


def _factor(epsilon: float) -> str:
    from math import exp

    return f"{exp(epsilon):.4g}" if epsilon < 700 else "beyond any meaning"


def schema_cost(certificate: Certificate) -> str | None:
    """Returns what the schema cost, if it was bought from private records, and what that makes together."""
    discovery = certificate.public.get("discovery")
    if not isinstance(discovery, Mapping):
        return None
    together = discovery.get("together")
    both = (
        f"both together satisfy ({together['epsilon']:.6g}, {together['delta']:.6g})-differential privacy"
        if isinstance(together, Mapping)
        else "its cost comes on top, and cannot be added up, as it is for other neighbours or another privacy unit"
    )
    return (
        f"The schema was bought with ({discovery['epsilon']:g}, {discovery['delta']:g})-differential privacy, by a "
        f"discovery whose certificate has the SHA-256 {discovery['digest']}. If it was from the same records, {both}."
    )


def _public(certificate: Certificate) -> list[str]:
    schema = certificate.public.get("schema")
    described = schema.get("columns") if isinstance(schema, dict) else None
    listed = described if isinstance(described, list) else []
    columns = ", ".join(str(column.get("name")) for column in listed if isinstance(column, dict))
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
    bought = schema_cost(certificate)
    lines += [] if bought is None else ["", bought]
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
