"""Vectors of whole samples (G-24): clipped whole, noise for their diameter, functions of their sample alone."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from tests.shared.columns import continuous
from tests.shared.stated import kinds

from noisegate.errors import OptionError
from noisegate.gate import samples
from noisegate.gate.gate import Gate
from noisegate.ledger.ledger import Kind
from noisegate.privacy import accounting, noise
from noisegate.privacy.certificate import Certificate, render
from noisegate.privacy.events import Adjacency
from noisegate.privacy.gradient_plan import GradientQuery, plan_steps, steps_of
from noisegate.privacy.grid import UNITS
from noisegate.privacy.release import Release
from noisegate.privacy.shard_plan import BatchQuery
from noisegate.schema import Schema

CAP = 2.0
SCHEMA = Schema(
    (
        continuous("a"),
        continuous("b"),
    )
)
AT = {"w": np.zeros(2)}


def frame(rows=40):
    return pd.DataFrame({"a": np.linspace(0, 1, rows), "b": np.linspace(1, 0, rows)})


def mean(at, numeric, codes):
    return {"g": numeric.mean(axis=0) if len(numeric) else np.zeros(2)}


def opened(
    vector=mean,
    data=None,
    *,
    epsilon=2.0,
    adjacency="add-remove",
    journal=None,
    ledger=None,
    **plan,
):
    book = {} if ledger is None else {"ledger": ledger, "dataset": "clinic"}
    data = frame() if data is None else data
    exact = len(data) if adjacency == "replace-one" else None
    gate = Gate(
        data, schema=SCHEMA, epsilon=epsilon, adjacency=adjacency, records=exact, **book
    )
    plan = BatchQuery(
        **{
            "name": "b",
            "steps": 4,
            "sampling_probability": 0.5,
            "clip_norm": 1.0,
            "parameters": {"g": (2,)},
            **plan,
        }
    )
    return gate.batch(
        plan_steps(gate.budget, plan), vector, method="test", public={}, journal=journal
    )


def test_a_step_is_the_clipped_vector_and_noise_of_the_planned_size(monkeypatch):
    monkeypatch.setattr(
        samples, "poisson_sample", lambda records, rate, _: np.arange(30, records)
    )
    clipped = frame()[["a", "b"]].to_numpy()[30:].mean(axis=0)
    clipped *= min(1, 0.4 / np.linalg.norm(clipped))
    with opened(steps=400, clip_norm=0.4, epsilon=50.0) as session:
        std = steps_of(session.plan).noise_std_natural
        left = np.array([session.step(AT)["g"] - clipped for _ in range(400)]) / std
    # 800 draws: an honest standard deviation is off by a sixth, or a mean by 0.2, less than once in 1e8 runs.
    assert np.std(left) == pytest.approx(1, rel=1 / 6)
    assert abs(left.mean()) < 0.2


@pytest.mark.parametrize("length", [1e-3, 0.999, 1.0, 1.5, 1e6, 1e300, np.inf, np.nan])
def test_a_vector_is_clipped_as_a_whole_exactly(length, exactly):
    def vector(at, numeric, codes):
        return {"g": np.array([0.6, 0.8]) * length, "h": np.zeros((2, 1))}

    with opened(vector, parameters={"g": (2,), "h": (2, 1)}) as session:
        noisy_sum = session.step(AT)
    norm = np.sqrt(np.square(noisy_sum.astype(object)).sum())
    assert norm <= UNITS
    assert norm >= 0.99 * UNITS * min(length, 1) or not np.isfinite(length)
    assert len(noisy_sum) == 4


def test_an_empty_sample_is_noised_like_any_other(monkeypatch):
    monkeypatch.setattr(
        samples, "poisson_sample", lambda records, rate, _: np.zeros(0, dtype=np.intp)
    )
    with opened() as session:
        assert np.abs(session.step(AT)["g"]).min() > 0


def test_every_step_is_of_a_new_poisson_sample():
    sizes = []

    def counted(at, numeric, codes):
        sizes.append(len(numeric))
        return {"g": np.zeros(2)}

    with opened(counted, frame(1000), steps=30, sampling_probability=0.2) as session:
        for _ in range(30):
            session.step(AT)
    drawn = np.array(sizes[-30:])
    # Binomial: mean 200, standard deviation 12.6; six of these for one draw, of which 30 are never all alike.
    assert np.abs(drawn - 200).max() < 76
    assert drawn.std() > 4


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_record_moves_a_vector_by_at_most_the_sensitivity(
    adjacency, exactly, everyone
):
    def turned(at, numeric, codes):
        """One record turns the whole vector round."""
        return {"g": np.array([3.0, 4.0]) * (1 if (numeric[:, 0] > 0.9).any() else -1)}

    with_it = pd.DataFrame({"a": [0.1, 0.2, 1.0], "b": [0.5, 0.5, 0.5]})
    without = (
        with_it.assign(a=[0.1, 0.2, 0.3]) if adjacency == "replace-one" else with_it[:2]
    )
    sessions = [
        opened(turned, data, adjacency=adjacency) for data in (with_it, without)
    ]
    apart = sessions[0].step(AT) - sessions[1].step(AT)
    moved = np.linalg.norm(apart.astype(float))
    stated = steps_of(sessions[0].plan).event.event.sensitivity
    assert 0.99 * stated < moved <= stated


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    ("steps", "shards", "uses"), [(6, 3, 2), (7, 3, 3), (2, 5, 1), (4, 1, 4)]
)
def test_shards_cost_what_the_steps_of_one_cost(steps, shards, uses, adjacency):
    session = opened(
        steps=steps, shards=shards, sampling_probability=1.0, adjacency=adjacency
    )
    mu = np.sqrt(uses) * 2 * UNITS / steps_of(session.plan).event.event.noise_std
    assert session.plan.epsilon == pytest.approx(
        accounting.gaussian_epsilon(mu, 1e-5), rel=1e-5
    )


def test_two_worlds_are_told_apart_by_as_much_as_is_claimed_and_no_more():
    """An attacker knows all records but one, which turns every vector round; 400 steps on all records."""

    def turned(at, numeric, codes):
        return {"g": np.array([1.0, 0.0]) * (1 if (numeric[:, 1] > 0.9).any() else -1)}

    means = []
    for data in (frame(), frame()[5:]):
        with opened(turned, data, steps=400, sampling_probability=1.0) as session:
            means.append(np.mean([session.step(AT)["g"][0] for _ in range(400)]))
    apart = abs(means[0] - means[1]) / steps_of(session.plan).noise_std_natural
    claimed = accounting.mu_for(2.0, 1e-5) / np.sqrt(400)
    # A mean of 400 is off by 0.05 of its noise; of the difference, six standard deviations.
    assert apart == pytest.approx(claimed, abs=6 * np.sqrt(2 / 400))
    assert steps_of(session.plan).noise_std_natural == pytest.approx(
        2 / claimed, rel=0.01
    )


def test_a_record_is_in_one_shard_and_shards_take_turns():
    seen = []

    def looked(at, numeric, codes):
        seen.append(numeric[:, 0].tolist())
        return {"g": np.zeros(2)}

    with opened(looked, steps=6, sampling_probability=1.0, shards=3) as session:
        for _ in range(6):
            session.step(AT)
    first = seen[-6:-3]
    again = seen[-3:]
    assert first == again
    assert sorted(np.concatenate(first)) == pytest.approx(
        np.linspace(0, 1, 40).tolist()
    )
    assert all(first)


def test_a_function_with_a_memory_is_refused_before_anything_is_spent(ledger):
    memory = []

    def running(at, numeric, codes):
        memory.append(numeric.sum(axis=0))
        return {"g": np.mean(memory, axis=0) / 100}

    session = opened(running, ledger=ledger)
    with pytest.raises(OptionError, match="keep nothing between calls"):
        session.step(AT)
    assert kinds(ledger) == []


def test_what_a_function_writes_into_its_parameters_is_gone_at_the_next_step():
    parameters = {"w": torch.zeros(2), "x": np.zeros(2)}
    seen = []

    def writes(at, numeric, codes):
        seen.append(float(at["w"].abs().sum()) + float(np.abs(at["x"]).sum()))
        at["w"] += 1000
        at["x"] += 1000
        return {"g": np.zeros(2)}

    with opened(writes) as session:
        session.step(parameters)
        session.step(parameters)
    assert max(seen) < 10
    assert not parameters["w"].any()
    assert not parameters["x"].any()


@pytest.mark.parametrize("rows", ["any", "empty", "one"])
def test_a_shape_that_depends_on_the_sample_is_found_on_made_up_ones(rows, ledger):
    def vector(at, numeric, codes):
        odd = {"any": True, "empty": not len(numeric), "one": len(numeric) == 1}[rows]
        return {"g": numeric.mean(axis=1) if odd else np.zeros(2)}

    with pytest.raises(OptionError, match=r"must not depend on the sample"):
        opened(vector, ledger=ledger).step(AT)
    assert kinds(ledger) == []


def fails(numeric):
    raise ValueError(f"the first record is {numeric[0]}")


def warns(numeric):
    warnings.warn(f"the first record is {numeric[0]}", stacklevel=1)
    return np.full(2, np.nan)


def runs_over(numeric):
    return np.full(2, np.inf) / np.float64(0)


@pytest.fixture
def drawn(everyone, monkeypatch):
    """The vectors of steps on all 40 records, before noise."""
    exact = []
    monkeypatch.setattr(
        noise, "add_noise", lambda sums, **_: exact.append(sums.tolist()) or sums + 1
    )
    return exact


@pytest.mark.parametrize(
    "does", [fails, warns, runs_over, lambda numeric: None, lambda numeric: ["x", "y"]]
)
def test_a_function_that_fails_for_a_sample_hands_out_the_noise_of_a_vector_of_zeros(
    does, drawn, ledger, recwarn
):
    """Were the run to stop, or to warn, that would tell which sample it was."""

    def vector(at, numeric, codes):
        return {"g": does(numeric) if len(numeric) == 40 else np.zeros(2)}

    with opened(vector, ledger=ledger) as session:
        first = session.step(AT)
        second = session.step(AT)
        assert session.remaining_steps == 2
        session.release({"g": np.zeros(2)})
    assert drawn == [[0, 0]] * 2
    assert (first["g"] == second["g"]).all()
    assert (first["g"] != 0).all()
    assert kinds(ledger) == [Kind.RESERVE, Kind.CONFIRM, Kind.COMMIT]
    assert not recwarn.list


@pytest.mark.parametrize(
    "answer", [{"g": np.ones(3)}, {"g": np.ones((2, 1))}, {"h": np.ones(2)}, {}]
)
def test_a_shape_that_follows_the_sample_is_a_vector_of_zeros(answer, drawn):
    with opened(
        lambda at, numeric, codes: answer if len(numeric) == 40 else {"g": np.zeros(2)}
    ) as session:
        assert session.step(AT)["g"].shape == (2,)
    assert drawn == [[0, 0]]


def test_an_interruption_in_a_function_stops_the_run_and_costs_nothing(drawn, ledger):
    """It is the operator's, and no record's."""

    def vector(at, numeric, codes):
        if len(numeric) == 40:
            raise KeyboardInterrupt
        return {"g": np.zeros(2)}

    with pytest.raises(KeyboardInterrupt):
        opened(vector, ledger=ledger).step(AT)
    assert not drawn
    assert kinds(ledger) == [Kind.RESERVE, Kind.VOID]


def test_a_release_is_certified_and_verified(tmp_path):
    with opened(
        steps=3, sampling_probability=1.0, shards=2, trained={"g": (5,)}
    ) as session:
        session.step(AT)
        release = session.release({"g": np.arange(5.0)})
    release.save(tmp_path)
    certificate = Release.load(tmp_path).certificate
    assert certificate == Certificate.from_json(certificate.to_json())
    assert certificate.check() <= 2.0
    assert certificate.events[0].steps_of_a_record == 2
    assert certificate.adjacency is Adjacency.ADD_REMOVE
    assert (
        "| b | 2 x 3 steps on 2 disjoint shards in turn, each of a sample as a whole |"
        in render(certificate)
    )
    stated = certificate.public["gradients"]["b"]
    assert stated == {
        "norm": 1.0,
        "whole": True,
        "shards": 2,
        "parameters": {"g": [2]},
        "trained": {"g": [5]},
    }


def test_a_run_on_shards_has_no_journal(tmp_path):
    with pytest.raises(OptionError, match="who is in which one is private"):
        opened(journal=tmp_path / "journal", sampling_probability=1.0, shards=2)


def test_gradients_and_whole_samples_take_plans_of_their_own():
    gate = Gate(frame(), schema=SCHEMA, epsilon=2.0)
    settings = {
        "name": "b",
        "steps": 2,
        "sampling_probability": 0.5,
        "clip_norm": 1.0,
        "parameters": {"g": (2,)},
    }
    with pytest.raises(OptionError, match="of a BatchQuery"):
        gate.batch(
            plan_steps(gate.budget, GradientQuery(**settings)),
            mean,
            method="test",
            public={},
        )
    with pytest.raises(OptionError, match="of a GradientQuery"):
        gate.gradients(
            plan_steps(gate.budget, BatchQuery(**settings)),
            mean,
            method="test",
            public={},
        )
