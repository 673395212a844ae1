"""`Gate.shards`: noisy sums over disjoint shards, each of which trains a state of its own behind the gate (G-26)."""

import numpy as np
import pandas as pd
import pytest
import torch
from tests.shared.columns import continuous

from noisegate import Gate
from noisegate.errors import OptionError
from noisegate.gate.sessions import shards
from noisegate.privacy import accounting
from noisegate.privacy.gradient_plan import plan_steps, steps_of
from noisegate.privacy.grid import UNITS
from noisegate.privacy.shard_plan import ShardQuery
from noisegate.schema import Schema

SCHEMA = Schema(
    (
        continuous("a"),
        continuous("b"),
    )
)
AT = {"w": torch.zeros(2)}


def frame(rows=200):
    return pd.DataFrame({"a": np.linspace(0, 1, rows), "b": np.linspace(1, 0, rows)})


class Means:
    """A shard keeps a running mean of what it has seen, and answers with it."""

    def __init__(self, records=3, learning=None, warm_up=0, rounds=1):
        self.records = records
        self.learning = learning
        self.warm_up = warm_up
        self.rounds = rounds

    def start(self, shards):
        return {"mean": torch.zeros(shards, 2)}, {"times": torch.zeros(shards)}

    def loss(self, weights, parameters, batch):
        return (weights["mean"] - batch.numeric.mean(dim=0)).square().sum() / 2

    def step(self, weights, state, gradients):
        times = state["times"] + 1
        return {"mean": weights["mean"] - gradients["mean"] / times}, {"times": times}

    def answer(self, weights, parameters, batch):
        return {"g": weights["mean"] + parameters["w"]}


def opened(teacher=None, data=None, *, epsilon=2.0, adjacency="add-remove", **plan):
    data = frame() if data is None else data
    exact = len(data) if adjacency == "replace-one" else None
    gate = Gate(
        data, schema=SCHEMA, epsilon=epsilon, adjacency=adjacency, records=exact
    )
    plan = ShardQuery(
        **{
            "name": "s",
            "steps": 4,
            "shards": 10,
            "clip_norm": 1.0,
            "parameters": {"g": (2,)},
            **plan,
        }
    )
    return gate.shards(
        plan_steps(gate.budget, plan), teacher or Means(), method="test", public={}
    )


def fixed(monkeypatch, records, seed=1):
    """Every session from here on draws the same words, for the first `records` of a data set, and the same numbers."""

    def begin(right):
        def other(session, words, _):
            own = np.random.default_rng(seed).integers(
                2**63, size=records, dtype=np.uint64
            )
            right(session, own[: len(words)], seed)

        return other

    monkeypatch.setattr(
        shards.ShardVectors, "_start_shards", begin(shards.ShardVectors._start_shards)
    )
    monkeypatch.setattr(
        shards.ShardVectors,
        "draw_asked_shards",
        lambda self: np.arange(self.query.shards),
        raising=True,
    )


def test_a_record_is_in_one_shard_and_those_of_others_stay_where_they_are():
    words = np.random.default_rng(0).integers(2**63, size=500, dtype=np.uint64)
    with_it = shards._Split.of(words, 7)
    without = shards._Split.of(np.delete(words, 3), 7)
    assert sorted(with_it.order) == list(range(500))
    assert with_it.sizes.sum() == 500
    assert np.abs(with_it.sizes - without.sizes).sum() == 1
    changed = int(words[3] % 7)
    uniform = np.random.default_rng(1).random((7, 4))
    old = [index for index in range(500) if index != 3]
    for shard in range(7):
        if shard != changed:
            seen = [old[index] for index in without.draw_records(uniform)[shard]]
            assert seen == with_it.draw_records(uniform)[shard].tolist()


def test_a_public_schedule_says_who_learns_whoever_is_asked():
    with opened(Means(learning=3, warm_up=2), shards=10) as session:
        for _ in range(4):
            session.step(AT)
        assert (
            session._steps.vectors._states[1]["times"].tolist()
            == [4.0, 4.0] + [3.0] * 8
        )


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_record_moves_the_sum_by_at_most_the_sensitivity(
    adjacency, exactly, monkeypatch
):
    fixed(monkeypatch, 200)

    class Turned(Means):
        """One record turns the vector of its shard round."""

        def answer(self, weights, parameters, batch):
            return {
                "g": torch.where(weights["mean"][1] > 0.9999, -1.0, 1.0)
                * torch.tensor([0.6, 0.8])
                * 5
            }

    with_it = frame(10).assign(b=0.5)
    with_it.loc[9, "b"] = 1.0
    without = with_it.assign(b=0.5) if adjacency == "replace-one" else with_it[:9]
    sessions = [
        opened(Turned(), data, shards=40, adjacency=adjacency)
        for data in (with_it, without)
    ]
    apart = [session.step(AT) for session in sessions]
    moved = np.linalg.norm((apart[0] - apart[1]).astype(float))
    stated = steps_of(sessions[0].plan).event.event.sensitivity
    assert 0.99 * stated < moved <= stated == 2 * UNITS


def test_without_negative_coordinates_the_diameter_is_smaller_and_they_are_enforced(
    exactly, monkeypatch
):
    fixed(monkeypatch, 200)

    class Other(Means):
        def answer(self, weights, parameters, batch):
            other = weights["mean"][1] > 0.9999
            return {
                "g": torch.where(
                    other, torch.tensor([0.0, 9.0]), torch.tensor([9.0, -9.0])
                )
            }

    with_it = frame(10).assign(b=0.5)
    with_it.loc[9, "b"] = 1.0
    sessions = [
        opened(Other(), data, shards=40, nonnegative=True)
        for data in (with_it, with_it[:9])
    ]
    apart = [session.step(AT) for session in sessions]
    stated = steps_of(sessions[0].plan).event.event.sensitivity
    assert 0.99 * stated < np.linalg.norm((apart[0] - apart[1]).astype(float)) <= stated
    assert stated == pytest.approx(np.sqrt(2) * UNITS, rel=1e-6)
    assert (
        steps_of(
            opened(nonnegative=True, sampling_probability=0.5).plan
        ).event.event.sensitivity
        == 2 * UNITS
    )


def test_only_the_vector_of_the_records_shard_changes(exactly, monkeypatch):
    fixed(monkeypatch, 200)
    answers = []
    for data in (frame(), frame()[:-1]):
        session = opened(data=data, shards=70)
        session.step(AT)
        answers.append(
            session._steps.vectors._clipped_answers(
                session._steps.held_records.all_records(), np.arange(70)
            )
        )
    assert (np.abs(answers[0] - answers[1]).sum(axis=1) > 0).sum() == 1


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_shards_that_may_be_left_out_are_accounted_as_replaced_records(adjacency):
    """`dp_accounting` is the oracle."""
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    session = opened(steps=50, sampling_probability=0.1, adjacency=adjacency)
    event = steps_of(session.plan).event
    accountant = PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE)
    # The norm of a vector is half of the diameter.
    step = dp_accounting.GaussianDpEvent(2 * accounting.effective_multiplier(event))
    accountant.compose(
        dp_accounting.PoissonSampledDpEvent(event.rate, step), event.steps
    )
    assert accounting.epsilon([event], 1e-5) == pytest.approx(
        accountant.get_epsilon(1e-5), rel=2e-3
    )


def test_each_round_sees_other_records():
    with opened(Means(records=1, rounds=9)) as session:
        session.step(AT)
        positions = (
            session._steps.vectors._states[0]["mean"][:, 0] * 199
        )  # whole, where a shard saw one record again and again
    assert (positions - positions.round()).abs().max() > 0.01


def test_each_shard_is_asked_by_itself(exactly):
    class One(Means):
        def answer(self, weights, parameters, batch):
            return {"g": torch.tensor([1.0, 0.0])}

    with opened(One(), steps=20, shards=200, sampling_probability=0.2) as session:
        asked_counts = np.array([session.step(AT)[0] / UNITS for _ in range(20)])
    # Binomial: mean 40, standard deviation 5.7.
    assert np.abs(asked_counts - 40).max() < 34
    assert asked_counts.std() > 2


class Memory(Means):
    def __init__(self):
        super().__init__()
        self.kept = 0.0

    def answer(self, weights, parameters, batch):
        self.kept += 0.01
        return {"g": weights["mean"] + self.kept}


class Branches(Means):
    def loss(self, weights, parameters, batch):
        return super().loss(weights, parameters, batch) * (
            1 if bool(batch.numeric.sum() > 0) else 2
        )


def test_a_teacher_with_a_memory_is_refused():
    with pytest.raises(OptionError, match="another vector each time"):
        opened(Memory()).step(AT)


def test_a_teacher_cannot_branch_on_what_it_sees():
    with pytest.raises(RuntimeError, match="vmap"):
        opened(Branches()).step(AT)


def test_a_session_that_mixes_shards_is_refused(monkeypatch):
    original = shards.ShardVectors._map_over_shards

    def mixed(session, function, *arguments, dims=0):
        results = original(session, function, *arguments, dims=dims)
        return (
            {"g": results["g"] + results["g"].mean(dim=0)}
            if isinstance(results, dict)
            else results
        )

    monkeypatch.setattr(shards.ShardVectors, "_map_over_shards", mixed)
    with pytest.raises(OptionError, match="another shard has other records"):
        opened().step(AT)


def test_answers_of_other_shapes_are_refused():
    with pytest.raises(OptionError, match=r"have shapes .* the plan"):
        opened(parameters={"g": (3,)}).step(AT)


def test_what_is_not_finite_is_a_vector_of_zeros_of_its_shard_alone(exactly):
    class Broken(Means):
        def answer(self, weights, parameters, batch):
            return {
                "g": torch.where(weights["mean"][0] > 0.5, float("nan"), 1.0)
                * torch.tensor([1.0, 0.0])
            }

    with opened(Broken(records=200), frame(400), shards=1) as session:
        noisy_sum = session.step(AT)
    assert noisy_sum[0] in (0, int(UNITS * (1 - 2**-10)))
