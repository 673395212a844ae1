"""States what a result cost in privacy, and verifies such statements without the data.

A certificate goes with every result. It lists the events that ran on private records,
with their sensitivities and their noise, and claims an (ε, δ) for all of them together.
Anybody can check the claim: ε follows from the events alone::

    certificate.json ──► Certificate.from_json    reads every field, and refuses others
                     ──► Certificate.check        ε of the events ≤ the claimed ε
                     ──► canonical_json, digest   the bytes that hashes are taken of
                     ──► render                   the page in plain words, Markdown

Stored certificates must load in all later versions, and their digests and pages stay
the same to the byte: the ledger stores the digest, and `noisegate verify` compares the
page. So a new field is left out of JSON if it has no value, and the text of a page
about an event is never changed once a version has written it.
"""

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
    Batched,
    Continual,
    Event,
    NoisyEvent,
    Sampler,
    Sharded,
    StepEvent,
    Thresholded,
    ZeroConcentrated,
    check_unit,
    describe_unit,
    event_to_json,
    events_from_json,
    gaussian_of,
    names_unit_column,
)
from noisegate.privacy.silos import Silos, Stream

FORMAT = 1
"""Version of the stored format."""
NOISE_SOURCE = "operating system, unseeded"
"""Where the noise came from. This library cannot seed private noise: so a constant."""

_MAX_TEXT_LENGTH = 1000
# A claimed ε may be this much below the recomputed one, relatively, as the mathematical
# functions of another machine may round differently.
_ROUNDING = 1e-9
# exp of more would be near the largest float64.
_MAX_EXPONENT = 700


@dataclass(frozen=True, kw_only=True, repr=False)
class Certificate(Shown):
    """The events that used private data, their noise, and the guarantee that follows.

    An event is everything that was released for one query, as far as the accounting of
    ε is concerned.

    Attributes:
        epsilon: Upper bound on ε of the events at `delta`. Anyone can recompute it.
        delta: δ of the guarantee.
        adjacency: The neighbouring relation.
        unit: The privacy unit: what one record stands for, or what groups records.
        events: Everything that was computed from private records.
        method: Name of the method.
        public: What was treated as public knowledge, by name, as JSON values: schema,
            hyper-parameters, and the seed for non-private randomness.
        hashes: SHA-256 of each released array, by name.
        ledger: Data set and reservation in the ledger that recorded the cost, or None.
        contributions: Largest number of records used per unit; None if every record is
            a unit.
        silos: The silos whose releases were added up, if there were several. `events`
            are then those of the silo with the largest cost.
        version: Version of noisegate that wrote the certificate.

    Examples:
        >>> from noisegate import Adjacency, Certificate
        >>> from noisegate.privacy.events import Gaussian, Sampler
        >>> counts = Gaussian(
        ...     name="counts",
        ...     sensitivity=1,
        ...     coordinates=4,
        ...     noise_std=20.0,
        ...     sampler=Sampler.DISCRETE_GAUSSIAN,
        ... )
        >>> certificate = Certificate(
        ...     epsilon=0.25,
        ...     delta=1e-5,
        ...     adjacency=Adjacency.ADD_REMOVE,
        ...     unit="record",
        ...     events=(counts,),
        ...     method="counts",
        ... )
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
        released = "; ".join(
            f"{event.name}: {describe_event(event)}" for event in self.events
        )
        return f"{self.guarantee}, method: {self.method}. Released {released}."

    @property
    def guarantee(self) -> str:
        """The guarantee in words: (ε, δ), neighbouring relation and privacy unit."""
        return (
            f"({self.epsilon:g}, {self.delta:g})-differential privacy, "
            f"{self.adjacency.value}, "
            f"unit: {describe_unit(self.unit, self.contributions)}"
        )

    @property
    def composed(self) -> tuple[Event, ...]:
        """All events that can involve one unit. ε is computed from them."""
        if self.silos is None:
            return self.events
        return self.silos.costliest_group(self.delta, self.adjacency)

    @property
    def stream(self) -> Stream | None:
        """State of the stream of this release; None if there is no stream."""
        if "stream" not in self.public:
            return None
        return Stream.from_certificate(self.public, self.events)

    @property
    def is_masked_share(self) -> bool:
        """Whether the released values are the masked share of one silo (G-32)."""
        return "secure_sum" in self.public and self.silos is None

    def card(self) -> ResultCard:
        """Returns the statement as a card for a terminal or a notebook.

        `render` returns the page that a person signs.
        """
        facts = {"method": f"{self.method}, noisegate {self.version}"}
        if self.silos is not None:
            facts["ledger"] = "recorded by each silo"
            facts["silos"] = self.silos.sentence
        elif self.ledger is None:
            facts["ledger"] = "not recorded"
        else:
            dataset = self.ledger.get("dataset")
            facts["ledger"] = f"recorded for the data set {dataset!r}"
        schema_cost = schema_cost_sentence(self)
        if schema_cost is not None:
            facts["schema"] = schema_cost
        if self.stream is not None:
            facts["stream"] = self.stream.sentence
        for event in self.events:
            facts[event.name] = describe_event(event)
        events_sheet = Sheet(
            title="What was computed from private records",
            headings=_EVENT_HEADINGS,
            rows=[_event_cells(event) for event in self.events],
        )
        return ResultCard(
            title=f"Certificate: {self.guarantee}", facts=facts, sheets=[events_sheet]
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the certificate as a JSON object, which `from_json` can read."""
        guarantee: dict[str, Any] = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency.value,
            "unit": self.unit,
        }
        # Fields that came with later versions are left out where they have no value, so
        # that earlier certificates keep their digests.
        if self.contributions is not None:
            guarantee["contributions"] = self.contributions
        data: dict[str, Any] = {
            "format": FORMAT,
            "noisegate": self.version,
            "guarantee": guarantee,
            "method": self.method,
            "events": [event_to_json(event) for event in self.events],
            "public": dict(self.public),
            "hashes": dict(self.hashes),
            "noise_source": NOISE_SOURCE,
            "ledger": dict(self.ledger) if self.ledger else None,
        }
        if self.silos is not None:
            data["silos"] = self.silos.to_json()
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Certificate:
        """Creates a certificate from a JSON object, which anybody may have edited.

        The claimed ε is not compared with the events; `check` does that.

        Raises:
            ModelError: if a field is missing, unusable or unknown. An unknown field is
                refused because it cannot be checked.
        """
        try:
            certificate = cls._parse_fields(data)
            _check_texts(certificate)
            _check_tables(certificate)
            _check_fully_understood(certificate.to_json(), data)
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
        return certificate

    @classmethod
    def _parse_fields(cls, data: Mapping[str, Any]) -> Certificate:
        """Reads the fields of a JSON object; texts and tables are not checked yet.

        Raises:
            ModelError: if format, source of the noise, or contributions are unusable.
            KeyError, TypeError, ValueError, AttributeError, OverflowError: if another
                field is missing, or has the wrong type.
        """
        if data["format"] != FORMAT:
            raise ModelError(
                f"certificate format {data['format']!r} is not known; this version "
                f"reads {FORMAT}."
            )
        if data["noise_source"] != NOISE_SOURCE:
            raise ModelError(
                f"the certificate states noise_source={data['noise_source']!r}; a "
                f"guarantee is proved for {NOISE_SOURCE!r} only: do not rely on it."
            )
        guarantee = data["guarantee"]
        contributions = guarantee.get("contributions")
        # `type` and not `isinstance`, for which True is an integer.
        is_count = type(contributions) is int and contributions >= 1
        if contributions is not None and not is_count:
            raise ModelError(
                f"the certificate states contributions={contributions!r}, which means "
                "nothing."
            )
        return cls(
            epsilon=float(guarantee["epsilon"]),
            delta=float(guarantee["delta"]),
            adjacency=Adjacency.parse(guarantee["adjacency"]),
            unit=str(guarantee["unit"]),
            contributions=contributions,
            silos=Silos.from_json(data["silos"]) if "silos" in data else None,
            events=events_from_json(data["events"]),
            method=str(data["method"]),
            public=data["public"],
            hashes=data["hashes"],
            ledger=data["ledger"],
            version=str(data["noisegate"]),
        )

    def digest(self) -> str:
        """Returns the SHA-256 of the canonical JSON form, in hexadecimal digits."""
        return hashlib.sha256(canonical_json(self.to_json())).hexdigest()

    def verify(self) -> float:
        """Checks every field as if read from a file, and recomputes ε from the events.

        It needs no data. `noisegate.verify` also checks the files that belong to the
        certificate, and the certificate of a discovery of the schema before it.

        Returns:
            ε at `delta`, at most the claimed ε up to rounding.

        Raises:
            ModelError: if a field is unusable, or as `check` does.

        Examples:
            >>> import pyarrow as pa
            >>> from noisegate import Schema, synthesize
            >>> from noisegate.schema import Boolean
            >>> table = pa.table({"ill": [True, False] * 100})
            >>> schema = Schema([Boolean(name="ill")])
            >>> synthetic = synthesize(table, schema=schema, epsilon=1.0)
            >>> synthetic.certificate.verify() <= 1.0
            True
        """
        stored = canonical_json(self.to_json())
        return Certificate.from_json(json.loads(stored)).check()

    def check(self) -> float:
        """Recomputes ε from the events, and compares it with the claimed ε.

        δ and the unit are checked first, because ε has no meaning without valid ones.
        The silos are checked last, because they only state whose events these are.

        Returns:
            ε at `delta`, at most the claimed ε up to rounding.

        Raises:
            ModelError: if the events cost more than the claimed ε, or the certificate
                has no event, or a unit that no run can have.
        """
        self._check_guarantee()
        try:
            check_unit(self.unit, self.contributions)
            recomputed = accounting.epsilon(self.composed, self.delta, self.adjacency)
        except (UserError, ValueError, ArithmeticError) as error:
            raise ModelError(
                f"the certificate's unit or events mean nothing: {error}"
            ) from None
        max_epsilon = self.epsilon * (1 + _ROUNDING)
        is_covered = math.isfinite(recomputed) and recomputed <= max_epsilon
        if not self.events or not is_covered:
            raise ModelError(
                f"the certificate states epsilon={self.epsilon:g} at "
                f"delta={self.delta:g}, but its {len(self.composed)} events cost "
                f"epsilon={recomputed:g}: do not rely on it."
            )
        self._check_silos()
        return recomputed

    def _check_guarantee(self) -> None:
        """Checks that ε and δ mean something, and the unit goes with the adjacency.

        Raises:
            ModelError: otherwise.
        """
        if not (0 < self.delta < 1 and 0 <= self.epsilon < math.inf):
            raise ModelError(
                f"the certificate states epsilon={self.epsilon} at delta={self.delta}, "
                "which means nothing."
            )
        if self.contributions is None:
            return
        if self.adjacency is Adjacency.REPLACE_ONE:
            raise ModelError(
                "the certificate states contributions under replace-one, for which "
                "there is no proof."
            )
        if not names_unit_column(self.unit):
            raise ModelError(
                "the certificate states contributions, but its "
                f"unit={self.unit!r} names no unit column."
            )

    def _check_silos(self) -> None:
        """Checks that the certificate's events are those of one of its silos.

        Raises:
            ModelError: otherwise.
        """
        if self.silos is None:
            return
        if self.events not in [silo.events for silo in self.silos.members]:
            raise ModelError(
                "the certificate's events are those of none of its silos: do not rely "
                "on it."
            )


# What may stand in a file.


def _check_texts(certificate: Certificate) -> None:
    """Checks that every text is one line that a page can show.

    Raises:
        ModelError: if one is blank, too long, or has control characters.
    """
    texts = {
        "unit": certificate.unit,
        "method": certificate.method,
        "noisegate": certificate.version,
    }
    for number, event in enumerate(certificate.events):
        texts[f"name of event {number}"] = event.name
    for name, text in texts.items():
        if not text.strip() or not text.isprintable() or len(text) > _MAX_TEXT_LENGTH:
            raise ModelError(
                f"the certificate's {name} is not a line of text of at most "
                f"{_MAX_TEXT_LENGTH} characters."
            )


def _check_tables(certificate: Certificate) -> None:
    """Checks the tables that `Certificate.from_json` takes as they come.

    Raises:
        ModelError: if public knowledge is no table by printable names; or hashes or the
            ledger are no table of printable texts. The ledger may be None.
    """
    public = certificate.public
    is_table = isinstance(public, dict) and all(map(str.isprintable, public))
    if not is_table:
        raise ModelError(
            "the certificate's public knowledge is not a table of names and values."
        )
    text_tables = {"hashes": certificate.hashes}
    if certificate.ledger is not None:
        text_tables["ledger"] = certificate.ledger
    for name, table in text_tables.items():
        is_text_table = isinstance(table, dict) and all(
            isinstance(text, str) and text.isprintable() for text in table.values()
        )
        if not is_text_table:
            raise ModelError(
                f"the certificate's {name} is not a table of names and texts."
            )


def _check_fully_understood(
    understood: Mapping[str, Any], stored: Mapping[str, Any]
) -> None:
    """Checks that a file holds what was understood, to the byte, and no more.

    Otherwise a file could state something that nobody has checked. So the certificate
    is written again, and each field must come out as it was stored.

    Args:
        understood: The certificate that was read, as JSON.
        stored: JSON of the file.

    Raises:
        ModelError: naming a field that differs.
    """
    for name in sorted({*understood, *stored}):
        is_understood = name in understood and (
            canonical_json(understood[name]) == canonical_json(stored.get(name))
        )
        if not is_understood:
            raise ModelError(
                f"the certificate's field {name!r} holds something that this version "
                "of noisegate does not know or would not have written; use the version "
                "that wrote it, and do not rely on it if it is this one."
            )


def canonical_json(data: Any) -> bytes:
    """Returns the bytes of a JSON value that hashes are taken of.

    Equal values have equal bytes, as names are sorted and nothing is optional.

    Raises:
        ValueError: if a number is not finite.

    >>> canonical_json({"b": [1, 2.0], "a": "é"}).decode()
    '{"a":"é","b":[1,2.0]}'
    """
    text = json.dumps(
        data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


# In words.


def describe_event(event: Event) -> str:
    """Describes the released values of an event, with its noise multiplier."""
    if isinstance(event, ZeroConcentrated):
        return f"adaptively chosen noisy marginals, rho {event.rho:.4g} together"
    gaussian = gaussian_of(event)
    noise = f"noise multiplier {gaussian.noise_multiplier:.4g}"
    if isinstance(event, Continual):
        return f"{event.periods} sums, {noise} of all together"
    if isinstance(event, Thresholded):
        return f"counts above a threshold, {noise}"
    return f"{gaussian.coordinates} values, {noise}"


_EVENT_HEADINGS = (
    "query",
    "values released",
    "sensitivity (grid)",
    "noise (grid)",
    "noise multiplier",
    "noise drawn by",
)
_SAMPLER_NAMES = {
    Sampler.DISCRETE_GAUSSIAN: "exact discrete Gaussian (OpenDP)",
    Sampler.ROUNDED_GAUSSIAN: "float64 Gaussian from ChaCha20, rounded to a grid",
    Sampler.CONVOLVED_GAUSSIAN: "discrete Gaussian, convolved from a table",
    Sampler.SUMMED_GAUSSIAN: "exact discrete Gaussians (OpenDP), a share by each silo",
}


def _event_cells(event: Event) -> list[str]:
    """Returns an event as the cells of a row under `_EVENT_HEADINGS`."""
    if isinstance(event, ZeroConcentrated):
        return [
            event.name,
            "adaptively chosen marginals",
            "-",
            f"rho = {event.rho:.6g}",
            "-",
            event.mechanism,
        ]
    gaussian = gaussian_of(event)
    return [
        event.name,
        _released_values(event),
        f"{gaussian.sensitivity:g}",
        f"{gaussian.noise_std:.1f}",
        f"{gaussian.noise_multiplier:.4g}",
        _SAMPLER_NAMES[gaussian.sampler],
    ]


def _released_values(event: NoisyEvent) -> str:
    """Returns how many numbers an event released, and in which steps, in words.

    What a change must keep: `noisegate verify` compares stored pages to the byte, so
    the words for an event that exists are never changed; a new class of events gets
    words of its own.
    `test_a_row_says_which_records_a_step_asks` and the stored pages in tests/golden
    watch over this.

    >>> from noisegate.privacy.events import Gaussian, Sampled, Sampler
    >>> step = Gaussian(
    ...     name="gradients",
    ...     sensitivity=32,
    ...     noise_std=64.0,
    ...     coordinates=4,
    ...     sampler=Sampler.CONVOLVED_GAUSSIAN,
    ... )
    >>> _released_values(Sampled(event=step, rate=0.0625, steps=10))
    '4 x 10 steps at rate 0.0625'
    """
    coordinates = gaussian_of(event).coordinates
    if isinstance(event, Thresholded):
        return f"those of at least {event.threshold}"
    if isinstance(event, Continual):
        first_weights = ", ".join(str(weight) for weight in event.weights[:4])
        return (
            f"{coordinates} in {event.periods} periods, "
            f"C of column ({first_weights}, ...) / 256"
        )
    if isinstance(event, StepEvent):
        return f"{coordinates} x {event.steps} steps{_records_of_steps(event)}"
    return f"{coordinates}"


def _records_of_steps(event: StepEvent) -> str:
    """Returns which records each step of an event uses, as the end of a sentence."""
    if isinstance(event, Batched) and event.shards > 1:
        return (
            f" on {event.shards} disjoint shards in turn, each of a sample as a whole"
        )
    if isinstance(event, Batched):
        return f" at rate {event.rate:g}, each of a sample as a whole"
    if isinstance(event, Sharded):
        if event.rate == 1:
            queried = "all"
        else:
            queried = f"each independently at rate {event.rate:g}"
        return f", each a sum over {event.shards} disjoint shards, {queried} queried"
    return f" at rate {event.rate:g}"


def markdown_row(event: Event) -> str:
    """Returns an event as a row of the page's table, in Markdown."""
    return f"| {' | '.join(_event_cells(event))} |"


def schema_cost_sentence(certificate: Certificate) -> str | None:
    """Describes the cost of a schema that was estimated from private records.

    The certificate of a fit then states the discovery (`schema_certificate`), and if
    possible the cost of both together, for the case that they read the same records.
    The sum is given at the fit's δ if all events are Gaussian; otherwise at the sum of
    both δ, as it was stated.

    Args:
        certificate: The certificate of a fit.

    Returns:
        One or two sentences; None if no schema was discovered.
    """
    discovery = certificate.public.get("discovery")
    if not isinstance(discovery, Mapping):
        return None
    cost = (
        "The schema was estimated with "
        f"({discovery['epsilon']:g}, {discovery['delta']:g})-differential privacy"
    )
    if discovery.get("together") is None:
        return (
            f"{cost}, for another adjacency or another privacy unit: this is "
            "additional and cannot be combined."
        )
    discovery_events = events_from_json(discovery["certificate"]["events"])
    joint_epsilon = accounting.joint_epsilon(
        discovery_events,
        certificate.composed,
        certificate.delta,
        certificate.adjacency,
    )
    if joint_epsilon is None:
        schema_epsilon = discovery["epsilon"]
        joint_epsilon = discovery["together"]["epsilon"]
        delta = discovery["together"]["delta"]
    else:
        delta = certificate.delta
        schema_epsilon = accounting.epsilon(
            discovery_events, delta, certificate.adjacency
        )
    return (
        f"{cost}. If it used the same records, ε of both together: "
        f"schema {_up_to_four_digits(schema_epsilon):g} "
        f"+ table {_up_to_four_digits(certificate.epsilon):g} "
        f"= {_up_to_four_digits(joint_epsilon):g} at δ = {delta:g}."
    )


def _up_to_four_digits(epsilon: float) -> float:
    """Rounds an ε up to four significant digits; one that has fewer stays."""
    return accounting.round_up(Decimal(repr(epsilon)), 4)


# The page.

_MASKED_SHARE_NOTE = (
    "The values beside this page are the masked share of one silo and reveal nothing "
    "by themselves. The guarantee is that of the sum of all shares."
)


def render(certificate: Certificate) -> str:
    """Returns the certificate as a page that a person can read and sign for, Markdown.

    It is a function of the certificate alone, so that a page can be compared.
    """
    lines = [*_claim_lines(certificate), ""]
    schema_cost = schema_cost_sentence(certificate)
    if schema_cost is not None:
        lines += [schema_cost, ""]
    lines += [
        f"Method: {certificate.method}. Written by noisegate {certificate.version}.",
        "",
        *_event_lines(certificate),
        "",
        *_public_lines(certificate),
        "",
        "## How to check this",
        "",
        "`noisegate verify FOLDER` recomputes ε from the table above and checks the "
        "hashes, without the data. The proofs of the bounds are in the documentation, "
        "under Guarantees. This page says nothing about other releases from the same "
        "records: their costs add up, and a ledger tracks them.",
    ]
    return "\n".join(lines) + "\n"


def headline(certificate: Certificate) -> str:
    """Returns the claim in the text that the pages of all versions have."""
    return f"**({certificate.epsilon:g}, {certificate.delta:g})-differential privacy**"


def _claim_lines(certificate: Certificate) -> list[str]:
    """Returns the lines of the page that state the guarantee and what it means."""
    unit = certificate.unit
    adjacency = certificate.adjacency
    described_unit = describe_unit(unit, certificate.contributions)
    if certificate.contributions is None:
        neighbours = f"{adjacency.sentence()}. Privacy unit: one {described_unit}."
        participant = f"any one {unit}"
        pronoun = f"that {unit}"
    else:
        neighbours = f"{adjacency.sentence(unit)}. Privacy unit: {described_unit}."
        participant = unit
        pronoun = "them"
    if certificate.epsilon < _MAX_EXPONENT:
        factor = f"{math.exp(certificate.epsilon):.4g}"
    else:
        factor = "beyond any meaning"
    return [
        "# Privacy certificate",
        "",
        f"What was made from the private records satisfies {headline(certificate)}: "
        f"{neighbours}",
        "",
        "In words: somebody who sees the synthetic records, the model and this page, "
        "and knows all other records, can hardly tell whether "
        f"{participant} took part. The probability of any conclusion with and without "
        f"{pronoun} differs by a factor of at most exp({certificate.epsilon:g}) = "
        f"{factor}, except with probability {certificate.delta:g}.",
    ]


def _event_lines(certificate: Certificate) -> list[str]:
    """Returns the lines of the page that list what was computed from records."""
    lines = [
        "## What was computed from private records",
        "",
        "Nothing else. Every value released is a sum over records of vectors of "
        "bounded norm, with noise added once.",
        "",
    ]
    if certificate.silos is not None:
        lines += [f"{certificate.silos.sentence} The table is of one silo.", ""]
    if certificate.stream is not None:
        lines += [certificate.stream.sentence, ""]
    return [
        *lines,
        f"| {' | '.join(_EVENT_HEADINGS)} |",
        "| --- | --- | --- | --- | --- | --- |",
        *(markdown_row(event) for event in certificate.events),
        "",
        "The noise has no seed: its randomness comes from the operating system.",
    ]


def _public_lines(certificate: Certificate) -> list[str]:
    """Returns the lines of the page that list what was taken as public knowledge."""
    public = certificate.public
    lines = []
    if certificate.is_masked_share:
        lines += [_MASKED_SHARE_NOTE, ""]
    columns = _column_names(public.get("schema"))
    shown_columns = f" ({', '.join(columns)})" if columns else ""
    lines += [
        "## Assumed public knowledge",
        "",
        f"* The schema: names, kinds, bounds and levels of the columns{shown_columns}.",
        "* The settings of the method, in `certificate.json`.",
    ]
    records = public.get("records")
    if records is not None:
        # Under add-remove the number is private, and only a guess of it is public.
        if certificate.adjacency is Adjacency.REPLACE_ONE:
            lines.append(f"* The number of records: {records}.")
        else:
            lines.append(f"* An estimate of the number of records: {records}.")
    discovery = public.get("discovery")
    if isinstance(discovery, Mapping):
        lines += [
            "",
            "The certificate of the schema's discovery has the SHA-256 "
            f"{discovery['digest']}.",
        ]
    if certificate.ledger:
        dataset = certificate.ledger.get("dataset")
        lines += [
            "",
            f"The cost is recorded in a ledger under the data set {dataset!r}.",
        ]
    return lines


def _column_names(schema: Any) -> list[str]:
    """Returns the names of the columns of a schema, as a certificate states it.

    Args:
        schema: JSON from a file that anybody may have edited.

    Returns:
        The names; empty if it is not the schema of a table.
    """
    columns = schema.get("columns") if isinstance(schema, dict) else None
    if not isinstance(columns, list):
        return []
    return [str(column.get("name")) for column in columns if isinstance(column, dict)]
