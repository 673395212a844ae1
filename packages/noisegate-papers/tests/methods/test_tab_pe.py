"""Tab-PE: candidates follow from what was released, records vote, and votes say which cells come together."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.sums import moves, squared

from noisegate import Gate, TabPE
from noisegate.data.tables.tables import TableSource
from noisegate.errors import ModelError
from noisegate.gate.sums import SumTask
from noisegate.privacy.events import Adjacency
from noisegate.records import Rows
from noisegate.schema import Boolean, Categorical, Continuous, Integer, Schema
from noisegate_papers.training.evolution import Evolution, OneWay

from .conftest import votes_of

COLUMNS = (
    Continuous(name="x", lower=0.0, upper=1.0, missing=True),
    Integer(name="n", lower=0, upper=90),
    Categorical(name="a", levels=("p", "q")),
    Categorical(name="b", levels=("p", "q")),
    Boolean(name="ill"),
)
SCHEMA, PLAIN = Schema(COLUMNS, label="ill"), Schema(COLUMNS)
TOLD = {"candidates": 300, "rounds": 1, "variation": 0.5, "label_weight": 1.0, "seed": 0}
BOTH = pytest.mark.parametrize("schema", [SCHEMA, PLAIN], ids=["label", "plain"])


def people(rows=3000, seed=0):
    """Returns records that are ill when a and b differ, but for a tenth of them: no pair of columns says anything."""
    random = np.random.default_rng(seed)
    a, b = random.integers(0, 2, (2, rows))
    x = random.beta(2, 5, rows)
    return pa.table(
        {
            "x": pa.array(x, mask=random.random(rows) < 0.1),
            "n": random.integers(0, 91, rows),
            "a": np.array(["p", "q"])[a],
            "b": np.array(["p", "q"])[b],
            "ill": np.where(random.random(rows) < 0.9, a != b, a == b),
        }
    )


def gate_of(schema, epsilon=2.0, rows=3000, **options):
    return Gate(people(rows), schema=schema, epsilon=epsilon, records=rows, **options)


@BOTH
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_record_votes_once_in_every_round_whatever_the_candidates(schema, adjacency, asked):
    method, gate = TabPE(rounds=3, candidates=300), gate_of(schema, adjacency=adjacency)
    plan = method.plan(schema, gate.budget)
    method.query(gate, plan)
    records = Rows.concatenate(list(TableSource(people(300), schema).batches()))
    for place, votes in enumerate(votes_of(asked)):
        planned = plan.release(f"votes-{place + 1}")
        bound = planned.query.grid.bound
        task = SumTask(feature_map=votes, grid=planned.query.grid, columns=1, label=None)
        assert task.exact is not None, "votes are counted in integers"
        for removed, replaced in moves(records, votes, planned.query.grid, 10):
            assert np.count_nonzero(removed) == 1
            assert squared(removed) <= bound.sensitivity_squared(Adjacency.ADD_REMOVE)
            assert squared(replaced) <= bound.sensitivity_squared(Adjacency.REPLACE_ONE)
        assert planned.event.sensitivity == bound.sensitivity(adjacency)


@BOTH
def test_candidates_follow_from_what_was_released_and_from_nothing_else(schema, asked):
    method = TabPE(rounds=3, candidates=300)
    release = method.query(gate_of(schema))
    first = [one.candidates for one in votes_of(asked)]
    evolution = method.evolution(method.design(schema, 2.0), release)
    assert np.array_equal(evolution.votes.candidates, first[0])
    for place in (1, 2):
        evolution.select(release.values[f"votes-{place}"][:, 0])
        assert np.array_equal(evolution.votes.candidates, first[place])
    # The same records with other noise have other candidates, so the comparison can fail.
    asked.clear()
    method.query(gate_of(schema))
    assert not np.array_equal(votes_of(asked)[1].candidates, first[1])


def test_votes_of_other_candidates_are_refused():
    method = TabPE(rounds=2, candidates=300)
    release = method.query(gate_of(SCHEMA))
    with pytest.raises(ModelError, match=f"holds {len(release.values['votes-2']) - 1} votes in round 2"):
        method.model(replace(release, values={**release.values, "votes-2": release.values["votes-2"][1:]}))


def test_a_label_that_no_pair_of_columns_knows_is_learned():
    made = TabPE().fit(gate_of(SCHEMA, rows=20_000), device="cpu").sample(20_000, seed=0).to_pandas()
    differ = made.a != made.b
    assert made.ill[differ].mean() - made.ill[~differ].mean() > 0.4


def test_a_parity_of_six_columns_is_learned_where_every_combination_can_be_asked_for():
    names, random = [f"x{place}" for place in range(9)], np.random.default_rng(1)
    held = random.random((14_000, 9)) < 0.5
    odd = (held[:, :6].sum(axis=1) % 2 == 1) ^ (random.random(len(held)) < 0.05)
    records = pa.table({**dict(zip(names, held.T, strict=True)), "odd": odd})
    schema = Schema(tuple(Boolean(name=name) for name in (*names, "odd")), label="odd")
    gate = Gate(records, schema=schema, epsilon=1.0, records=len(held))
    made = TabPE().fit(gate, device="cpu").sample(14_000, seed=0).to_pandas()
    assert ((made[names[:6]].sum(axis=1) % 2 == 1) == made.odd).mean() > 0.9


def test_a_release_from_before_candidates_were_distinct_is_read_with_those_it_had():
    method, gate = TabPE(candidates=300), gate_of(SCHEMA)
    release = method.query(gate)
    design = method.design(SCHEMA, 2.0)
    answers = replace(release, values={name: value for name, value in release.values.items() if name != "votes-1"})
    before = Evolution(OneWay.read(design, answers), **TOLD, noise_std=release.noise_std["votes-1"], distinct=False)
    assert len(before.candidates) == 300 > len(method.evolution(design, answers).candidates)
    old = replace(release, values={**release.values, "votes-1": np.zeros((300, 1))})
    assert np.array_equal(method.evolution(design, old).candidates, before.candidates)


@BOTH
def test_one_way_tables_are_those_that_were_bought(schema):
    made = TabPE().fit(gate_of(schema, epsilon=20.0, rows=10_000), device="cpu").sample(10_000, seed=0).to_pandas()
    real = people(10_000).to_pandas()
    assert made.ill.mean() == pytest.approx(real.ill.mean(), abs=0.02)
    assert made.x.isna().mean() == pytest.approx(real.x.isna().mean(), abs=0.02)
    assert made.x.mean() == pytest.approx(real.x.mean(), abs=0.02)
    assert made.n.std() == pytest.approx(real.n.std(), rel=0.05)
