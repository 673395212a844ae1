"""Average treatment effects and interactions, on populations in which they are known."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as formulas
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate import synthesize
from noisegate.errors import OptionError
from noisegate.methods.pairwise import Pairwise
from noisegate.schema import Schema

COLUMNS = (
    integer("age", 0, 99),
    categorical("stage", ("I", "II", "III")),
    boolean("treated"),
    continuous("score", 0, 200),
    boolean("ill"),
)
QUESTION = "effect(score, treated | age + stage)"
EFFECT_ON_ILL = -0.12


def records(count, seed, *, treats_old=0.03, effect_by_age=0.1):
    """Draws patients of whom the old and the severe are treated more often.

    Returns:
        The records, and the effect on each score.
    """
    random = np.random.default_rng(seed)
    age = (50 + 15 * random.standard_normal(count)).clip(0, 99).round()
    stage = random.choice(3, count, p=[0.5, 0.3, 0.2])
    logit = treats_old * (age - 50) + 0.4 * stage - 0.3
    treated = random.random(count) < 1 / (1 + np.exp(-logit))
    effect = 5 + effect_by_age * (age - 50)
    score = 100 - 0.4 * (age - 50) - 6 * stage + effect * treated
    frame = pd.DataFrame(
        {
            "age": age.astype(int),
            "stage": np.array(["I", "II", "III"])[stage],
            "treated": treated,
            "score": (score + 8 * random.standard_normal(count)).clip(0, 200),
            "ill": random.random(count) < 0.3 + 0.1 * stage + EFFECT_ON_ILL * treated,
        }
    )
    return frame, effect


def fit(frame, epsilon, label="treated", **settings):
    method = Pairwise(fit_options={"steps": 20}, **settings)
    schema = Schema(COLUMNS, label=label)
    return synthesize(frame, schema=schema, epsilon=epsilon, method=method)


@pytest.fixture(scope="module")
def patients():
    frame, _ = records(count=20_000, seed=0)
    return frame


@pytest.fixture(scope="module")
def exact_model(patients):
    return fit(patients, epsilon=500.0)


def test_it_is_standardised_over_all_records(exact_model):
    _, effects = records(count=400_000, seed=99)
    (answer,) = exact_model.infer(QUESTION)
    assert answer.value == pytest.approx(effects.mean(), abs=0.3)
    assert answer.low < effects.mean() < answer.high


def test_without_adjustment_it_is_the_difference_of_means(exact_model, patients):
    (answer,) = exact_model.infer("effect(score, treated)")
    control, treated = patients.groupby("treated")["score"].mean()
    assert answer.value == pytest.approx(treated - control, abs=0.1)
    assert abs(answer.value - 5) > 2


@pytest.mark.parametrize(
    ("label", "effect_by_age"), [("treated", 0.1), ("ill", 0.0), (None, 0.0)]
)
def test_intervals_hold(label, effect_by_age):
    _, effects = records(400_000, seed=99, effect_by_age=effect_by_age)
    are_held = []
    for seed in range(5):
        frame, _ = records(6_000, seed=seed, effect_by_age=effect_by_age)
        model = fit(frame, epsilon=1.0, label=label)
        on_score, on_ill = model.infer(QUESTION, "effect(ill, treated | age + stage)")
        assert on_score.high - on_score.low < 12
        are_held.append(on_score.low <= effects.mean() <= on_score.high)
        are_held.append(on_ill.low <= EFFECT_ON_ILL <= on_ill.high)
    # Of 10 intervals of 95 % fewer than 8 hold in one of 90 cases.
    assert sum(are_held) >= 8


def test_one_regression_says_that_it_takes_the_effect_to_be_the_same():
    frame, _ = records(count=6_000, seed=0)
    (answer,) = fit(frame, epsilon=3.0, label=None).infer(QUESTION)
    assert any("the same for everybody" in note for note in answer.notes)


def test_it_is_refused_where_overlap_cannot_be_seen():
    frame, _ = records(count=10_000, seed=0, treats_old=0.6)
    (answer,) = fit(frame, epsilon=1.0).infer("effect(score, treated | age)")
    assert answer.value is None
    assert "overlap cannot be seen" in answer.refused


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("effect(score, stage | age)", "'stage' must have two levels"),
        ("effect(score, treated | treated)", "names a column twice"),
        ("effect(score, treated | height)", "no column 'height'"),
    ],
)
def test_what_is_no_effect_is_refused(exact_model, question, message):
    with pytest.raises(OptionError, match=message):
        exact_model.infer(question)


def test_interactions_are_those_of_the_records(exact_model, patients):
    answers = exact_model.infer("score ~ treated * age")
    expected = formulas.ols("score ~ treated * age", patients).fit().params
    values = {answer.name: answer.value for answer in answers}
    assert values["treated = True × age"] == pytest.approx(
        expected["treated[T.True]:age"], abs=0.02
    )
    assert values["age"] == pytest.approx(expected["age"], abs=0.02)
    assert values["intercept"] == pytest.approx(expected["Intercept"], abs=1)


def test_interactions_of_levels_are_differences_of_differences(exact_model, patients):
    answers = exact_model.infer("ill ~ stage * treated")
    shares = patients.groupby(["treated", "stage"])["ill"].mean()
    expected = (shares[True, "III"] - shares[True, "I"]) - (
        shares[False, "III"] - shares[False, "I"]
    )
    values = {answer.name: answer.value for answer in answers}
    assert values["treated = True × stage = III"] == pytest.approx(expected, abs=0.01)


def test_an_interaction_is_answered_by_a_table_of_three_columns():
    frame, _ = records(count=10_000, seed=0)
    triples = [["score", "age", "stage"]]
    model = fit(frame, epsilon=3.0, label=None, triples=triples)
    answers = model.infer("score ~ stage * age")
    assert all(answer.refused is None for answer in answers)


def test_an_interaction_without_such_a_table_says_how_to_have_it():
    frame, _ = records(count=6_000, seed=0)
    model = fit(frame, epsilon=3.0, label=None)
    with pytest.raises(OptionError, match=r"Make 'stage' the label .* triples"):
        model.infer("score ~ stage * age")


def test_an_interaction_of_numbers_is_refused(exact_model):
    with pytest.raises(OptionError, match="one of them must have levels"):
        exact_model.infer("ill ~ age * score")
