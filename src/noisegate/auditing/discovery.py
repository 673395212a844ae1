"""The audit of a schema's discovery: what it writes of missing values is the noisy count of them, rounded to a whole.

Half of the made-up records lack every value, the other half has the same one; the record that makes the difference
lacks every value, and so moves one count of each column that is printed. Cells inside the bounds are not printed: what
they tell is left out, and the lower bound is of the rest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from noisegate.auditing.measure import Seen, form_of, measured
from noisegate.auditing.report import AuditReport
from noisegate.errors import OptionError
from noisegate.gate.queries.discovery import Discovery, SchemaGate
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.discovery_plan import RECORD
from noisegate.privacy.events import Adjacency
from noisegate.privacy.plan import Budget

DISCOVERY = "discover"
KINDS = {"age": "integer", "dose": "continuous", "ward": "categorical", "drug": "categorical"}
_NUMERIC, _TEXTS = ("age", "dose"), ("ward", "drug")
_VALUES = {"age": 40, "dose": 0.5, "ward": "north", "drug": "none"}
# So many standard deviations stand between either half and nothing, or the threshold.
_FAR = 60
_LACK = re.compile(r"(?:about )?(\d+)(?: ± \d+)? records lack a value")


def audit_discovery(
    budget: Budget, *, runs: int, chance: float, progress: Callable[[int, int], None] = lambda *_: None
) -> AuditReport:
    """Returns what the audit of a discovery finds: see `noisegate.audit`."""
    plan = SchemaGate(_table(1, 1), epsilon=budget.epsilon, delta=budget.delta, kinds=KINDS, **_public(budget, 2)).plan
    half = math.ceil(_FAR * plan.noise_records)
    if half > 10**6:
        raise OptionError(f"epsilon={budget.epsilon:g} is too small to audit a discovery: take 0.01 or more.")
    seen: list[Seen] = []
    certificate: Certificate | None = None
    for done in range(runs):
        seen_now, certificate = _run(budget, half, world=done % 2)
        seen.append(seen_now)
        progress(done + 1, runs)
    assert certificate is not None
    return measured(seen, certificate, kind="projection", chance=chance)


def _run(budget: Budget, half: int, *, world: int) -> tuple[Seen, Certificate]:
    replaced = budget.adjacency is Adjacency.REPLACE_ONE
    table = _table(half + (1 - world if replaced else 0), half + world)
    gate = SchemaGate(table, epsilon=budget.epsilon, delta=budget.delta, kinds=KINDS, **_public(budget, 2 * half + 1))
    found = gate.discover()
    return _seen(found, world, half), found.certificate


def _seen(found: Discovery, world: int, half: int) -> Seen:
    seen = Seen(world=world, form=form_of(found.certificate))
    counts = _printed(found.toml)
    events = {event.name: event for event in found.certificate.events}
    for name, columns in (("magnitudes", _NUMERIC), ("levels", _TEXTS)):
        event = events[name]
        # What is printed is rounded to a whole record, which adds the variance of a uniform number.
        std = math.sqrt((event.noise_std / RECORD) ** 2 + 1 / 12)  # type: ignore[union-attr]
        noisy = np.array([counts[column] for column in columns]) / std
        worlds = np.array([np.full(len(columns), half), np.full(len(columns), half + 1)]) / std
        seen.answer(name, noisy, worlds)
    return seen


def _printed(toml: str) -> dict[str, int]:
    """Returns the number of records that lack a value, by column, as the notes of a schema file say it."""
    found: dict[str, int] = {}
    lack: int | None = None
    for line in toml.splitlines():
        match = _LACK.search(line)
        if line.startswith("#") and match:
            lack = int(match.group(1))
        elif line.startswith("[columns.") and lack is not None:
            found[line.removeprefix("[columns.").rstrip("]").strip('"')] = lack
            lack = None
    return found


def _table(values: int, missing: int) -> object:
    import pyarrow as pa

    types = {"age": pa.int64(), "dose": pa.float64(), "ward": pa.string(), "drug": pa.string()}
    return pa.table(
        {name: pa.array([_VALUES[name]] * values + [None] * missing, type=kind) for name, kind in types.items()}
    )


def _public(budget: Budget, records: int) -> dict[str, Any]:
    public = {"records": records} if budget.adjacency is Adjacency.REPLACE_ONE else {}
    return {"adjacency": budget.adjacency, "unit": budget.unit, **public}
