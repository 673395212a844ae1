"""What the tests of the gate share: schemas, a map that says whatever it is told to, an engine that shows its sums."""

import sys
from dataclasses import dataclass, field
from datetime import date

import numpy as np
import pandas as pd
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer, ordinal
from tests.shared.played import Played
from tests.shared.stated import ledger_of

from noisegate.gate import samples
from noisegate.gate.gate import Gate
from noisegate.gate.sessions.gradients import GradientVectors
from noisegate.gate.sessions.shards import BatchVectors, ShardVectors
from noisegate.gate.sums import Engine, LocalEngine, SumTask
from noisegate.privacy import noise
from noisegate.privacy.events import Adjacency
from noisegate.privacy.plan import Budget, Query, plan_sums
from noisegate.schema import (
    Date,
    EncodedTable,
    Schema,
)
from noisegate_papers.methods.dp_merf import DPMERF


@dataclass
class Chosen:
    """A feature map that looks up the vector of a record by its first code, so that a test can make it say anything."""

    vectors: np.ndarray
    norm: float = 1.0
    nonnegative: bool = False

    @property
    def dim(self):
        return self.vectors.shape[1]

    def __call__(self, records):
        return self.vectors[records.codes[:, 0]]


@dataclass
class ShowingEngine(Engine):
    """The local engine, which leaves the exact sums where a test can see them."""

    threads: int = 2
    totals: list = field(default_factory=list)
    tasks: dict = field(default_factory=dict)

    def sum(self, source, tasks, progress):
        self.tasks = tasks
        self.totals.append(
            LocalEngine(threads=self.threads).sum(source, tasks, progress)
        )
        return self.totals[-1]


@pytest.fixture
def ledger(tmp_path, request):
    """A ledger in which the data set "clinic" has the cap that the file of the test states."""
    return ledger_of(tmp_path, epsilon=request.module.CAP)


@pytest.fixture
def exactly(monkeypatch):
    """Steps hand out their integers, without noise and in grid units."""
    monkeypatch.setattr(noise, "add_noise", lambda sums, **_: sums)
    for vectors in (GradientVectors, BatchVectors, ShardVectors):
        monkeypatch.setattr(vectors, "unpacked", lambda self, noisy: noisy)


@pytest.fixture
def everyone(monkeypatch):
    """Every record is in every sample."""
    monkeypatch.setattr(
        samples, "poisson_sample", lambda records, rate, _: np.arange(records)
    )


@pytest.fixture
def chosen():
    return Chosen


@pytest.fixture
def showing_engine():
    return ShowingEngine


@pytest.fixture
def mixed_schema():
    return Schema(
        (
            integer("age", 17, 90, missing=True),
            continuous("rate", -1.5, 2.7, missing=True),
            categorical(
                "work", ("private", "state", "other"), other="other", missing=True
            ),
            boolean("member"),
            Date(name="born", lower=date(1900, 1, 1), upper=date(2020, 12, 31)),
            ordinal("grade", (1, 2, 3)),
        ),
        label="grade",
    )


@pytest.fixture
def people():
    """Makes a data frame of the mixed schema, with missing values and values outside the bounds."""

    def make(rows, seed=0):
        random = np.random.default_rng(seed)
        frame = pd.DataFrame(
            {
                "age": pd.array(random.integers(10, 100, rows), dtype="Int64"),
                "rate": random.normal(size=rows) * 2,
                "work": random.choice(["private", "state", "nobody knows"], rows),
                "member": random.uniform(size=rows) < 0.3,
                "born": [
                    date(1950 + int(i), 2, 3) for i in random.integers(0, 60, rows)
                ],
                "grade": random.integers(1, 4, rows),
            }
        )
        frame.loc[random.uniform(size=rows) < 0.2, "age"] = pd.NA
        frame.loc[random.uniform(size=rows) < 0.2, "rate"] = np.nan
        frame.loc[random.uniform(size=rows) < 0.2, "work"] = None
        return frame

    return make


@pytest.fixture
def encoded():
    """Makes encoded records of a layout: uniform, with missing values where they are allowed."""

    def make(layout, rows, seed=0):
        random = np.random.default_rng(seed)
        numeric = random.uniform(size=(rows, len(layout.numeric)))
        for index, column in enumerate(layout.numeric):
            if column.missing:
                numeric[random.uniform(size=rows) < 0.2, index] = np.nan
        codes = np.stack(
            [random.integers(0, column.size, rows) for column in layout.coded], axis=1
        )
        return EncodedTable(numeric=numeric, codes=codes.astype(np.int32))

    return make


@pytest.fixture
def merf_tasks():
    """The sums that DP-MERF asks for, as the gate sets them up."""

    def make(schema, adjacency="add-remove", frequencies=60):
        method = DPMERF(frequencies=frequencies)
        plan = method.plan(
            schema, Budget(epsilon=1.0, adjacency=Adjacency.parse(adjacency))
        )
        maps = method.maps(schema)
        return {
            release.query.name: SumTask(
                feature_map=maps[release.query.name],
                grid=release.query.grid,
                columns=release.query.columns,
                label=schema.layout.label if release.query.columns > 1 else None,
            )
            for release in plan.releases
        }

    return make


@pytest.fixture
def lookup_schema():
    """A record chooses one of `size` vectors and one of two labels."""

    def make(size, label=True):
        columns = (
            ordinal("which", tuple(range(size))),
            boolean("label"),
        )
        return Schema(columns, label="label" if label else None)

    return make


@pytest.fixture
def ask(lookup_schema):
    """Sends records of `lookup_schema` through a gate; returns the release and the exact sums."""

    def run(rows, maps, *, shares=None, label=True, **options):
        size = len(next(iter(maps.values())).vectors)
        schema = lookup_schema(size, label)
        engine = ShowingEngine()
        options = {"epsilon": 1.0, "engine": engine, **options}
        frame = pd.DataFrame(rows, columns=["which", "label"]).astype(
            {"which": int, "label": bool}
        )
        gate = Gate(frame, schema=schema, **options)
        questions = tuple(
            Query(
                name=name,
                dim=chosen.dim,
                columns=2 if label else 1,
                norm=chosen.norm,
                share=(shares or {}).get(name, 1.0),
                nonnegative=chosen.nonnegative,
            )
            for name, chosen in maps.items()
        )
        release = gate.sum(
            plan_sums(gate.budget, questions),
            maps,
            method="test",
            public={},
        )
        return release, engine.totals[0]

    return run


@pytest.fixture
def joined(monkeypatch):
    """A cluster that is played."""
    monkeypatch.setattr("noisegate.gate.engines.ray.require", lambda *_: None)
    ray = Played()
    ray.is_initialized = lambda: True
    ray.cluster_resources = lambda: {"CPU": 3.0}
    monkeypatch.setitem(sys.modules, "ray", ray)
    return ray
