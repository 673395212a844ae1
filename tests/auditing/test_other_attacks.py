"""Audits in one run with many canaries, and of synthetic records alone: below the claim, and above it with no noise."""

import pytest

import planted
from noisegate import Budget
from noisegate.auditing.attacks import Auditor, from_samples, one_run
from noisegate.auditing.examples import TABLE
from noisegate.methods.merf import DPMERF
from noisegate.methods.pairwise import Pairwise
from noisegate.schema import Boolean, Categorical, Schema

# As many levels as canaries, so that most of them are in a cell of their own.
MANY = Schema((Categorical(name="who", levels=tuple(f"p{place}" for place in range(300))), Boolean(name="ill")))


def test_one_run_of_right_code_says_less_than_the_claim_and_of_broken_code_more():
    method, budget = DPMERF(frequencies=5), Budget(epsilon=1.0)
    right = one_run(Auditor(method=method, schema=MANY, budget=budget), runs=300)
    assert right.lower_bound <= 1.0
    assert right.runs == 1
    with planted.noise_times(0.01):
        broken = one_run(Auditor(method=method, schema=MANY, budget=budget), runs=300)
    assert broken.exceeded
    assert broken.lower_bound > 1.3


@pytest.mark.slow
def test_one_run_at_a_large_epsilon_sees_some_of_it():
    found = one_run(Auditor(method=DPMERF(frequencies=5), schema=MANY, budget=Budget(epsilon=20.0)), runs=300)
    assert 0.3 < found.lower_bound <= 20.0


@pytest.mark.slow
def test_one_run_of_gradients_stays_below_the_claim():
    from noisegate.methods.llm import DPLLM

    found = one_run(
        Auditor(method=DPLLM(steps=20, sampling_probability=0.2, maps=2), schema=TABLE, budget=Budget(epsilon=4.0)),
        runs=100,
    )
    assert found.lower_bound <= 4.0


@pytest.mark.slow
def test_synthetic_records_tell_worlds_apart_where_there_is_next_to_no_noise_and_not_else():
    method = Pairwise(fit_options={"steps": 200})
    right = from_samples(Auditor(method=method, schema=TABLE, budget=Budget(epsilon=1.0)), runs=24)
    assert right.lower_bound <= 1.0
    loud = from_samples(Auditor(method=method, schema=TABLE, budget=Budget(epsilon=1000.0)), runs=60, chance=0.01)
    assert 1.0 < loud.lower_bound <= 1000.0
