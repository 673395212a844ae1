"""The statement that is handed out with every result, and its verification without the data."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from noisegate._version import __version__
from noisegate.cards import ResultCard, Sheet, Shown
from noisegate.errors import ModelError, UserError
from noisegate.privacy import accounting
from noisegate.privacy.events import (
    Adjacency,
    BatchGaussianEvent,
    ContinualGaussianEvent,
    Event,
    SampledGaussianEvent,
    Sampler,
    ShardGaussianEvent,
    ThresholdedGaussianEvent,
    ZeroConcentratedEvent,
    check_unit,
    describe_unit,
    event_to_json,
    events_from_json,
    names_unit_column,
)
from noisegate.privacy.silos import Silos, Stream

HEADINGS = (
    "query",
    "values released",
    "sensitivity (grid)",
    "noise (grid)",
    "noise multiplier",
    "noise drawn by",
)
_SAMPLERS = {
    Sampler.DISCRETE_GAUSSIAN: "exact discrete Gaussian (OpenDP)",
    Sampler.ROUNDED_GAUSSIAN: "float64 Gaussian from ChaCha20, rounded to a grid",
    Sampler.CONVOLVED_GAUSSIAN: "discrete Gaussian, convolved from a table",
    Sampler.SUMMED_GAUSSIAN: "exact discrete Gaussians (OpenDP), a share by each silo",
}


def in_words(event: Event) -> str:
    """Returns the query, with its noise multiplier."""
    if isinstance(event, ZeroConcentratedEvent):
        return f"{event.name}: adaptively chosen noisy marginals, rho {event.rho:.4g} together"
    if isinstance(event, ContinualGaussianEvent):
        return f"{event.name}: {event.periods} sums, noise multiplier {event.noise_multiplier:.4g} of all together"
    if isinstance(event, ThresholdedGaussianEvent):
        return f"{event.name}: counts above a threshold, noise multiplier {event.noise_multiplier:.4g}"
    return f"{event.name}: {event.coordinates} values, noise multiplier {event.noise_multiplier:.4g}"


def row(event: Event) -> str:
    """Returns the event as a row of a table in Markdown, under `HEADINGS`."""
    if isinstance(event, ZeroConcentratedEvent):
        return f"| {event.name} | adaptively chosen marginals | - | rho = {event.rho:.6g} | - | {event.mechanism} |"
    times = (
        f" x {event.steps} steps at rate {event.rate:g}"
        if isinstance(event, SampledGaussianEvent)
        else ""
    )
    if isinstance(event, BatchGaussianEvent):
        samples = (
            f"on {event.shards} disjoint shards in turn"
            if event.shards > 1
            else f"at rate {event.rate:g}"
        )
        times = f" x {event.steps} steps {samples}, each of a sample as a whole"
    if isinstance(event, ShardGaussianEvent):
        queried = (
            "all" if event.rate == 1 else f"each independently at rate {event.rate:g}"
        )
        times = f" x {event.steps} steps, each a sum over {event.shards} disjoint shards, {queried} queried"
    if isinstance(event, ContinualGaussianEvent):
        times = f" in {event.periods} periods, C of column ({', '.join(map(str, event.weights[:4]))}, ...) / 256"
    released = f"{event.coordinates}{times}"
    if isinstance(event, ThresholdedGaussianEvent):
        released = f"those of at least {event.threshold}"
    return (
        f"| {event.name} | {released} | {event.sensitivity:g} | {event.noise_std:.1f} "
        f"| {event.noise_multiplier:.4g} | {_SAMPLERS[event.sampler]} |"
    )


FORMAT = 1
# There is no way to seed private noise in this library, so this is a constant.
NOISE_SOURCE = "operating system, unseeded"
_LONGEST_TEXT = 1000


@dataclass(frozen=True, kw_only=True, repr=False)
class Certificate(Shown):
    """The queries run on the private data, their noise, and the guarantee that follows.

    Attributes:
        epsilon: Upper bound for the events at `delta`; anyone can recompute it.
        delta: δ of the guarantee.
        adjacency: The neighbouring relation.
        unit: The privacy unit: what one record stands for, or whose records belong together.
        events: Everything that was computed from private records.
        method: Name of the method.
        public: What was taken as public knowledge: schema, hyper-parameters, the seed for non-private randomness.
        hashes: SHA-256 of what was released.
        ledger: Data set and reservation in the ledger that the cost was recorded under, or None.
        contributions: How many records of one unit were used at most; None when every record is a unit.
        silos: Whose releases were added up, where several were; `events` are then those of the silo that paid most.
        version: Version of noisegate that wrote it.

    Examples:
        >>> from noisegate import Adjacency, Certificate
        >>> from noisegate.privacy.events import GaussianEvent, Sampler
        >>> noise = {"noise_std": 20.0, "sampler": Sampler.DISCRETE_GAUSSIAN}
        >>> counts = GaussianEvent(name="counts", sensitivity=1, coordinates=4, **noise)
        >>> guarantee = {"epsilon": 0.25, "delta": 1e-5, "adjacency": Adjacency.ADD_REMOVE, "unit": "record"}
        >>> certificate = Certificate(events=(counts,), method="counts", **guarantee)
        >>> round(certificate.check(), 4)
        0.1609
        >>> Certificate.from_json(certificate.to_json()) == certificate
        True
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: str
    events: tuple[Event, ...]
    method: str
    public: Mapping[str, Any] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    ledger: Mapping[str, str] | None = None
    contributions: int | None = None
    silos: Silos | None = None
    version: str = __version__

    def __str__(self) -> str:
        return f"{self.guarantee}, method: {self.method}. Released {'; '.join(map(in_words, self.events))}."

    @property
    def guarantee(self) -> str:
        """(ε, δ), the neighbours and the privacy unit, in words."""
        promised = f"({self.epsilon:g}, {self.delta:g})-differential privacy, {self.adjacency.value}"
        return f"{promised}, unit: {describe_unit(self.unit, self.contributions)}"

    @property
    def composed(self) -> tuple[Event, ...]:
        """All events that one unit can be in: what ε is computed from."""
        return (
            self.events
            if self.silos is None
            else self.silos.costliest(self.delta, self.adjacency)
        )

    @property
    def stream(self) -> Stream | None:
        """How far a stream has come; None of no stream."""
        return Stream.of(self.public, self.events) if "stream" in self.public else None

    def card(self) -> ResultCard:
        """Returns the statement as a card for a terminal or a notebook; `render` makes the page to sign."""
        book = (
            "not recorded"
            if self.ledger is None
            else f"recorded for the data set {self.ledger.get('dataset')!r}"
        )
        facts = {"method": f"{self.method}, noisegate {self.version}", "ledger": book}
        if self.silos is not None:
            facts["ledger"], facts["silos"] = (
                "recorded by each silo",
                self.silos.sentence,
            )
        if (bought := schema_cost(self)) is not None:
            facts["schema"] = bought
        facts |= {} if self.stream is None else {"stream": self.stream.sentence}
        facts |= {
            event.name: in_words(event).removeprefix(f"{event.name}: ")
            for event in self.events
        }
        rows = [
            [cell.strip() for cell in row(event).strip("| ").split(" | ")]
            for event in self.events
        ]
        asked = Sheet(
            title="What was computed from private records", headings=HEADINGS, rows=rows
        )
        return ResultCard(
            title=f"Certificate: {self.guarantee}", facts=facts, sheets=[asked]
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the certificate as a JSON object."""
        # Left out where there is none: certificates of one record a unit keep their digests.
        limit = (
            {} if self.contributions is None else {"contributions": self.contributions}
        )
        added = {} if self.silos is None else {"silos": self.silos.to_json()}
        return {
            "format": FORMAT,
            "noisegate": self.version,
            "guarantee": {
                "epsilon": self.epsilon,
                "delta": self.delta,
                "adjacency": self.adjacency.value,
                "unit": self.unit,
                **limit,
            },
            "method": self.method,
            "events": [event_to_json(event) for event in self.events],
            "public": dict(self.public),
            "hashes": dict(self.hashes),
            "noise_source": NOISE_SOURCE,
            "ledger": dict(self.ledger) if self.ledger else None,
            **added,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Certificate:
        """Returns the certificate in a JSON object.

        Raises:
            ModelError: if a field is missing, unusable or not known: a claim that is not understood is not checked.
        """
        try:
            if data["format"] != FORMAT:
                raise ModelError(
                    f"certificate format {data['format']!r} is not known; this version reads {FORMAT}."
                )
            if data["noise_source"] != NOISE_SOURCE:
                raise ModelError(
                    f"the certificate states noise_source={data['noise_source']!r}; a guarantee is proved for "
                    f"{NOISE_SOURCE!r} only: do not rely on it."
                )
            guarantee = data["guarantee"]
            limit = guarantee.get("contributions")
            if limit is not None and (type(limit) is not int or limit < 1):
                raise ModelError(
                    f"the certificate states contributions={limit!r}, which means nothing."
                )
            found = cls(
                epsilon=float(guarantee["epsilon"]),
                delta=float(guarantee["delta"]),
                adjacency=Adjacency.parse(guarantee["adjacency"]),
                unit=str(guarantee["unit"]),
                contributions=limit,
                silos=Silos.from_json(data["silos"]) if "silos" in data else None,
                events=events_from_json(data["events"]),
                method=str(data["method"]),
                **{name: data[name] for name in ("public", "hashes", "ledger")},
                version=str(data["noisegate"]),
            )
            _check_fields(found)
            _check_nothing_else(found.to_json(), data)
        except (
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as error:
            raise ModelError(
                f"the certificate is broken: {type(error).__name__} at {error}."
            ) from None
        return found

    def digest(self) -> str:
        """Returns the SHA-256 of the canonical JSON form."""
        return hashlib.sha256(canonical_json(self.to_json())).hexdigest()

    def verify(self) -> float:
        """Returns ε recomputed from the events, after every field was read as from a file; needs no data.

        `noisegate.verify` also checks its files, and what it states of a discovery of the schema before it.

        Raises:
            ModelError: if a field is unusable, or as `check` does.

        Examples:
            >>> import pyarrow as pa
            >>> from noisegate import Schema, synthesize
            >>> from noisegate.schema import Boolean
            >>> table = pa.table({"ill": [True, False] * 100})
            >>> made = synthesize(table, schema=Schema([Boolean(name="ill")]), epsilon=1.0)
            >>> made.certificate.verify() <= 1.0
            True
        """
        return Certificate.from_json(json.loads(canonical_json(self.to_json()))).check()

    def check(self) -> float:
        """Returns ε recomputed from the events.

        Raises:
            ModelError: if the stated ε is lower than what the events cost, or the certificate claims no event, or a
                unit that no run can have.
        """
        if not (0 < self.delta < 1 and 0 <= self.epsilon < math.inf):
            raise ModelError(
                f"the certificate states epsilon={self.epsilon} at delta={self.delta}, which means nothing."
            )
        if self.contributions is not None and self.adjacency is Adjacency.REPLACE_ONE:
            raise ModelError(
                "the certificate states contributions under replace-one, for which there is no proof."
            )
        if self.contributions is not None and not names_unit_column(self.unit):
            raise ModelError(
                f"the certificate states contributions, but its unit={self.unit!r} names no unit column."
            )
        try:
            check_unit(self.unit, self.contributions)
            recomputed = accounting.epsilon(self.composed, self.delta, self.adjacency)
        except (UserError, ValueError, ArithmeticError) as error:
            raise ModelError(
                f"the certificate's unit or events mean nothing: {error}"
            ) from None
        if (
            not self.events
            or not math.isfinite(recomputed)
            or recomputed > self.epsilon * (1 + 1e-9)
        ):
            raise ModelError(
                f"the certificate states epsilon={self.epsilon:g} at delta={self.delta:g}, "
                f"but its {len(self.composed)} events cost epsilon={recomputed:g}: do not rely on it."
            )
        if self.silos is not None and self.events not in [
            silo.events for silo in self.silos.members
        ]:
            raise ModelError(
                "the certificate's events are those of none of its silos: do not rely on it."
            )
        return recomputed


def _check_fields(certificate: Certificate) -> None:
    """Checks what from_json() takes as it comes: that a text is a line, and a table holds no other things."""
    texts = {
        "unit": certificate.unit,
        "method": certificate.method,
        "noisegate": certificate.version,
    }
    texts |= {
        f"name of event {number}": event.name
        for number, event in enumerate(certificate.events)
    }
    for name, text in texts.items():
        if not text.strip() or not text.isprintable() or len(text) > _LONGEST_TEXT:
            raise ModelError(
                f"the certificate's {name} is not a line of text of at most {_LONGEST_TEXT} characters."
            )
    if not isinstance(certificate.public, dict) or not all(
        map(str.isprintable, certificate.public)
    ):
        raise ModelError(
            "the certificate's public knowledge is not a table of names and values."
        )
    for name, table in (("hashes", certificate.hashes), ("ledger", certificate.ledger)):
        if name == "ledger" and table is None:
            continue
        if not isinstance(table, dict) or not all(
            isinstance(one, str) and one.isprintable() for one in table.values()
        ):
            raise ModelError(
                f"the certificate's {name} is not a table of names and texts."
            )


def _check_nothing_else(
    understood: Mapping[str, Any], stored: Mapping[str, Any]
) -> None:
    """Checks that a certificate says what was understood, in the same words, and nothing beside it."""
    for name in sorted({*understood, *stored}):
        if name not in understood or canonical_json(understood[name]) != canonical_json(
            stored.get(name)
        ):
            raise ModelError(
                f"the certificate's field {name!r} holds something that this version of noisegate does not know or "
                "would not have written; use the version that wrote it, and do not rely on it if it is this one."
            )


def canonical_json(data: Any) -> bytes:
    """Returns the one byte form of a JSON value that hashes are taken of."""
    return json.dumps(
        data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def schema_cost(certificate: Certificate) -> str | None:
    """Returns what the schema cost, if it was bought from private records, and what both cost, at one δ."""
    claim = certificate.public.get("discovery")
    if not isinstance(claim, Mapping):
        return None
    stated = f"The schema was estimated with ({claim['epsilon']:g}, {claim['delta']:g})-differential privacy"
    if claim.get("together") is None:
        return f"{stated}, for another adjacency or another privacy unit: this is additional and cannot be combined."
    before, delta = events_from_json(claim["certificate"]["events"]), certificate.delta
    costs = accounting.together(
        before, certificate.composed, delta, certificate.adjacency
    )
    if costs is None:
        costs, delta = (
            (claim["epsilon"], claim["together"]["epsilon"]),
            claim["together"]["delta"],
        )
    schema, both, table = (
        accounting.upwards(Decimal(repr(cost)), 4)
        for cost in (*costs, certificate.epsilon)
    )
    sums = f"schema {schema:g} + table {table:g} = {both:g} at δ = {delta:g}"
    return f"{stated}. If it used the same records, ε of both together: {sums}."


_MASKED = (
    "The values beside this page are the masked share of one silo and reveal nothing by themselves. The guarantee is "
    "that of the sum of all shares.\n"
)


def render(certificate: Certificate) -> str:
    """Returns the certificate as a page that a person can read and sign for, Markdown."""
    unit, limit, adjacency = (
        certificate.unit,
        certificate.contributions,
        certificate.adjacency,
    )
    somebody, them = (
        (f"any one {unit}", f"that {unit}") if limit is None else (unit, "them")
    )
    relation = (
        f"{adjacency.sentence()}. Privacy unit: one {unit}."
        if limit is None
        else f"{adjacency.sentence(unit)}. Privacy unit: {describe_unit(unit, limit)}."
    )
    factor = (
        f"{math.exp(certificate.epsilon):.4g}"
        if certificate.epsilon < 700
        else "beyond any meaning"
    )
    lines = [
        "# Privacy certificate",
        "",
        f"What was made from the private records satisfies {headline(certificate)}: {relation}",
        "",
        "In words: somebody who sees the synthetic records, the model and this page, and knows all other records, can "
        f"hardly tell whether {somebody} took part. The probability of any conclusion with and without {them} differs "
        f"by a factor of at most exp({certificate.epsilon:g}) = {factor}, except with probability "
        f"{certificate.delta:g}.",
        "",
        *([] if (bought := schema_cost(certificate)) is None else [bought, ""]),
        f"Method: {certificate.method}. Written by noisegate {certificate.version}.",
        "",
        "## What was computed from private records",
        "",
        "Nothing else. Every value released is a sum over records of vectors of bounded norm, with noise added once.",
        "",
        *(
            []
            if certificate.silos is None
            else [f"{certificate.silos.sentence} The table is of one silo.", ""]
        ),
        *([] if certificate.stream is None else [certificate.stream.sentence, ""]),
        f"| {' | '.join(HEADINGS)} |",
        "| --- | --- | --- | --- | --- | --- |",
        *map(row, certificate.events),
        "",
        "The noise has no seed: its randomness comes from the operating system.",
        "",
        *_public(certificate),
        "",
        "## How to check this",
        "",
        "`noisegate verify FOLDER` recomputes ε from the table above and checks the hashes, without the data. The "
        "proofs of the bounds are in the documentation, under Guarantees. This page says nothing about other releases "
        "from the same records: their costs add up, and a ledger tracks them.",
    ]
    return "\n".join(lines) + "\n"


def headline(certificate: Certificate) -> str:
    """Returns the claim, as it stands on the page of every version."""
    return f"**({certificate.epsilon:g}, {certificate.delta:g})-differential privacy**"


def _public(certificate: Certificate) -> list[str]:
    schema = certificate.public.get("schema")
    described = schema.get("columns") if isinstance(schema, dict) else None
    listed = described if isinstance(described, list) else []
    columns = ", ".join(
        str(column.get("name")) for column in listed if isinstance(column, dict)
    )
    records = certificate.public.get("records")
    masked = (
        []
        if certificate.silos is not None or "secure_sum" not in certificate.public
        else [_MASKED]
    )
    lines = [
        *masked,
        "## Assumed public knowledge",
        "",
        f"* The schema: names, kinds, bounds and levels of the columns{f' ({columns})' if columns else ''}.",
        "* The settings of the method, in `certificate.json`.",
    ]
    if records is not None:
        exact = certificate.adjacency is Adjacency.REPLACE_ONE
        lines.append(
            f"* {'The number of records' if exact else 'A guess of the number of records'}: {records}."
        )
    if isinstance(discovery := certificate.public.get("discovery"), Mapping):
        lines += [
            "",
            f"The certificate of the schema's discovery has the SHA-256 {discovery['digest']}.",
        ]
    if certificate.ledger:
        lines += [
            "",
            f"The cost is recorded in a ledger under the data set {certificate.ledger.get('dataset')!r}.",
        ]
    return lines
