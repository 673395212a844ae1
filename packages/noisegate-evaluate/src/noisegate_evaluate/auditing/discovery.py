"""The audit of a schema's discovery, by the noisy counts of missing values that it prints, rounded to a whole.

Half of the made-up records lack every value, the other half has the same one; the record that makes the difference
lacks every value, and moves one count of each column that is printed. What cells inside the bounds tell is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from noisegate.discovery.schema_gate import Discovery, SchemaGate
from noisegate.errors import OptionError
from noisegate.privacy.events import Adjacency
from noisegate.privacy.plan import Budget
from noisegate.privacy.schema_certificate import RECORD
from noisegate_evaluate.auditing.measure import Seen, form_of, measured
from noisegate_evaluate.auditing.report import AuditReport

DISCOVERY = "discover"
KINDS = {"age": "integer", "dose": "continuous", "ward": "categorical", "drug": "categorical"}
_NUMERIC, _TEXTS = ("age", "dose"), ("ward", "drug")
_VALUES = {"age": 40, "dose": 0.5, "ward": "north", "drug": "none"}
# So many standard deviations stand between either half and nothing, or the threshold.
_FAR = 60
_MOST = 10**6
# A note on missing values, and the column that it stands before.
_LACK = re.compile(
    r"^#.*?(\d+)(?: ± \d+)? records lack a value.*\n(?:#.*\n)*\[columns\.\"?([^\]\"]+)\"?\]", re.MULTILINE
)


def audit_discovery(
    budget: Budget, *, runs: int, chance: float, progress: Callable[[int, int], None] = lambda *_: None
) -> AuditReport:
    """Returns what the audit of a discovery finds: see `noisegate.audit`."""
    half = math.ceil(_FAR * _gate(budget, 1, 1, records=_MOST).plan.noise_records)  # nothing is read
    if half > _MOST:
        raise OptionError(f"epsilon={budget.epsilon:g} is too small to audit a discovery: take 0.01 or more.")
    replaced, seen = budget.adjacency is Adjacency.REPLACE_ONE, list[Seen]()
    for done in range(runs):
        world = done % 2
        found = _gate(budget, half + (1 - world if replaced else 0), half + world).discover()
        seen.append(_seen(found, world, half))
        progress(done + 1, runs)
    return measured(seen, found.certificate, kind="projection", chance=chance)


def _gate(budget: Budget, values: int, missing: int, *, records: int | None = None) -> SchemaGate:
    """Returns the gate before records that have every value or none."""
    import pyarrow as pa

    types = {"age": pa.int64(), "dose": pa.float64(), "ward": pa.string(), "drug": pa.string()}
    table = pa.table(
        {name: pa.array([_VALUES[name]] * values + [None] * missing, type=kind) for name, kind in types.items()}
    )
    claim: dict[str, Any] = {name: getattr(budget, name) for name in ("epsilon", "delta", "adjacency", "unit")}
    if budget.adjacency is Adjacency.REPLACE_ONE:
        claim["records"] = records or values + missing
    return SchemaGate(table, kinds=KINDS, **claim)


def _seen(found: Discovery, world: int, half: int) -> Seen:
    seen = Seen(world=world, form=form_of(found.certificate))
    counts = {column: int(lack) for lack, column in _LACK.findall(found.toml)}
    events = {event.name: event for event in found.certificate.events}
    for name, columns in (("magnitudes", _NUMERIC), ("levels", _TEXTS)):
        # What is printed is rounded to a whole record, which adds the variance of a uniform number.
        std = math.sqrt((events[name].noise_std / RECORD) ** 2 + 1 / 12)  # type: ignore[union-attr]
        noisy = np.array([counts[column] for column in columns]) / std
        worlds = np.array([np.full(len(columns), half), np.full(len(columns), half + 1)]) / std
        seen.answer(name, noisy, worlds)
    return seen
