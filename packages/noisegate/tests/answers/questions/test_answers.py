"""Answers: what textbooks say of real records where there is no noise, intervals that hold, and refusals."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as api
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate import simulated_patients, synthesize
from noisegate.answers.calibration import LOGISTIC, CalibratedRegression
from noisegate.answers.domain import Domain
from noisegate.answers.estimates import (
    Estimate,
    Intervals,
    Spread,
    estimate,
    spread_of_table,
)
from noisegate.answers.evidence import Evidence
from noisegate.answers.noisy_table import NoisyTable
from noisegate.answers.questions.question import parse_question, question_forms
from noisegate.answers.questions.tables import independence_test
from noisegate.errors import OptionError
from noisegate.methods.pairwise import Pairwise
from noisegate.schema import Date, Schema
from noisegate.seeds import public_random

SCHEMA = Schema(
    (
        *(
            continuous("x", -5, 5),
            continuous("y", -10, 10),
        ),
        *(
            integer("count", 0, 30),
            integer("days", 0, 60, missing=True),
        ),
        *(
            categorical("job", ("cook", "nurse", "smith")),
            boolean("ill"),
        ),
    ),
    label="ill",
)


def records(rows=20_000, seed=0):
    random = np.random.default_rng(seed)
    x = np.clip(random.normal(size=rows), -5, 5)
    job = random.choice(["cook", "nurse", "smith"], rows, p=[0.5, 0.3, 0.2])
    ill = random.random(rows) < 1 / (1 + np.exp(1 - x))
    y = np.clip(
        1 + 0.5 * x - 0.8 * (job == "nurse") + random.normal(size=rows), -10, 10
    )
    count = np.minimum(random.poisson(np.exp(0.3 + 0.4 * x)), 30)
    days = pd.Series(np.minimum(random.exponential(20, rows), 60).astype(int)).astype(
        "Int64"
    )
    days[random.random(rows) < 0.1] = pd.NA
    return pd.DataFrame(
        {"x": x, "y": y, "count": count, "days": days, "job": job, "ill": ill}
    )


@pytest.fixture(scope="module")
def real():
    return records()


@pytest.fixture(scope="module")
def model(real):
    """Hardly any noise: what is left is what cells and ranges do."""
    return synthesize(
        real,
        schema=SCHEMA,
        epsilon=500.0,
        method=Pairwise(moments_share=1.0, fit_options={"steps": 200}),
    )


def values(model, question, **options):
    return np.array([answer.value for answer in model.infer(question, **options)])


def test_means_shares_and_counts_are_those_of_the_records(model, real):
    assert values(model, "mean(y)") == pytest.approx([real["y"].mean()], abs=0.01)
    assert values(model, "mean(days)") == pytest.approx([real["days"].mean()], abs=0.1)
    means = real.groupby("job")["y"].mean().to_numpy()
    assert values(model, "mean(y) by job") == pytest.approx(
        [*means, *(means[1:] - means[0])], abs=0.02
    )
    shares = (
        real.groupby("ill")["job"]
        .apply(lambda jobs: (jobs == "nurse").mean())
        .to_numpy()
    )
    assert values(model, "share(job = nurse) by ill")[:2] == pytest.approx(
        shares, abs=0.002
    )
    assert values(model, "count(ill = true)") == pytest.approx(
        [real["ill"].sum()], abs=10
    )
    assert values(model, "share(x < 0.5)") == pytest.approx(
        [(real["x"] < 0.5).mean()], abs=0.005
    )


def test_groups_of_two_columns_and_of_whole_numbers_are_those_of_the_records(real):
    # Everything is told apart by the label, and `kids` has a cell for each value.
    frame = real.assign(kids=np.arange(len(real)) % 4)
    schema = Schema([*SCHEMA.columns, integer("kids", 0, 3)], label="ill")
    model = synthesize(frame, schema=schema, epsilon=500.0, fit_options={"steps": 100})
    answers = model.infer("mean(y) by job, ill")
    means = frame.groupby(["job", "ill"])["y"].mean()
    assert [answer.name for answer in answers] == [
        f"job = {job}, ill = {ill}" for job, ill in means.index
    ]
    assert [answer.value for answer in answers] == pytest.approx(
        means.to_numpy(), abs=0.03
    )
    shares = (
        frame.assign(nurse=frame["job"] == "nurse")
        .groupby(["kids", "ill"])["nurse"]
        .mean()
        .to_numpy()
    )
    assert values(model, "share(job = nurse) by kids, ill") == pytest.approx(
        shares, abs=0.01
    )
    by_kids = frame.groupby("kids")["y"].mean().to_numpy()
    by_kids_answers = model.infer("mean(y) by kids")
    assert [answer.name for answer in by_kids_answers][:2] == ["kids = 0", "kids = 1"]
    assert [answer.value for answer in by_kids_answers[:4]] == pytest.approx(
        by_kids, abs=0.03
    )
    assert all(answer.low < answer.value < answer.high for answer in by_kids_answers)
    with pytest.raises(OptionError, match="'y' is a number; a column with levels"):
        model.infer("mean(x) by y")
    with pytest.raises(OptionError, match="'y' and 'job' and 'kids' were not measured"):
        model.infer("mean(y) by job, kids")


def test_quantiles_lie_in_their_intervals_and_those_are_narrow(model, real):
    for probability in (0.05, 0.5, 0.9):
        (answer,) = model.infer(f"quantile(y, {probability})", finite=True)
        assert (
            answer.low
            <= np.quantile(real["y"], probability)
            <= answer.high
            < answer.low + 0.1
        )
    assert model.infer("median(days)")[0].value == pytest.approx(
        real["days"].median(), abs=1
    )


def test_regressions_are_those_of_the_records(model, real):
    design = np.column_stack(
        [np.ones(len(real)), real["x"], real["job"] == "nurse", real["job"] == "smith"]
    ).astype(float)
    coefficients = np.linalg.lstsq(design, real["y"].to_numpy(), rcond=None)[0]
    answers = model.infer("y ~ x + job")
    assert [answer.name for answer in answers] == [
        "intercept",
        "x",
        "job = nurse",
        "job = smith",
    ]
    assert [answer.value for answer in answers] == pytest.approx(coefficients, abs=0.01)
    residual = real["y"] - design @ coefficients
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * residual.var())
    assert [answer.sampling for answer in answers] == pytest.approx(errors, rel=0.1)
    assert values(model, "corr(x, y)") == pytest.approx(
        [np.corrcoef(real["x"], real["y"])[0, 1]], abs=0.01
    )
    left, right = (
        variable
        - design[:, [0, 2, 3]]
        @ np.linalg.lstsq(design[:, [0, 2, 3]], variable, rcond=None)[0]
        for variable in (real["x"], real["y"])
    )
    assert values(model, "partial(x, y | job)") == pytest.approx(
        [np.corrcoef(left, right)[0, 1]], abs=0.01
    )


@pytest.mark.parametrize(
    ("question", "outcome", "mean"),
    [
        ("logit(ill) ~ x + job", "ill", lambda score: 1 / (1 + np.exp(-score))),
        ("poisson(count) ~ x + job", "count", np.exp),
    ],
)
def test_what_is_not_linear_solves_the_equations_of_the_records(
    model, real, question, outcome, mean
):
    design = np.column_stack(
        [np.ones(len(real)), real["x"], real["job"] == "nurse", real["job"] == "smith"]
    ).astype(float)
    coefficients = np.zeros(4)
    y = real[outcome].to_numpy(float)
    for _ in range(30):
        expected = mean(design @ coefficients)
        slope = expected * (1 - expected) if outcome == "ill" else expected
        coefficients += np.linalg.solve(
            (design * slope[:, None]).T @ design, design.T @ (y - expected)
        )
    assert values(model, question) == pytest.approx(coefficients, abs=0.06)


def test_tables_answer_odds_independence_and_survival(model, real):
    cells = pd.crosstab(real["job"] == "nurse", real["ill"])
    assert cells.shape == (2, 2)
    (tested,) = model.infer("chi2(job, ill)")
    assert tested.p > 0.001
    assert model.infer("chi2(x, ill)")[0].p == pytest.approx(1 / 2000)
    everybody = (model.infer("survival(days, ill)"), "", real)
    grouped = model.infer("survival(days, ill) by job")
    assert len(grouped) == 3 * len(everybody[0])
    groups = [
        ("job = nurse: ", real[real["job"] == "nurse"]),
        ("job = smith: ", real[real["job"] == "smith"]),
    ]
    parts = [
        ([answer for answer in grouped if answer.name.startswith(name)], name, part)
        for name, part in groups
    ]
    for answers, name, part in (everybody, *parts):
        time = part["days"].dropna().to_numpy(float)
        event = part["ill"][part["days"].notna()].to_numpy()
        at = 0
        surviving = 1.0
        for answer in answers:
            cut = float(answer.name.removeprefix(f"{name}beyond "))
            for day in np.unique(time[(time >= at) & (time < cut)]):
                surviving *= 1 - ((time == day) & event).sum() / (time >= day).sum()
            at = cut
            assert answer.value == pytest.approx(surviving, abs=0.02)
    with pytest.raises(OptionError, match="'x' is a number"):
        model.infer("survival(days, ill) by x")


def test_errors_by_sampling_are_those_of_statsmodels(model, real):
    """Its standard errors that hold whatever the variance depends on (HC0), of the records themselves."""
    design = pd.DataFrame(
        {
            "one": 1.0,
            "x": real["x"],
            "nurse": real["job"] == "nurse",
            "smith": real["job"] == "smith",
        }
    )
    kinds = {
        "y": ("y", api.OLS),
        "ill": ("logit(ill)", api.Logit),
        "count": ("poisson(count)", api.Poisson),
    }
    for outcome, (outcome_term, kind) in kinds.items():
        oracle = kind(real[outcome].astype(float), design.astype(float)).fit(
            disp=0, cov_type="HC0"
        )
        answers = model.infer(f"{outcome_term} ~ x + job")
        assert [answer.value for answer in answers] == pytest.approx(
            oracle.params.to_numpy(), abs=0.06
        )
        assert [answer.sampling for answer in answers] == pytest.approx(
            oracle.bse.to_numpy(), rel=0.12
        )


def test_a_sample_of_the_model_has_an_error_which_its_intervals_count(model):
    """Solutions by 60 samples of the model spread as is said or less, as draws are even; an interval holds that too."""
    moments = Evidence(model).moments(["x", "ill"])
    (_, ill) = moments.indices("ill")
    solutions = []
    errors = []
    for seed in range(60):
        sample = model.model.draw(400, public_random(seed))
        regression = CalibratedRegression.of(moments, sample, [0, 1], LOGISTIC)
        outcome_means = moments.matrix(moments.values)[[0, 1], ill] / moments.values[0]
        solution = regression.solve(moments.values, outcome_means)
        solutions.append(solution)
        errors.append(np.sqrt(np.diag(regression.sampling_covariance(solution))))
    ratio = np.std(solutions, axis=0) / np.mean(errors, axis=0)
    assert (ratio > 0.5).all()
    assert (ratio < 1.2).all()
    answer = Estimate(question="", name="", value=1.0, low=0.0, high=3.0)
    wider = answer.with_error(1.0, z=2.0)
    assert (wider.low, wider.high, wider.bias) == pytest.approx(
        (1 - math.sqrt(5), 1 + math.sqrt(8), 1.0)
    )


def test_squares_within_wide_cells_are_about_as_far_off_as_is_said():
    """Numbers in a small part of their bounds, few records: errors of 40 sums of squares, over what is said of each."""
    schema = Schema((continuous("x", -40, 150), boolean("ill")))
    errors = []
    for seed in range(40):
        x = np.random.default_rng(seed).normal(45, 7, 2_000)
        table = pd.DataFrame({"x": x, "ill": x % 1 < 0.3})
        method = Pairwise(moments_share=0.02, seed=seed, fit_options={"steps": 20})
        evidence = Evidence(
            synthesize(table, schema=schema, epsilon=0.3, method=method)
        )
        # Cells alone.
        evidence.measurements = replace(evidence.measurements, moments=None)
        moments = evidence.moments(["x"])
        (term,) = moments.terms
        true = np.square(np.clip((x - term.centre) / term.scale, -1, 1)).sum()
        left, right = moments.factors
        square = int(((left == 1) & (right == 1)).argmax())
        noise = moments.source_std[square]
        variance = noise**2 + np.square(moments.bias[square]).sum()
        errors.append((moments.values[square] - true) / math.sqrt(variance))
    assert math.sqrt(np.mean(np.square(errors))) < 1.5, errors


def test_the_records_themselves_have_no_sampling_error(model):
    (of_records,) = model.infer("mean(y)", finite=True)
    (other,) = model.infer("mean(y)")
    assert of_records.sampling == 0
    assert other.sampling > 0
    assert of_records.high - of_records.low < other.high - other.low


def test_records_of_the_model_are_drawn_once_for_all_answers(model, monkeypatch):
    draws = []
    draw = type(model.model).draw

    def counted(record_model, rows, random):
        draws.append(rows)
        return draw(record_model, rows, random)

    monkeypatch.setattr(type(model.model), "draw", counted)
    fresh = replace(model)
    fresh.infer("mean(y)", "corr(x, y)")
    fresh.infer("mean(x) by job")
    fresh.effective_n()
    assert len(draws) == 1


def test_an_interval_of_a_quotient_is_fiellers():
    spread = Spread(
        values=np.array([10.0, 5.0]),
        noise=np.diag([1.0, 0.5]),
        bias=np.zeros((2, 0)),
        sampling=np.zeros((2, 2)),
    )
    (answer,) = estimate(
        "q", ["q"], lambda v: v[:, None], spread, Intervals(), redraws=4000
    )
    t = 1.959964**2
    # (10 − 5θ)² = t (1 + θ²/4)
    roots = np.roots([25 - t / 4, -100, 100 - t]).real
    assert sorted([answer.low, answer.high]) == pytest.approx(sorted(roots), rel=0.05)
    assert answer.noise == pytest.approx(math.sqrt(1 + 4 / 4) / 5, rel=0.05)


@pytest.mark.parametrize("below", [0.5, -5.0])
def test_a_denominator_that_noise_hides_gives_no_answer(below):
    spread = Spread(
        values=np.array([10.0, below]),
        noise=np.eye(2),
        bias=np.zeros((2, 0)),
        sampling=np.zeros((2, 2)),
    )
    (answer,) = estimate("q", ["q"], lambda v: v[:, None], spread, Intervals())
    assert answer.value is None
    assert answer.refused.startswith("too noisy for an interval")


def spread_of_two(counts, noise_std):
    table = NoisyTable.of(Domain.of({"a": (1, 2)}), counts, noise_std=noise_std)
    return spread_of_table(table, Intervals(finite=True))


def test_what_the_noise_bends_is_straightened_or_refused():
    """The mean of exp(z) with noise on z is off by half its variance: taken off where small, refused where large."""
    random = np.random.default_rng(1)
    off = []
    for _ in range(400):
        spread = spread_of_two([0.0, 0.5] + 0.3 * random.normal(size=2), noise_std=0.3)
        (answer,) = estimate(
            "q", ["q"], lambda v: np.exp(v[1:]) - 1, spread, Intervals()
        )
        off.append(answer.low <= math.expm1(0.5) <= answer.high)
    assert 0.91 <= np.mean(off) <= 0.99
    spread = spread_of_two(np.array([0.0, 0.5]), noise_std=3.0)
    assert estimate("q", ["q"], lambda v: np.exp(v[1:]), spread, Intervals())[0].refused


def test_a_true_null_is_rejected_as_often_as_is_said_whatever_the_noise():
    """Of 200 tables whose columns are independent, with noise as large as their cells, 5 % have p below .05."""
    random = np.random.default_rng(3)
    domain = Domain.of({"a": ("1", "2"), "b": ("x", "y", "z")})
    rejected = []
    for _ in range(200):
        shares = np.outer([0.3, 0.7], [0.2, 0.3, 0.5]).ravel()
        counts = random.multinomial(600, shares).reshape(2, 3)
        noisy = counts + random.normal(scale=30, size=(2, 3))
        table = NoisyTable.of(domain, noisy, noise_std=30.0)
        rejected.append(independence_test(table, Intervals()).p_value <= 0.05)
    assert 0.01 <= np.mean(rejected) <= 0.1


def test_every_form_is_read_and_keeps_its_text():
    for form in question_forms():
        text = form.replace("number", "3")
        question = parse_question(text)
        assert question.columns
        assert question.text == text
    share = parse_question("share(`a b` = c d)")
    assert share.columns == ("a b",)
    assert share.level == "c d"
    assert parse_question("median(x)").probabilities == (0.5,)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (
            "average(x)",
            r"'average\(x\)' is not understood; the forms are: .*; mean\(x\); ",
        ),
        ("mean(z)", "no column 'z'; the columns are x, y, count, days, job, ill"),
        ("mean(job)", "'job' is not numeric"),
        ("share(job = clerk)", "'job' has no level 'clerk'; it has cook, nurse, smith"),
        ("mean(x) by y", "'y' is a number; a column with levels is expected there, or"),
        ("quantile(x, 2)", "between 0 and 1"),
        ("y ~ x + x", "names a column twice"),
        ("logit(job) ~ x", "needs an outcome with two levels"),
        ("job ~ x", "'job' must be a number, or have two levels"),
        ("logit(ill) ~ days", "'days' may be missing"),
        ("corr(job, x)", "'job' must be a number, or have two levels"),
        ("odds(job, ill)", "two columns with two levels"),
        ("share(x < much)", "a number is expected"),
        ("weighted mean(x)", "the schema names no survey weights. Add weights = "),
        ("weighted mean(x) by job", "weighted answers are for all records"),
    ],
)
def test_what_does_not_fit_is_said_in_the_words_of_the_question(model, question, words):
    with pytest.raises(OptionError, match=words):
        model.infer(question)


def test_what_was_not_measured_together_is_refused(real):
    model = synthesize(
        real,
        schema=SCHEMA,
        epsilon=1.0,
        method=Pairwise(pairs="none", fit_options={"steps": 20}),
    )
    with pytest.raises(OptionError, match="'x' and 'y' were not measured together"):
        model.infer("corr(x, y)")
    (answer,) = model.infer("mean(x)")
    assert answer.low < real["x"].mean() < answer.high


@pytest.mark.slow
@pytest.mark.parametrize(("share", "least"), [(0.0, 0.93), (0.43, 0.92)])
def test_intervals_of_many_releases_hold(share, least):
    """Of 95 % intervals of 60 releases with 5 numbers each, which within a release are not independent."""
    truth = {
        "x": 0.5,
        "mean(x)": 0.0,
        "intercept": 1.0,
        "job = nurse": -0.8,
        "job = smith": 0.0,
    }
    method = Pairwise(moments_share=share, fit_options={"steps": 50})
    held = []
    for seed in range(60):
        model = synthesize(
            records(8_000, seed + 100), schema=SCHEMA, epsilon=2.0, method=method
        )
        answers = model.infer("y ~ x + job", "mean(x)")
        held += [
            answer.low <= truth[answer.name] <= answer.high
            for answer in answers
            if answer.value is not None
        ]
    assert len(held) > 250
    assert least <= np.mean(held) <= (1.0 if share == 0 else 0.99)


@pytest.mark.parametrize(
    "question", ["logit(ill) ~ x + job", "poisson(count) ~ x + job"]
)
def test_a_regression_that_the_noise_hides_is_refused_in_words(real, question):
    model = synthesize(
        real[:300], schema=SCHEMA, epsilon=0.05, method=Pairwise(moments_share=0.43)
    )
    assert all(
        "too noisy for an interval" in answer.refused
        for answer in model.infer(question)
    )


def test_a_mean_that_the_noise_hides_is_refused_and_no_narrow_wrong_one_given():
    schema = Schema((continuous("age", 0, 100), boolean("ill")))
    random = np.random.default_rng(0)
    far = 0
    for seed in range(8):
        age = np.clip(random.normal(29, 7, 1_500), 17, 42)
        table = pd.DataFrame({"age": age, "ill": random.random(1_500) < 0.3})
        method = Pairwise(moments_share=0.43, seed=seed, fit_options={"steps": 20})
        model = synthesize(table, schema=schema, epsilon=0.05, method=method)
        (answer,) = model.infer("mean(age)")
        far += (
            answer.refused is None and not answer.low - 1 < age.mean() < answer.high + 1
        )
        assert answer.refused is None or "too noisy" in answer.refused
    assert far <= 1


def test_dates_say_what_they_are_counted_in():
    table = pd.DataFrame(
        {"d": pd.date_range("2022-01-01", periods=600).date, "b": [False, True] * 300}
    )
    schema = Schema(
        (
            Date(name="d", lower=table["d"].min(), upper=table["d"].max()),
            boolean("b"),
        )
    )
    model = synthesize(table, schema=schema, epsilon=5.0)
    assert model.infer("mean(d)")[0].notes == (
        "'d' is counted in days since 1970-01-01",
    )


def test_intervals_of_a_long_tail_hold():
    """Moments count a range without the tail; intervals have to allow for it.

    They hold the mean in 92 % of such releases. With an allowance that does not look at
    the tail it was 21 %, which is 5 of 8 in one of a hundred.
    """
    schema = Schema((continuous("cost", 0, 1_000), boolean("ill")))
    method = Pairwise(moments_share=0.5, fit_options={"steps": 60})
    covered = []
    for seed in range(8):
        random = np.random.default_rng(seed)
        cost = random.lognormal(3.4, 1, 10_000).clip(0, 1_000)
        table = pd.DataFrame({"cost": cost, "ill": random.random(10_000) < 0.3})
        model = synthesize(table, schema=schema, epsilon=2.0, method=method)
        (answer,) = model.infer("mean(cost)", finite=True)
        covered.append(answer.low <= cost.mean() <= answer.high)
    assert sum(covered) >= 5


@pytest.mark.parametrize(
    ("query", "cure"),
    [(["mean(age)"], r"infer\(\*queries\)"), (42, "write it as text")],
    ids=["a list", "a number"],
)
def test_a_query_that_is_no_text_is_refused_with_its_cure(query, cure):
    table, schema = simulated_patients()
    model = synthesize(table, schema=schema, epsilon=1.0)
    with pytest.raises(OptionError, match=cure):
        model.infer(query)
