"""Weighted means and shares: those of the population that records stand for."""

import numpy as np
import pandas as pd
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate import synthesize
from noisegate.errors import OptionError
from noisegate.methods.pairwise import Pairwise
from noisegate.schema import Schema

SCHEMA = Schema(
    (
        continuous("wage", 0, 100),
        integer("weight", 0, 300),
        integer("visits", 0, 20, missing=True),
        categorical("stratum", ("poor", "middle", "rich")),
        boolean("ill"),
    ),
    weights="weight",
)


def survey(records, seed):
    """Draws a survey in which the rich are rare, and so weigh much."""
    random = np.random.default_rng(seed)
    stratum = random.choice(3, records, p=[0.5, 0.3, 0.2])
    visits = pd.Series(random.binomial(20, np.array([0.2, 0.3, 0.6])[stratum]))
    visits = visits.astype("Int64")
    visits[random.random(records) < 0.2] = pd.NA
    return pd.DataFrame(
        {
            "wage": random.normal(np.array([30, 45, 60])[stratum], 8).clip(0, 100),
            "weight": np.array([20, 60, 200])[stratum]
            + random.integers(20, size=records),
            "visits": visits,
            "stratum": np.array(["poor", "middle", "rich"])[stratum],
            "ill": random.random(records) < np.array([0.1, 0.2, 0.5])[stratum],
        }
    )


def fit(real, epsilon, moments_share=1.0):
    options = {"steps": 30}
    method = Pairwise(moments_share=moments_share, fit_options=options)
    return synthesize(real, schema=SCHEMA, epsilon=epsilon, method=method)


@pytest.fixture(scope="module")
def real():
    return survey(records=20_000, seed=0)


@pytest.fixture(scope="module")
def exact_model(real):
    return fit(real, epsilon=500.0)


def test_a_mean_is_weighted(exact_model, real):
    (answer,) = exact_model.infer("weighted mean(wage)")
    expected = np.average(real["wage"], weights=real["weight"])
    assert answer.value == pytest.approx(expected, abs=0.3)
    assert abs(answer.value - real["wage"].mean()) > 3


def test_records_without_the_number_do_not_count(exact_model, real):
    (answer,) = exact_model.infer("weighted mean(visits)")
    complete = real.dropna()
    expected = np.average(complete["visits"].astype(float), weights=complete["weight"])
    assert answer.value == pytest.approx(expected, abs=0.15)


def test_a_share_is_weighted(exact_model, real):
    (answer,) = exact_model.infer("weighted share(stratum = rich)")
    expected = real["weight"][real["stratum"] == "rich"].sum() / real["weight"].sum()
    assert answer.value == pytest.approx(expected, abs=0.01)


def test_an_answer_without_weights_says_so(exact_model):
    (answer,) = exact_model.infer("mean(wage)")
    assert any("each record counts once" in note for note in answer.notes)


def test_the_weights_themselves_are_not_weighted(exact_model):
    with pytest.raises(OptionError, match="is the column of weights itself"):
        exact_model.infer("weighted mean(weight)")


@pytest.mark.parametrize("moments_share", [0.0, 0.43])
def test_intervals_hold_the_population(moments_share):
    population = survey(records=400_000, seed=99)
    is_ill = population["ill"].to_numpy()
    weights = population["weight"].to_numpy()
    truths = [
        np.average(population["wage"], weights=weights),
        np.average(is_ill, weights=weights),
    ]
    questions = ("weighted mean(wage)", "weighted share(ill = true)")
    are_held = []
    for seed in range(6):
        model = fit(survey(records=5_000, seed=seed), 1.0, moments_share)
        for answer, truth in zip(model.infer(*questions), truths, strict=True):
            assert answer.high - answer.low < 0.3 * truth
            are_held.append(answer.low <= truth <= answer.high)
    # Of 12 intervals of 95 % fewer than 9 hold in one of 5,000 cases.
    assert sum(are_held) >= 9
