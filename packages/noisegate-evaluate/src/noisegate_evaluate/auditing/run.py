"""`noisegate.audit`: runs a method on simulated records, and tries to tell whose they are from what it releases."""

import math
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from noisegate.errors import OptionError, said
from noisegate.gate.discovery.schema_gate import Discovery, SchemaGate
from noisegate.privacy.events import Adjacency, ZeroConcentrated, gaussian_of
from noisegate.privacy.plan import Budget
from noisegate.privacy.schema_certificate import RECORD
from noisegate.schema import Schema
from noisegate.schema.linked.schema import LinkedSchema
from noisegate_evaluate.auditing.attacks import (
    ANSWERS,
    ATTACKS,
    CHANCE,
    PROJECTION,
    Auditor,
    Progress,
)
from noisegate_evaluate.auditing.examples import example
from noisegate_evaluate.auditing.measure import AuditReport, measured
from noisegate_evaluate.auditing.observation import Observation, release_digest

DISCOVERY = "discover"
# Kind and type of each made-up column, and the value of the records that have one.
_COLUMNS = {
    "age": ("integer", pa.int64(), 40),
    "dose": ("continuous", pa.float64(), 0.5),
    "ward": ("categorical", pa.string(), "north"),
    "drug": ("categorical", pa.string(), "none"),
}
_NUMERIC = ("age", "dose")
_TEXTS = ("ward", "drug")
_FAR = 60  # so many standard deviations stand between either half and nothing, or the threshold
_MOST = 10**6
# A note on missing values, and the column that it stands before.
_LACK = re.compile(
    r"^#.*?(\d+)(?: ± \d+)? records lack a value.*\n(?:#.*\n)*\[columns\.\"?([^\]\"]+)\"?\]",
    re.MULTILINE,
)


def audit_discovery(
    budget: Budget,
    *,
    runs: int,
    chance: float,
    progress: Progress,
) -> AuditReport:
    """Returns what the audit of a discovery finds, by the noisy counts of missing values that it prints."""
    # Half of the simulated records lack every value, the other half has the same one; the record that makes the
    # difference lacks every value, and moves one count of each column that is printed. What cells inside bounds tell is
    # left out.
    half = math.ceil(
        _FAR * _gate(budget, 1, 1, records=_MOST).noise_records
    )  # nothing is read
    if half > _MOST:
        raise OptionError(
            f"epsilon={budget.epsilon:g} is too small to audit a discovery: take 0.01 or more."
        )
    replaced = budget.adjacency is Adjacency.REPLACE_ONE
    observations = list[Observation]()
    for done in range(runs):
        world = done % 2
        values = half + (1 - world if replaced else 0)
        discovery = _gate(budget, values, half + world).discover()
        observations.append(_observation(discovery, world, half))
        progress(done + 1, runs)
    return measured(
        observations, discovery.certificate, kind="projection", chance=chance
    )


def _no_progress(done: int, total: int) -> None:
    """Ignores the number of runs done."""


def _gate(
    budget: Budget, values: int, missing: int, *, records: int | None = None
) -> SchemaGate:
    table = pa.table(
        {
            name: pa.array([value] * values + [None] * missing, type=dtype)
            for name, (_, dtype, value) in _COLUMNS.items()
        }
    )
    is_public = budget.adjacency is Adjacency.REPLACE_ONE
    return SchemaGate(
        table,
        kinds={name: kind for name, (kind, _, _) in _COLUMNS.items()},
        epsilon=budget.epsilon,
        delta=budget.delta,
        adjacency=budget.adjacency,
        unit=budget.unit,
        records=(records or values + missing) if is_public else None,
    )


def _observation(discovery: Discovery, world: int, half: int) -> Observation:
    certificate = discovery.certificate
    observation = Observation(world=world, digest=release_digest(certificate))
    counts = {column: int(lack) for lack, column in _LACK.findall(discovery.toml)}
    gaussians = {
        event.name: gaussian_of(event)
        for event in certificate.events
        if not isinstance(event, ZeroConcentrated)
    }
    for name, columns in (("magnitudes", _NUMERIC), ("levels", _TEXTS)):
        # What is printed is rounded to a whole record, which adds the variance of a uniform number.
        std = math.sqrt((gaussians[name].noise_std / RECORD) ** 2 + 1 / 12)
        noisy = np.array([counts[column] for column in columns]) / std
        worlds = np.array([[half], [half + 1]]) * np.ones(len(columns)) / std
        observation.add_answer(name, noisy, worlds)
    return observation


def audit(
    target: Any,
    *,
    schema: Schema | LinkedSchema | str | Path | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    adjacency: Adjacency | str | None = None,
    runs: int | None = None,
    by: str = PROJECTION,
    progress: Progress | None = None,
    **settings: Any,
) -> AuditReport:
    """Computes a lower bound on the ε of a method, to compare with the ε that the method claims.

    No private record is read. The method runs on simulated records: on two neighbouring data sets that form a worst
    case. A bound above the claim refutes the claim. A bound below the claim proves nothing.

    Args:
        target: Name of a method, or folder of a saved model. A folder supplies schema, settings and budget for all that
            are not given here.
        schema: Schema of the simulated records; None for a small built-in one.
        epsilon: Claimed ε; None for that of the folder, or 1.
        delta: Claimed δ; None for that of the folder, or 1e-5.
        adjacency: Neighbouring relation.
        runs: Number of runs on both data sets together; with `by="one-run"`, the number of canaries. None for as many
            as estimate the noise to within about a tenth.
        by: What the attacker sees: "projection" is the complete release; "one-run" is the release of one run with many
            canaries, with a bound that assumes nothing about the method; "samples" is synthetic records only;
            "attribute" is synthetic records and all columns but one of a record, whose value in that column is guessed.
        progress: Called with the number of runs done and the number of all runs.
        settings: Settings of the method; without settings and schema, small ones are used.

    Returns:
        The lower bound, the claim, and what they were computed from.

    Raises:
        UserError: if an argument is unusable.

    Examples:
        >>> from noisegate import audit
        >>> report = audit("dp-merf", epsilon=1.0, runs=4, frequencies=5)
        >>> report.claim, 0 <= report.lower_bound
        (1.0, True)
    """
    if runs is not None and (
        isinstance(runs, bool) or not isinstance(runs, int) or runs < 4
    ):
        raise OptionError(
            f"{said('runs', runs)} must be a whole number, 4 or more: two in each of two data sets."
        )
    if by not in ATTACKS:
        raise OptionError(
            f"{said('by', by)} is not known; choose one of {', '.join(ATTACKS)}."
        )
    if progress is None:
        progress = _no_progress
    claim: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    if adjacency is not None:
        claim["adjacency"] = Adjacency.parse(adjacency)
    claim = {name: value for name, value in claim.items() if value is not None}
    if target == DISCOVERY:
        if by != PROJECTION:
            raise OptionError(
                f"by={by!r}: {DISCOVERY} releases no records and can be audited by "
                f"{PROJECTION} alone."
            )
        if schema is not None or settings:
            raise OptionError(
                f"{DISCOVERY} has no settings, and finds a schema by itself; leave out "
                "those that were given."
            )
        budget = Budget(**{"epsilon": 1.0, **claim})
        return audit_discovery(
            budget, runs=runs or ANSWERS, chance=CHANCE, progress=progress
        )
    with tempfile.TemporaryDirectory() as folder:
        method, used_schema, budget = example(
            target, schema=schema, settings=settings, folder=Path(folder)
        )
        budget = replace(budget, **claim)
        auditor = Auditor(method=method, schema=used_schema, budget=budget)
        return ATTACKS[by](auditor, runs=runs, progress=progress)
