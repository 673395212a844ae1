"""Audits in one run with many canaries, and of synthetic records alone: below the claim, and above it with no noise."""

import pytest

import planted
from noisegate import Budget
from noisegate.methods.pairwise import Pairwise
from noisegate.privacy.events import Adjacency
from noisegate.schema import Boolean, Categorical, Integer, Schema
from noisegate_evaluate.auditing.attacks import Auditor, from_samples, of_attribute, one_run
from noisegate_evaluate.auditing.examples import TABLE
from noisegate_papers.methods.graphical import PrivBayes
from noisegate_papers.methods.mean_embeddings import DPMERF

PRIVBAYES = PrivBayes(cells=3)

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
    from noisegate_papers.methods.classifiers import DPLLM

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


def test_a_column_of_a_record_is_guessed_where_there_is_next_to_no_noise():
    loud = of_attribute(Auditor(method=PRIVBAYES, schema=TABLE, budget=Budget(epsilon=1000.0)), runs=8)
    assert loud.guessed[0] == 1.0
    assert loud.from_noise == 0


@pytest.mark.slow
def test_a_column_is_guessed_where_there_is_next_to_no_noise_and_not_else():
    """Without the record one value in four is right by chance. A fit believes the noise that is stated, so both are."""
    right = of_attribute(Auditor(method=PRIVBAYES, schema=TABLE, budget=Budget(epsilon=1.0)), runs=40)
    assert right.lower_bound <= 1.0
    loud = of_attribute(Auditor(method=PRIVBAYES, schema=TABLE, budget=Budget(epsilon=100.0)), runs=100)
    assert loud.guessed[0] > 0.9 and loud.guessed[1] < 0.6
    assert 0 < loud.lower_bound <= 100


@pytest.mark.parametrize("options", [{"contributions": 2}, {"adjacency": Adjacency.REPLACE_ONE}])
def test_a_column_is_guessed_of_units_and_of_records_that_are_replaced(options):
    schema = Schema((Integer(name="age", lower=0, upper=9),))
    found = of_attribute(Auditor(method=PRIVBAYES, schema=schema, budget=Budget(epsilon=1.0, **options)), runs=4)
    assert found.lower_bound <= 1.0
    assert found.to_json()["guessed"] == found.guessed
