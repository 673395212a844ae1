"""Certifies a schema that was discovered from private records, alone and in a fit.

`noisegate schema discover` estimates bounds and levels from records, which has a cost.
Its certificate lies beside the schema file. A fit with this schema may read the same
records; so it states the discovery among what it takes as public, and what both cost::

    schema.toml, its certificate beside it          `discovery_beside`, `verify_schema`
        │ a fit with this schema
        ▼
    public["discovery"] of the fit's certificate    `discovery_claim`
        digest, epsilon, delta   of the discovery   `check_discovery_claim`
        together                 ε and δ of both, or None
        certificate              of the discovery, complete
        │ a public page
        ▼
    one certificate of both                         `with_discovery`

What the fit's certificate states is called the *discovery claim*. Whoever reads it has
the discovery's certificate in it, and so can compute all of the claim again.

A discovery has up to three events, by the kinds of its columns: `magnitudes` and
`cells` for numeric columns, whose bounds it finds in two looks, and `levels` for texts
(G-15).
"""

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
    Gaussian,
    SumEvent,
    Thresholded,
    gaussian_of,
)
from noisegate.privacy.grid import GridBound
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import read_certificate
from noisegate.schema import Schema
from noisegate.schema.files import CERTIFICATE_SUFFIX, was_discovered

SCHEMA_HASH = "schema"
"""Name of the hash of the schema file in its certificate."""
DISCOVERY_KEY = "discovery"
"""Where a discovery stands in what the certificate of a fit lists as public."""
RECORD = 4096
"""What one record adds to a cell, in grid units: fine enough for the noise of the
largest ε."""
NUMERIC_KINDS = ("continuous", "integer", "date", "datetime", "datetime-utc")
"""Kinds of columns whose bounds can be discovered, as a certificate names them."""
TEXT_KIND = "categorical"
"""The kind of columns whose levels can be discovered."""

# Of these events, ε of a fit and its discovery is computed together.
_COMPOSED_EVENTS = SumEvent | Thresholded
# Costs are stated to six digits, of which the last may differ on another machine.
_COST_TOLERANCE = 1e-5


@dataclass(frozen=True, kw_only=True)
class SchemaVerification:
    """A schema whose certificate holds: the result of `verify_schema`.

    Attributes:
        certificate: The certificate of the discovery.
        recomputed_epsilon: ε from its events; at most the ε that is stated.
        schema: Path of the schema file.
        is_unchanged: Whether the schema file is as it was discovered, to the byte.
            Correcting it from public knowledge is allowed, so this is no error.
    """

    certificate: Certificate
    recomputed_epsilon: float
    schema: Path
    is_unchanged: bool


# The certificate alone.


def certificate_path(schema: Path) -> Path:
    """Returns where the certificate of a schema file lies: beside it."""
    return schema.parent / f"{schema.name}{CERTIFICATE_SUFFIX}"


def certificate_text(certificate: Certificate) -> str:
    """Returns the certificate of a discovery as the text of its file."""
    text = json.dumps(
        certificate.to_json(), indent=2, ensure_ascii=False, allow_nan=False
    )
    return text + "\n"


def schema_hash(content: bytes) -> str:
    """Returns the SHA-256 of the content of a schema file, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def check_discovery(certificate: Certificate) -> None:
    """Checks that a certificate is of a discovery, and has the events of its columns.

    Otherwise it could leave out an event, and so a cost. Whether ε is that of its
    events is checked by `Certificate.check`.

    Raises:
        ModelError: if it is not.
    """
    if SCHEMA_HASH not in certificate.hashes:
        raise ModelError(
            f"the certificate of {certificate.method!r} is not that of a discovered "
            "schema."
        )
    if certificate.contributions is not None:
        raise ModelError(
            "a discovery's certificate states contributions, but none knows whose "
            "record each one is."
        )
    if set(certificate.hashes) != {SCHEMA_HASH}:
        raise ModelError(
            "a discovery's certificate states more than a schema, which no "
            "discovery does."
        )
    numeric_count, text_count = _count_columns(certificate)
    check_events(
        certificate.events,
        certificate.adjacency,
        numeric=numeric_count,
        texts=text_count,
    )


def _count_columns(certificate: Certificate) -> tuple[int, int]:
    """Counts the columns of a discovery whose bounds, and whose levels, it found.

    Args:
        certificate: States the kind of each column among what is public, as JSON that
            anybody may have edited.

    Returns:
        The numbers of numeric and of text columns; 0 of both if no kinds are stated,
        so that `check_events` finds too many events.

    Raises:
        ModelError: if a kind is no text.
    """
    try:
        kind_by_column = certificate.public.get("kinds")
        if isinstance(kind_by_column, Mapping):
            kinds = list(kind_by_column.values())
        else:
            kinds = []
        numeric_count = sum(kind in NUMERIC_KINDS for kind in kinds)
        text_count = kinds.count(TEXT_KIND)
    except TypeError as error:
        raise ModelError(
            f"the kinds of columns in a discovery's certificate are broken: {error}."
        ) from None
    return numeric_count, text_count


def check_events(
    events: Sequence[Event], adjacency: Adjacency, *, numeric: int, texts: int
) -> None:
    """Checks that events are those of a discovery, and what a record adds to each.

    Args:
        events: The events that a certificate states.
        adjacency: What neighbours are.
        numeric: How many columns have bounds that were discovered.
        texts: How many columns have levels that were discovered.

    Raises:
        ModelError: if an event is missing, added, or of the wrong kind, or states a
            sensitivity below that of so many columns.
    """
    # Numeric columns are examined twice, in bins and in cells within them.
    column_counts = {"magnitudes": numeric, "cells": numeric, "levels": texts}
    expected_names = [name for name, count in column_counts.items() if count]
    names = [event.name for event in events]
    if names != expected_names:
        raise ModelError(
            f"the certificate states events {names}, a discovery of its columns has "
            f"{expected_names}."
        )
    for event in events:
        column_count = column_counts[event.name]
        fault = _fault_of_event(event, column_count, adjacency)
        if fault:
            raise ModelError(
                f"the certificate's event {event.name!r} is not what {column_count} "
                f"columns need under {adjacency.value}: {fault}."
            )


def _fault_of_event(event: Event, columns: int, adjacency: Adjacency) -> str | None:
    """Returns what is wrong with an event of a discovery; None if nothing is.

    Args:
        event: The event, named as those of a discovery are.
        columns: How many columns it counts.
        adjacency: What neighbours are.
    """
    if event.name == "levels":
        if not isinstance(event, Thresholded):
            return "it has no threshold"
        # A record has one level in each column, and the threshold is calibrated for
        # what it adds to the count of that level.
        if event.keys < columns:
            return f"it states {event.keys} levels of a record"
        if event.weight != RECORD:
            return f"it states weight={event.weight}, a record adds {RECORD}"
    elif not isinstance(event, Gaussian):
        return "it is no noisy sum over all records"
    sensitivity = gaussian_of(event).sensitivity
    min_sensitivity = discovery_sensitivity(columns, adjacency)
    if sensitivity < min_sensitivity:
        return f"it states a sensitivity of {sensitivity:g}, below {min_sensitivity}"
    return None


def discovery_sensitivity(columns: int, adjacency: Adjacency) -> int:
    """Computes the L2 sensitivity of counts to which a record adds in each column.

    A record adds `RECORD` to one cell of each column, so what it adds has the norm
    RECORD · √columns and no negative coordinate.

    Args:
        columns: How many columns are counted, at least 1.
        adjacency: What neighbours are.

    Returns:
        The sensitivity in grid units, rounded up.

    >>> from noisegate.privacy.events import Adjacency
    >>> from noisegate.privacy.schema_certificate import RECORD, discovery_sensitivity
    >>> discovery_sensitivity(4, Adjacency.ADD_REMOVE) == 2 * RECORD
    True
    """
    squared_norm = columns * RECORD**2
    norm = math.isqrt(squared_norm - 1) + 1  # the root, rounded up
    return GridBound(units=norm, nonnegative=True).sensitivity(adjacency)


def verify_schema(path: Path) -> SchemaVerification:
    """Recomputes ε of the certificate in a file, and compares the schema beside it.

    Args:
        path: The certificate.

    Raises:
        ModelError: if there is no such certificate or schema, or the certificate states
            less than its events cost, or other events than the discovery of its columns
            has.
    """
    certificate = read_certificate(path)
    expected_hash = certificate.hashes.get(SCHEMA_HASH)
    if not path.name.endswith(CERTIFICATE_SUFFIX) or expected_hash is None:
        raise ModelError(
            f"{path} is not the certificate of a discovered schema; give a model "
            f"folder, or SCHEMA{CERTIFICATE_SUFFIX}."
        )
    recomputed = certificate.check()
    check_discovery(certificate)
    schema = path.with_name(path.name.removesuffix(CERTIFICATE_SUFFIX))
    try:
        content = schema.read_bytes()
    except OSError as error:
        raise ModelError(
            f"{schema} cannot be read: {error.strerror}; it belongs beside its "
            "certificate."
        ) from None
    return SchemaVerification(
        certificate=certificate,
        recomputed_epsilon=recomputed,
        schema=schema,
        is_unchanged=schema_hash(content) == expected_hash,
    )


def discovery_beside(path: Path) -> Certificate | None:
    """Returns the certificate beside a schema file; None if it was not discovered.

    Args:
        path: The schema file, whose first line says if it was discovered.

    Raises:
        ModelError: if it was, and its certificate is missing or does not hold.
    """
    certificate_file = certificate_path(path)
    if not was_discovered(path):
        return None
    if certificate_file.exists():
        return verify_schema(certificate_file).certificate
    raise ModelError(
        f"{path} says that it was discovered from private records, and its "
        f"certificate {certificate_file} is missing: without it, a fit cannot "
        "state their joint cost. Put it back beside the schema; or, if it is lost, "
        "remove the first line of the schema, and state its cost wherever the "
        "fit's certificate goes."
    )


def check_matches_schema(discovery: Certificate, schema: Schema) -> None:
    """Checks that a certificate may be that of the discovery of a schema.

    The schema may have been corrected from public knowledge since. But its columns must
    be among those that the certificate names.

    Raises:
        ModelError: if a column is not, or the certificate is not of a discovery.
    """
    check_discovery(discovery)
    kinds = discovery.public.get("kinds")
    for name in schema.names:
        if not isinstance(kinds, Mapping) or name not in kinds:
            raise ModelError(
                "the certificate of a discovery is not of this schema: column "
                f"{name!r} is not among those that it names. Put the right certificate "
                "beside the schema, or remove it if the schema was not discovered."
            )


# In the certificate of a fit.


def discovery_claim(
    discovery: Certificate, fit: Budget | Certificate, events: tuple[Event, ...]
) -> dict[str, Any]:
    """Returns what the certificate of a fit states of the discovery before it, as JSON.

    The claim is written before the fit has a certificate, from its budget, and checked
    afterwards from its certificate; both have the fields that it needs.

    Args:
        discovery: The certificate of the discovery.
        fit: Budget of the fit, or its certificate.
        events: What the fit runs.
    """
    return {
        "digest": discovery.digest(),
        "epsilon": discovery.epsilon,
        "delta": discovery.delta,
        "together": _joint_cost(discovery, fit, events),
        "certificate": discovery.to_json(),
    }


def check_discovery_claim(fit: Certificate) -> None:
    """Checks what the certificate of a fit states of a discovery, if it states one.

    The discovery's certificate is in the claim, so all of it can be computed again.

    Raises:
        ModelError: if the discovery's certificate is missing or does not hold, or the
            claim differs from what follows from it.
    """
    if DISCOVERY_KEY not in fit.public:
        return
    claim = fit.public[DISCOVERY_KEY]
    if (
        not isinstance(claim, Mapping)
        or not isinstance(claim.get("certificate"), Mapping)
        or "together" not in claim
    ):
        raise ModelError(
            "the certificate names a discovery without the discovery's certificate: do "
            "not rely on it."
        )
    discovery = Certificate.from_json(claim["certificate"])
    discovery.check()
    check_discovery(discovery)
    expected = discovery_claim(discovery, fit, fit.events)
    # The joint cost is compared with a tolerance, all else exactly.
    rest_is_equal = {**claim, "together": None} == {**expected, "together": None}
    cost_is_equal = _is_close_cost(claim["together"], expected["together"])
    if not rest_is_equal or not cost_is_equal:
        raise ModelError(
            "the certificate states another cost or digest of the discovery before it "
            "than the discovery's own certificate gives: do not rely on it."
        )


def _is_close_cost(claimed: Any, computed: Mapping[str, float] | None) -> bool:
    """Returns whether a claimed joint cost is the computed one, but for rounding.

    Args:
        claimed: JSON from a file that anybody may have edited.
        computed: `epsilon` and `delta`; None where the costs cannot be combined, and
            then nothing but None may be claimed.
    """
    if claimed is None or computed is None:
        return claimed is computed
    try:
        claimed_costs = {name: float(value) for name, value in claimed.items()}
    except (AttributeError, TypeError, ValueError):
        return False
    return claimed_costs.keys() == computed.keys() and all(
        math.isclose(claimed_costs[name], computed[name], rel_tol=_COST_TOLERANCE)
        for name in claimed_costs
    )


def _joint_cost(
    discovery: Certificate, fit: Budget | Certificate, events: tuple[Event, ...]
) -> dict[str, float] | None:
    """Computes what a discovery and a fit cost together, on the same records.

    δ is the sum of both. ε is the sum too, or that of all events composed at this δ if
    it is less, which is possible if all are Gaussian: the discovery may have chosen
    what the fit asks, and Gaussian sums compose as well when later ones depend on
    earlier answers (G-13, and G-15 with thresholds).

    Args:
        discovery: The certificate of the discovery.
        fit: Budget of the fit, or its certificate.
        events: What the fit runs.

    Returns:
        `epsilon` and `delta`, rounded up to six digits; None if the two protect unlike
        units or neighbours, whose costs cannot be combined.
    """
    protects_the_same = (
        discovery.adjacency == fit.adjacency
        and discovery.unit == fit.unit
        and discovery.contributions == fit.contributions
    )
    if not protects_the_same:
        return None
    # Decimals, so that 1e-6 + 1e-5 is 1.1e-5 before it is rounded up.
    sum_of_deltas = Decimal(repr(discovery.delta)) + Decimal(repr(fit.delta))
    delta = accounting.round_up(sum_of_deltas)
    all_events = (*discovery.events, *events)
    epsilon = discovery.epsilon + fit.epsilon
    if all(isinstance(event, _COMPOSED_EVENTS) for event in all_events):
        composed = accounting.epsilon(all_events, delta, fit.adjacency)
        epsilon = min(epsilon, composed)
    return {"epsilon": accounting.round_up(Decimal(epsilon)), "delta": delta}


def with_discovery(fit: Certificate) -> Certificate:
    """Returns the certificate of a fit together with the discovery of its schema.

    A public page promises what it states. There are three cases::

        no discovery, or costs that cannot be combined    the fit's certificate itself
        some events are not Gaussian                      the joint cost of the claim
        all events are Gaussian                           all events, at the fit's δ

    The second and the third differ in δ. The claim states the sum of both δ, as it must
    where ε is a sum. Composed events need no sum: one ε holds for all of them at the
    fit's δ, which is what the page states of the fit anyway.

    `silos` is dropped in both, since a certificate with silos must have the events of
    one of them, and the discovery belongs to none.

    Args:
        fit: The certificate of a fit.

    Returns:
        The joint certificate, of which ε, δ and events are joint and the rest is the
        fit's. Without composed events it has none, so it cannot be checked by itself;
        the fit's certificate can.
    """
    claim = fit.public.get(DISCOVERY_KEY)
    if not isinstance(claim, Mapping) or claim.get("together") is None:
        return fit

    discovery_events = Certificate.from_json(claim["certificate"]).events
    joint_epsilon = accounting.joint_epsilon(
        discovery_events, fit.composed, fit.delta, fit.adjacency
    )
    if joint_epsilon is None:
        claimed_cost = claim["together"]
        return replace(
            fit,
            epsilon=claimed_cost["epsilon"],
            delta=claimed_cost["delta"],
            events=(),
            silos=None,
        )
    # Four digits, as in `schema_cost_sentence`. By its shortest decimal, as the float
    # next to 0.1 is a little above it and would be rounded up to 0.1001. A fit may
    # state more than its events cost, and with a discovery it costs no less.
    shown_epsilon = accounting.round_up(Decimal(repr(joint_epsilon)), 4)
    return replace(
        fit,
        epsilon=max(shown_epsilon, fit.epsilon),
        events=(*discovery_events, *fit.composed),
        silos=None,
    )
