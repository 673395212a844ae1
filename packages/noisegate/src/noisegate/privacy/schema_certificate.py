"""The certificate of a discovered schema: a file beside it, and whole, with the cost of both, in that of a fit."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from noisegate.errors import ModelError
from noisegate.privacy import accounting
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import (
    Adjacency,
    Event,
    GaussianEvent,
    ThresholdedGaussianEvent,
)
from noisegate.privacy.grid import GridBound
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import read_certificate
from noisegate.schema import Schema
from noisegate.schema.files import ENDING, was_discovered

SCHEMA_HASH = "schema"
"""Name of the hash of the schema file in its certificate."""
KEY = "discovery"
"""Where a discovery stands in what the certificate of a fit lists as public."""
RECORD = 4096
"""What one record adds to a cell, in grid units: fine enough for the noise of the largest ε."""
NUMERIC_KINDS, TEXT_KIND = (
    ("continuous", "integer", "date", "datetime", "datetime-utc"),
    "categorical",
)
"""Kinds of columns whose bounds, and whose levels, can be discovered, as a certificate names them."""
_COMPOSED = (GaussianEvent, ThresholdedGaussianEvent)


@dataclass(frozen=True, kw_only=True)
class SchemaVerification:
    """What `verify_schema` found."""

    certificate: Certificate
    recomputed_epsilon: float
    """From the events; at most the ε that is stated."""
    schema: Path
    unchanged: bool
    """Whether it is as it was discovered, to the byte. Correcting it from public knowledge is allowed."""


def certificate_path(schema: Path) -> Path:
    """Returns where the certificate of a schema file stands."""
    return schema.parent / f"{schema.name}{ENDING}"


def certificate_text(certificate: Certificate) -> str:
    """Returns the certificate as the text of its file."""
    return (
        json.dumps(certificate.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
        + "\n"
    )


def schema_hash(text: bytes) -> str:
    """Returns the SHA-256 of a schema file."""
    return hashlib.sha256(text).hexdigest()


def check_discovery(certificate: Certificate) -> None:
    """Checks that the events of a certificate are those of the discovery of its columns."""
    if SCHEMA_HASH not in certificate.hashes:
        raise ModelError(
            f"the certificate of {certificate.method!r} is not that of a discovered schema."
        )
    if certificate.contributions is not None:
        raise ModelError(
            "a discovery's certificate states contributions, but none knows whose record each one is."
        )
    if set(certificate.hashes) != {SCHEMA_HASH}:
        raise ModelError(
            "a discovery's certificate speaks of more than a schema, which no discovery does."
        )
    try:
        kinds = certificate.public.get("kinds")
        gaps = list(kinds.values()) if isinstance(kinds, Mapping) else []
        numeric, texts = (
            sum(kind in NUMERIC_KINDS for kind in gaps),
            gaps.count(TEXT_KIND),
        )
    except TypeError as error:
        raise ModelError(
            f"the kinds of columns in a discovery's certificate are broken: {error}."
        ) from None
    check_events(
        certificate.events, certificate.adjacency, numeric=numeric, texts=texts
    )


def check_events(
    events: Sequence[Event], adjacency: Adjacency, *, numeric: int, texts: int
) -> None:
    """Checks that events, and what a record adds to each, are of a discovery of so many columns of each kind."""
    columns = {"magnitudes": numeric, "cells": numeric, "levels": texts}
    expected = [name for name, count in columns.items() if count]
    found = [event.name for event in events]
    if found != expected:
        raise ModelError(
            f"the certificate states events {found}, a discovery of its columns has {expected}."
        )
    for event in events:
        kind = ThresholdedGaussianEvent if event.name == "levels" else GaussianEvent
        least = sensitivity_of(columns[event.name], adjacency)
        whole = not isinstance(event, ThresholdedGaussianEvent) or (
            event.keys >= texts and event.weight == RECORD
        )
        if not isinstance(event, kind) or not whole or event.sensitivity < least:
            raise ModelError(
                f"the certificate's event {event.name!r} is not what {columns[event.name]} columns need under "
                f"{adjacency.value}, a {kind.__name__} of sensitivity {least} or more."
            )


def sensitivity_of(columns: int, adjacency: Adjacency) -> int:
    """Returns the sensitivity, in grid units, of counts in which a record touches one cell of each column."""
    norm = math.isqrt(columns * RECORD**2 - 1) + 1
    return GridBound(units=norm, nonnegative=True).sensitivity(adjacency)


def verify_schema(path: Path) -> SchemaVerification:
    """Recomputes ε of the certificate in the file `path` and compares the schema beside it.

    Raises:
        ModelError: if there is no such certificate or schema, or the certificate states less than its events cost, or
            other events than the discovery of its columns has.
    """
    certificate = read_certificate(path)
    expected = certificate.hashes.get(SCHEMA_HASH)
    if not path.name.endswith(ENDING) or expected is None:
        raise ModelError(
            f"{path} is not the certificate of a discovered schema; give a model folder, or SCHEMA{ENDING}."
        )
    recomputed = certificate.check()
    check_discovery(certificate)
    schema = path.with_name(path.name.removesuffix(ENDING))
    try:
        found = schema_hash(schema.read_bytes())
    except OSError as error:
        raise ModelError(
            f"{schema} cannot be read: {error.strerror}; it belongs beside its certificate."
        ) from None
    return SchemaVerification(
        certificate=certificate,
        recomputed_epsilon=recomputed,
        schema=schema,
        unchanged=found == expected,
    )


def discovery_beside(path: Path) -> Certificate | None:
    """Returns the certificate beside a schema file, or None if it was not discovered."""
    beside = certificate_path(path)
    if not was_discovered(path):
        return None
    if beside.exists():
        return verify_schema(beside).certificate
    raise ModelError(
        f"{path} says that it was discovered from private records, and its certificate {beside} is missing: a fit "
        "could not say what both cost together. Put it back beside the schema; or, if it is lost, remove the first "
        "line of the schema, and state its cost wherever the fit's certificate goes."
    )


def check_fits(discovery: Certificate, schema: Schema) -> None:
    """Checks that a certificate of a discovery may be that of `schema`, which public knowledge may have corrected."""
    check_discovery(discovery)
    kinds = discovery.public.get("kinds")
    missing = [
        name
        for name in schema.names
        if not isinstance(kinds, Mapping) or name not in kinds
    ]
    if missing:
        raise ModelError(
            f"the certificate of a discovery is not of this schema: column {missing[0]!r} is not among those that it "
            "names. Put the right certificate beside the schema, or remove it if the schema was not discovered."
        )


def stated(
    discovery: Certificate, fit: Budget | Certificate, events: tuple[Event, ...]
) -> dict[str, Any]:
    """Returns what the certificate of a fit, which runs ``events``, says of the discovery before it, as JSON."""
    return {
        "digest": discovery.digest(),
        "epsilon": discovery.epsilon,
        "delta": discovery.delta,
        "together": _together(discovery, fit, events),
        "certificate": discovery.to_json(),
    }


def check_stated(fit: Certificate) -> None:
    """Checks what the certificate of a fit says of a discovery before it, if it says anything."""
    if KEY not in fit.public:
        return
    claim = fit.public[KEY]
    if (
        not isinstance(claim, Mapping)
        or not isinstance(claim.get("certificate"), Mapping)
        or "together" not in claim
    ):
        raise ModelError(
            "the certificate names a discovery without the discovery's certificate: do not rely on it."
        )
    discovery = Certificate.from_json(claim["certificate"])
    discovery.check()
    check_discovery(discovery)
    found = stated(discovery, fit, fit.events)
    if {**claim, "together": None} != {**found, "together": None} or not _covers(
        claim["together"], found["together"]
    ):
        raise ModelError(
            "the certificate states another cost or digest of the discovery before it than the discovery's own "
            "certificate gives: do not rely on it."
        )


def _covers(claimed: Any, found: Mapping[str, float] | None) -> bool:
    """Whether a claimed cost of both is that which was found; on another machine the last of six digits may differ."""
    if claimed is None or found is None:
        return claimed is found
    try:
        both = {name: float(value) for name, value in claimed.items()}
    except (AttributeError, TypeError, ValueError):
        return False
    return both.keys() == found.keys() and all(
        math.isclose(both[name], found[name], rel_tol=1e-5) for name in both
    )


def _together(
    discovery: Certificate, fit: Budget | Certificate, events: tuple[Event, ...]
) -> dict[str, float] | None:
    """Returns ε and δ of both: their sums, or less if all is Gaussian (G-13, G-15); None for unlike units."""
    if (discovery.adjacency, discovery.unit, discovery.contributions) != (
        fit.adjacency,
        fit.unit,
        fit.contributions,
    ):
        return None
    delta = accounting.upwards(
        Decimal(repr(discovery.delta)) + Decimal(repr(fit.delta))
    )
    both = (*discovery.events, *events)
    epsilon = discovery.epsilon + fit.epsilon
    if all(isinstance(event, _COMPOSED) for event in both):
        epsilon = min(epsilon, accounting.epsilon(both, delta, fit.adjacency))
    return {"epsilon": accounting.upwards(Decimal(epsilon)), "delta": delta}


def with_schema(fit: Certificate) -> Certificate:
    """Returns the certificate of a fit and of the discovery of its schema, if one was and their costs add up.

    It is at the fit's δ; where only the sums of ε and of δ are known, it has no events.
    """
    claim = fit.public.get(KEY)
    if not isinstance(claim, Mapping) or claim.get("together") is None:
        return fit
    before = Certificate.from_json(claim["certificate"]).events
    found = accounting.together(before, fit.composed, fit.delta, fit.adjacency)
    if found is None:
        return replace(fit, **claim["together"], events=(), silos=None)
    epsilon = max(accounting.upwards(Decimal(repr(found[1])), 4), fit.epsilon)
    return replace(fit, epsilon=epsilon, events=(*before, *fit.composed), silos=None)
