"""Rank correlations and quantiles of groups, which a long tail does not hide."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from tests.shared.columns import boolean, categorical, continuous, integer, ordinal

from noisegate import synthesize
from noisegate.errors import OptionError
from noisegate.methods.pairwise import Pairwise
from noisegate.schema import (
    Schema,
)

SCHEMA = Schema(
    (
        continuous("amount", 0, 1e6, missing=True),
        integer("age", 0, 99),
        ordinal("grade", (1, 2, 3, 4, 5)),
        boolean("ill"),
        categorical("town", "ABC"),
    )
)
PAIRS = [("amount", "age"), ("amount", "grade"), ("age", "grade"), ("age", "ill")]


def records(count, seed):
    """Draws amounts with a tail so long that their moments cannot be measured."""
    random = np.random.default_rng(seed)
    first, second, third = random.standard_normal((3, count))
    town = random.choice(3, count, p=[0.6, 0.3, 0.1])
    amount = np.exp(8 + 0.9 * first + 1.2 * second) + 3_000 * (town == 1)
    amount = np.where(random.random(count) < 0.1, np.nan, amount.clip(0, 1e6))
    return pd.DataFrame(
        {
            "amount": amount,
            "age": (50 + 15 * first).clip(0, 99).astype(int),
            "grade": np.digitize(0.9 * third - 0.4 * first, [-1.2, -0.4, 0.4, 1.2]) + 1,
            "ill": random.random(count) < 1 / (1 + np.exp(-first)),
            "town": np.array(["A", "B", "C"])[town],
        }
    )


def fit(count, seed, epsilon):
    method = Pairwise(fit_options={"steps": 20})
    return synthesize(
        records(count, seed), schema=SCHEMA, epsilon=epsilon, method=method
    )


@pytest.fixture(scope="module")
def population():
    return records(count=400_000, seed=99)


@pytest.fixture(scope="module")
def exact_model():
    return fit(count=20_000, seed=0, epsilon=500.0)


def spearman(frame, first, second):
    complete = frame[[first, second]].dropna()
    return spearmanr(complete[first], complete[second]).statistic


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_rank_correlation_is_spearmans(exact_model, population, first, second):
    (answer,) = exact_model.infer(f"rankcorr({first}, {second})")
    assert answer.value == pytest.approx(spearman(population, first, second), abs=0.02)


def test_intervals_of_rank_correlations_hold():
    population = records(count=400_000, seed=99)
    questions = [f"rankcorr({first}, {second})" for first, second in PAIRS]
    truths = [spearman(population, first, second) for first, second in PAIRS]
    are_held = []
    for seed in range(5):
        model = fit(count=5_000, seed=seed, epsilon=1.0)
        for answer, truth in zip(model.infer(*questions), truths, strict=True):
            assert answer.high - answer.low < 0.3
            are_held.append(answer.low <= truth <= answer.high)
    # Of 20 intervals of 95 % fewer than 16 hold in three of 1,000 cases.
    assert sum(are_held) >= 16


def test_a_default_release_answers_for_amounts_whose_moments_are_hidden():
    model = fit(count=10_000, seed=0, epsilon=1.0)
    by_moments, by_ranks = model.infer("corr(amount, age)", "rankcorr(amount, age)")
    assert by_moments.refused is not None
    assert by_ranks.refused is None


def test_medians_of_groups_lie_in_their_intervals(exact_model, population):
    answers = exact_model.infer("median(amount) by town")
    assert [answer.name for answer in answers] == ["town = A", "town = B", "town = C"]
    for answer, (_, amounts) in zip(
        answers, population.groupby("town")["amount"], strict=True
    ):
        assert answer.low <= amounts.median() <= answer.high


def test_several_quantiles_of_a_group_are_named_and_ordered(exact_model):
    answers = exact_model.infer("quantile(age, 0.9, 0.1) by ill")
    assert [answer.name for answer in answers][:2] == [
        "ill = False: age at 0.1",
        "ill = False: age at 0.9",
    ]
    assert answers[0].value < answers[1].value


def test_a_group_that_noise_hides_has_no_quantile():
    method = Pairwise(pairs="all", fit_options={"steps": 20})
    few_records = records(count=200, seed=0)
    model = synthesize(few_records, schema=SCHEMA, epsilon=0.05, method=method)
    *_, answer = model.infer("median(age) by town")
    assert answer.value is None
    assert "the group cannot be distinguished from the noise" in answer.refused


def test_levels_without_an_order_have_no_ranks(exact_model):
    with pytest.raises(OptionError, match="'town' has levels without an order"):
        exact_model.infer("rankcorr(town, age)")
