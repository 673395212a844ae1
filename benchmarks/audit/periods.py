"""A stream, as an attacker sees it who has all its releases: in one world the first period has one record more."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import noisegate
from noisegate.app.streams.period import Period
from noisegate.gate.streams.state import StreamState
from noisegate.privacy import accounting
from noisegate.privacy import continual_plan as plans
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import Continual, gaussian_of
from noisegate.privacy.silos import PERIOD_PREFIX, Stream
from noisegate.schema import Categorical, Schema
from noisegate_evaluate.auditing.observation import Observation

PERIODS, RECORDS = 6, 20
SCHEMA = Schema(tuple(Categorical(name=name, levels=("a", "b", "c")) for name in "xyz"))


def runs(epsilon: float, count: int) -> tuple[list[Observation], Certificate]:
    """Returns what is seen of so many streams, half of them in each world, and the certificate of one."""
    observations = []
    random = np.random.default_rng(0)
    tables = [_table(random, RECORDS) for _ in range(PERIODS)]
    worlds = [tables, [pa.concat_tables([tables[0], _table(random, 1)]), *tables[1:]]]
    for run in range(count):
        with tempfile.TemporaryDirectory() as folder:
            release, exact = (
                _stream(Path(folder) / "s.json", worlds[run % 2], epsilon),
                [],
            )
        for world in worlds:
            exact.append(
                {
                    name: np.stack([_sums(release, name, one) for one in world])
                    for name in ("pairs", "one-way")
                }
            )
        observation = Observation(world=run % 2)
        for name in exact[0]:
            event = next(
                event for event in release.certificate.events if event.name == name
            )
            assert isinstance(event, Continual)
            late = np.subtract.outer(range(PERIODS), range(PERIODS))
            factor = np.where(
                late >= 0, np.array(event.weights)[late.clip(0)] / 256, 0
            )  # makes the noise white again
            fresh = release.noise_std[name] / accounting.total_noise_factor(
                event.weights, PERIODS
            )
            told = release.values[PERIOD_PREFIX + name].T
            observation.add_answer(
                name,
                factor @ told / fresh,
                np.stack([factor @ world[name] / fresh for world in exact]),
            )
        observations.append(observation)
    events = [gaussian_of(event) for event in release.certificate.events]
    return observations, replace(release.certificate, events=tuple(events))


@contextmanager
def priced_as_one_period() -> Iterator[None]:
    """A bug: a record pays for what it moves in its own period, and not for what later ones take back."""
    right = plans.continual_sensitivity, accounting.continual_sensitivity
    plans.continual_sensitivity = accounting.continual_sensitivity = (
        lambda weights, record, *rest: record
    )
    try:
        yield
    finally:
        plans.continual_sensitivity, accounting.continual_sensitivity = right


def _table(random: np.random.Generator, count: int) -> pa.Table:
    return pa.table(
        {name: random.choice(["a", "b", "c"], count) for name in SCHEMA.names}
    )


def _stream(plan: Path, tables: list[pa.Table], epsilon: float) -> Any:
    noisegate.plan_stream(
        plan, schema=SCHEMA, epsilon=epsilon, periods=PERIODS, method="pairwise"
    )
    run, horizon = plans.read_stream(plan)
    told: dict[str, Any] = {
        "method": run.method,
        "horizon": horizon,
        "state": StreamState(plan),
    }
    release = None
    for number, records in enumerate(tables, 1):
        facts = Stream(
            plan=plans.stream_id(run, horizon), period=number, **asdict(horizon)
        )
        period = Period(**told, facts=facts, after=release)
        gate = run.gate(records, show_values=False, progress=lambda done: None)
        gate.counted = False
        release = period(gate, period.priced(run.method.plan(gate.schema, gate.budget)))
    return release


def _sums(release: Any, name: str, records: pa.Table) -> Any:
    from noisegate.methods.registry import method_of
    from noisegate.schema import EncodedTable
    from noisegate.sources.tables.tables import TableSource

    method = method_of(release.certificate)
    tables = method._rounds_of(release).last_maps()[name]
    return tables(
        EncodedTable.concatenate(list(TableSource(records, SCHEMA).batches()))
    ).sum(axis=0)
