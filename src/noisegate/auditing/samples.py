"""The black-box audit: the attacker sees synthetic records and nothing else."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from noisegate.auditing.bounds import scaled, sensitivity_factor
from noisegate.auditing.measure import by_threshold
from noisegate.auditing.projection import CHANCE, Auditor, Progress
from noisegate.auditing.report import AuditReport
from noisegate.auditing.watched import Watch
from noisegate.auditing.worlds import Worlds
from noisegate.data.tables import TableSource
from noisegate.errors import OptionError
from noisegate.methods.llm import DPLLM
from noisegate.privacy import accounting
from noisegate.privacy.events import Event
from noisegate.privacy.plan import Budget
from noisegate.schema import EncodedTable, Schema

if TYPE_CHECKING:
    from noisegate.methods.catalogue import AnyMethod
    from noisegate.methods.method import Method

SAMPLES = "samples"
_RUNS, _ROWS = 60, 200
_NEAR = 0.1


def from_samples(
    method: AnyMethod,
    schema: Schema,
    budget: Budget,
    *,
    runs: int | None = None,
    chance: float = CHANCE,
    progress: Progress | None = None,
) -> AuditReport:
    """Returns what an audit of synthetic records finds: see `noisegate.audit`.

    Half of the runs teach the attacker where to draw the line: how much more the synthetic records agree with the
    record that makes the difference than with the others.

    Args:
        method: With its settings.
        schema: Of the made-up records.
        budget: What it shall claim.
        runs: In both worlds together; None for 60.
        chance: That the bound is wrong.
        progress: Called with the runs that were done and how many there will be.

    Raises:
        OptionError: if the method makes no records.
    """
    if isinstance(method, DPLLM):
        raise OptionError(f"{method.name} makes no records; audit it by projection.")
    auditor = Auditor(method=method, schema=schema, budget=budget)
    worlds, total = auditor.worst_worlds(), runs or _RUNS
    scores, events = [], None
    for done in range(total):
        score, events = _score(auditor, method, worlds, done % 2)
        scores.append(score)
        if progress:
            progress(done + 1, total)
    world = np.arange(total) % 2
    learnt = np.arange(total) < total // 2
    said, used = by_threshold(np.array(scores), world, learnt), ~learnt
    assert events is not None
    hits, alarms = said[used & (world == 1)], said[used & (world == 0)]
    factor = sensitivity_factor(events, budget.adjacency, hits, alarms, chance)
    larger = [scaled(event, factor) for event in events] if factor else []
    found = accounting.epsilon(larger, budget.delta, budget.adjacency)
    return AuditReport(
        method=method.name,
        kind=SAMPLES,
        claim=budget.epsilon,
        delta=budget.delta,
        adjacency=budget.adjacency.value,
        lower_bound=found,
        from_noise=0.0,
        from_guesses=found,
        noise=(0.0, math.inf),
        along=(0.0, math.inf),
        runs=total,
        confidence=1 - chance,
    )


def _score(auditor: Auditor, method: Method, worlds: Worlds, world: int) -> tuple[float, tuple[Event, ...]]:
    release = auditor.ask(worlds, world, Watch(parts=[worlds.new], singles=worlds.new, on_step=lambda *_: None))
    table = method.fit_release(release, device="cpu").sample(_ROWS)
    made = EncodedTable.concatenate(list(TableSource(table, auditor.schema).batches()))
    rest = worlds.others if worlds.old is None else worlds.old
    return _agreement(made, worlds.new) - _agreement(made, rest), release.certificate.events


def _agreement(made: EncodedTable, one: EncodedTable) -> float:
    """Returns the mean share of columns in which records agree with one."""
    alike = [made.codes == one.codes, np.nan_to_num(np.abs(made.numeric - one.numeric), nan=1.0) < _NEAR]
    return float(np.square(np.concatenate(alike, axis=1).mean(axis=1)).mean())
