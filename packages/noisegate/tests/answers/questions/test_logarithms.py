"""Logarithms as terms: of amounts with a long tail, from tables alone."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as formulas
from tests.shared.columns import categorical, continuous, integer

from noisegate import synthesize
from noisegate.app.analyses import settings_for
from noisegate.errors import OptionError
from noisegate.methods.pairwise import Pairwise
from noisegate.schema import Schema

SCHEMA = Schema(
    (
        continuous("net wage", 1, 1e6),
        integer("age", 0, 99),
        integer("visits", 0, 300, missing=True),
        categorical("town", "AB"),
    )
)


def records(count, seed):
    random = np.random.default_rng(seed)
    first, second = random.standard_normal((2, count))
    town = random.random(count) < 0.3
    wage = np.exp(8 + 0.5 * first + second + 0.5 * town).clip(1, 1e6)
    visits = pd.Series(random.poisson(np.exp(0.5 + 0.6 * first)).clip(0, 300))
    visits = visits.astype("Int64")
    visits[random.random(count) < 0.1] = pd.NA
    return pd.DataFrame(
        {
            "net wage": wage,
            "age": (50 + 15 * first).clip(0, 99).astype(int),
            "visits": visits,
            "town": np.where(town, "B", "A"),
        }
    )


def fit(real, epsilon):
    method = Pairwise(fit_options={"steps": 20})
    return synthesize(real, schema=SCHEMA, epsilon=epsilon, method=method)


@pytest.fixture(scope="module")
def real():
    return records(count=20_000, seed=0)


@pytest.fixture(scope="module")
def exact_model(real):
    return fit(real, epsilon=500.0)


def holds(answer, truth):
    return answer.low <= truth <= answer.high


def test_a_mean_is_that_of_the_logarithms(exact_model, real):
    (answer,) = exact_model.infer("mean(log(`net wage`))")
    assert answer.value == pytest.approx(np.log(real["net wage"]).mean(), abs=0.05)


def test_one_is_added_where_zero_may_occur(exact_model, real):
    (answer,) = exact_model.infer("mean(log1p(visits))")
    complete = real["visits"].dropna().astype(float)
    assert answer.value == pytest.approx(np.log1p(complete).mean(), abs=0.02)


def test_intervals_of_regressions_hold():
    population = records(count=300_000, seed=99).rename(columns={"net wage": "wage"})
    truth = formulas.ols("np.log(wage) ~ age + town", population).fit().params
    are_held = []
    for seed in range(4):
        model = fit(records(count=5_000, seed=seed), epsilon=1.0)
        _, age, town = model.infer("log(`net wage`) ~ age + town")
        assert 0 < age.low < age.high
        are_held += [holds(age, truth["age"]), holds(town, truth["town[T.B]"])]
    # Of 8 intervals of 95 % fewer than 6 hold in one of 200 cases.
    assert sum(are_held) >= 6


def test_a_correlation_with_a_long_tail_is_answered_by_logarithms():
    model = fit(records(count=10_000, seed=0), epsilon=1.0)
    plain, logarithmic = model.infer(
        "corr(`net wage`, age)", "corr(log(`net wage`), age)"
    )
    assert plain.refused is not None or plain.high - plain.low > 0.5
    assert logarithmic.high - logarithmic.low < 0.4


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("log(visits) ~ age", r"'visits' may be 0, .*; ask for log1p\(visits\)"),
        ("corr(log(age), age)", "names a column twice"),
        ("median(log1p(age))", "this analysis takes the column itself"),
        ("mean(log(pay))", r"no column 'log\(pay\)'"),
    ],
)
def test_what_has_no_logarithm_is_refused(exact_model, question, message):
    with pytest.raises(OptionError, match=message):
        exact_model.infer(question)


def test_no_moments_of_logarithms_are_asked_for(tmp_path):
    file = tmp_path / "analyses.toml"
    file.write_text("[[analyses]]\nquestion = 'log(wage) ~ age + town'\n")
    assert settings_for(file)["moments"] == ["age", "town"]
