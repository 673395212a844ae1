"""Calibrated rows have the means, correlations and regressions that `infer` estimates."""

import warnings

import numpy as np
import pandas as pd
import pytest
from tests.shared.columns import boolean, categorical, continuous

from noisegate import Pairwise, synthesize
from noisegate.answers.evidence import Evidence, TooNoisyError
from noisegate.errors import MissingExtraError, OptionError
from noisegate.models.calibrated import Calibration, calibrated_batches
from noisegate.schema import (
    Comparison,
    EncodedTable,
    Schema,
)

COLUMNS = (
    continuous("age", 0, 100),
    continuous("wage", 0, 100),
    categorical("job", ("cook", "nurse", "smith")),
    boolean("ill"),
)
# Whether rows of these noisy releases agree is chance; tests that want warnings say so.
pytestmark = pytest.mark.filterwarnings("ignore:calibrated:UserWarning")

STANDARD_ERRORS_OF_95_PERCENT = 2 * 1.96


def people(count, seed=0):
    """Draws records whose columns depend on each other, all within narrow ranges."""
    random = np.random.default_rng(seed)
    age = random.uniform(0, 100, count)
    job = np.array(["cook", "nurse", "smith"])[
        np.digitize(age + random.normal(0, 40, count), [30, 70])
    ]
    wage = 20 + 0.3 * age + 10 * (job == "nurse") + random.uniform(-15, 15, count)
    return pd.DataFrame(
        {
            "age": age,
            "wage": wage.clip(0, 100),
            "job": job,
            "ill": random.random(count) < 0.2 + 0.003 * age,
        }
    )


def fitted(schema=None, **settings):
    method = Pairwise(seed=0, fit_options={"steps": 60}, **settings)
    return synthesize(
        people(5_000), schema=schema or Schema(COLUMNS), epsilon=1.0, method=method
    )


@pytest.fixture(scope="module")
def model():
    return fitted(moments_share=0.43)


@pytest.fixture(scope="module")
def rows(model):
    return model.sample(5_000, seed=1, calibrated=True)


def coefficients(rows):
    """Computes a regression of wages, by the names that `infer` gives to its answers."""
    design = np.column_stack(
        [
            np.ones(len(rows)),
            rows["age"],
            rows["job"] == "nurse",
            rows["job"] == "smith",
            rows["ill"],
        ]
    ).astype(float)
    solution, *_ = np.linalg.lstsq(design, rows["wage"].to_numpy(), rcond=None)
    names = ["intercept", "age", "job = nurse", "job = smith", "ill = True"]
    return dict(zip(names, solution, strict=True))


def standard_errors_off(answer, value):
    """Returns how far a value of rows is from an answer, in its standard errors."""
    standard_error = (answer.high - answer.low) / STANDARD_ERRORS_OF_95_PERCENT
    return abs(value - answer.value) / standard_error


def test_regressions_of_rows_are_those_of_infer(model, rows):
    of_rows = coefficients(rows)
    for answer in model.infer("wage ~ age + job + ill"):
        assert standard_errors_off(answer, of_rows[answer.name]) < 0.05


def test_means_and_correlations_of_rows_are_those_of_infer(model, rows):
    (mean_of_wages,) = model.infer("mean(wage)")
    (correlation,) = model.infer("corr(age, wage)")
    assert standard_errors_off(mean_of_wages, rows["wage"].mean()) < 0.02
    assert standard_errors_off(correlation, rows["age"].corr(rows["wage"])) < 0.02


def test_rows_that_are_drawn_as_usual_are_far_off(model):
    of_rows = coefficients(model.sample(5_000, seed=1))
    answers = model.infer("wage ~ age + job + ill")
    errors = [standard_errors_off(answer, of_rows[answer.name]) for answer in answers]
    assert max(errors) > 0.3


def test_a_seed_gives_the_same_rows(model, rows):
    assert model.sample(5_000, seed=1, calibrated=True).equals(rows)


def test_many_rows_agree_block_by_block(model, monkeypatch):
    monkeypatch.setattr("noisegate.models.calibrated._MAX_BLOCK_ROWS", 4_000)
    rows = model.sample(10_001, seed=2, calibrated=True)
    assert len(rows) == 10_001
    (mean_of_wages,) = model.infer("mean(wage)")
    assert standard_errors_off(mean_of_wages, rows["wage"].mean()) < 0.02


def test_rows_keep_to_the_constraints():
    rule = Comparison(left="wage", relation="<=", right="age")
    schema = Schema(COLUMNS, constraints=(rule,))
    model = fitted(schema, moments_share=0.43)
    rows = model.sample(2_000, seed=1, calibrated=["wage", "ill"])
    assert (rows["wage"] <= rows["age"]).all()


def test_columns_by_name_need_no_second_moments():
    model = fitted()
    rows = model.sample(5_000, seed=1, calibrated=["wage", "job"])
    answers = {answer.name: answer for answer in model.infer("mean(wage) by job")}
    for job, wages in rows.groupby("job")["wage"]:
        assert standard_errors_off(answers[f"job = {job}"], wages.mean()) < 0.02


def test_rows_that_cannot_agree_say_so(model):
    with pytest.warns(UserWarning, match="the 40 rows agree with infer to"):
        assert len(model.sample(40, seed=1, calibrated=True)) == 40


def test_agreement_is_silent(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.sample(5_000, seed=1, calibrated=["age", "ill"])


def test_levels_that_the_noise_hides_are_named():
    """Three smiths among 5,000 people are fewer than the noise."""
    table = people(5_000)
    table.loc[table["job"] == "smith", "job"] = "cook"
    table.loc[:2, "job"] = "smith"
    method = Pairwise(moments_share=0.43, fit_options={"steps": 60})
    model = synthesize(table, schema=Schema(COLUMNS), epsilon=0.5, method=method)
    with pytest.warns(UserWarning, match="levels of job are too noisy"):
        model.sample(1_000, seed=1, calibrated=["job", "ill"])


def test_columns_that_the_noise_hides_are_refused(model, monkeypatch):
    def hide(evidence, columns):
        raise TooNoisyError(columns[0])

    monkeypatch.setattr(Evidence, "moments", hide)
    with pytest.raises(OptionError, match="every column is too noisy to be located"):
        model.sample(10, calibrated=True)
    with pytest.raises(
        OptionError, match="'age' is too noisy to be located; leave it out"
    ):
        model.sample(10, calibrated=["age"])


def test_no_rows_are_no_error(model):
    assert len(model.sample(0, calibrated=True)) == 0


def test_a_tail_that_moments_count_in_a_range_only_is_shorter():
    cost = np.random.default_rng(0).lognormal(5, 1.2, 5_000).clip(0, 50_000)
    table = pd.DataFrame({"cost": cost, "ill": people(5_000)["ill"]})
    schema = Schema((continuous("cost", 0, 50_000), boolean("ill")))
    method = Pairwise(moments_share=0.43, seed=0, fit_options={"steps": 60})
    model = synthesize(table, schema=schema, epsilon=3.0, method=method)
    rows = model.sample(5_000, seed=1, calibrated=True)
    (mean_of_costs,) = model.infer("mean(cost)")
    assert standard_errors_off(mean_of_costs, rows["cost"].mean()) < 0.05
    assert rows["cost"].std() < model.sample(5_000, seed=1)["cost"].std()


def test_a_tail_that_is_shortened_is_named():
    """Some of the model's wages lie far beyond the range that moments count."""
    wide_wage = continuous("wage", 0, 2_000)
    model = fitted(Schema((COLUMNS[0], wide_wage, *COLUMNS[2:])), moments_share=0.43)
    sample = model.evidence.sample
    numeric = sample.numeric.copy()
    numeric[::50, 1] = 1.0
    evidence = Evidence(model, sample=EncodedTable(numeric, sample.codes))
    calibration = Calibration.of(evidence, ["wage", "ill"])
    with pytest.warns(UserWarning, match="infer counts wage outside"):
        list(
            calibrated_batches(
                calibration, model.records, 5_000, seed=0, batch_rows=5_000
            )
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"calibrated": True, "where": {"ill": True}}, "leave where, even and"),
        ({"calibrated": True, "even": "ill"}, "leave where, even and"),
        ({"calibrated": True, "independent": True}, "leave where, even and"),
        ({"calibrated": ["height"]}, "no column 'height'"),
        ({"calibrated": ["age", "age"]}, "'age' is named twice"),
        ({"calibrated": "age"}, "give a list of columns"),
    ],
)
def test_what_cannot_be_is_refused(model, options, message):
    with pytest.raises(OptionError, match=message):
        model.sample(10, **options)


def test_a_release_without_second_moments_is_refused():
    with pytest.raises(OptionError, match="no second moments"):
        fitted().sample(10, calibrated=True)


def test_it_needs_scipy(model, monkeypatch):
    monkeypatch.setattr("noisegate.errors.installed", lambda package: False)
    with pytest.raises(MissingExtraError, match=r"noisegate\[scipy\]"):
        model.sample(10, calibrated=True)
