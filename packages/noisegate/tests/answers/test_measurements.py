"""What a release states, read as named tables: the best estimates, and crosstabs with intervals that hold."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from tests.shared.columns import boolean, categorical, integer

from noisegate import Schema, synthesize
from noisegate.answers.crosstab import crosstab
from noisegate.answers.domain import Domain, NumberRange
from noisegate.answers.measurements import Measurements
from noisegate.answers.noisy_table import NoisyTable
from noisegate.answers.reconcile import reconcile
from noisegate.errors import OptionError

SCHEMA = Schema(
    [
        integer("age", 18, 99),
        integer("kids", 0, 8, missing=True),
        categorical("sex", "fm"),
        categorical("job", ("cook", "nurse", "clerk"), missing=True),
        boolean("ill"),
    ]
)


def people(records=4000, seed=0):
    random = np.random.default_rng(seed)
    age = np.clip(random.normal(45, 15, records), 18, 99).round().astype(int)
    kids = random.poisson(1.2, records).clip(0, 8).astype(float)
    kids[random.random(records) < 0.1] = np.nan
    job = random.choice(
        ["cook", "nurse", "clerk", None], records, p=[0.5, 0.3, 0.1, 0.1]
    )
    return pd.DataFrame(
        {
            "age": age,
            "kids": pd.array(kids, dtype="Int64"),
            "sex": random.choice(["f", "m"], records),
            "job": job,
            "ill": random.random(records) < np.where(age > 60, 0.4, 0.1),
        }
    )


def fitted(frame, **options):
    settings = {"fit_options": {"steps": 1}, **options}
    return synthesize(frame, schema=SCHEMA, **{"epsilon": 1.0, **settings})


@pytest.fixture(
    scope="module",
    params=[{}, {"moments_share": 0.5}, {"triples": [["age", "sex", "ill"]]}],
)
def model(request):
    return fitted(people(), **request.param)


def test_the_best_tables_without_moments_are_those_of_all_tables_by_inverse_variance(
    model,
):
    stated = model.answers
    tables_alone = replace(stated, moments=None)
    assert stated.domain.names == ("age", "kids", "sex", "job", "ill")
    assert len(tables_alone.pairs) == 10
    on_domain = [
        table for table in stated.tables if stated.domain.contains(table.domain)
    ]
    for pair in tables_alone.pairs:
        counts = 0.0
        weights = 0.0
        for table in on_domain:
            if set(pair) <= set(table.domain.names):
                marginal = table.project(pair)
                counts = counts + marginal.counts / marginal.variance
                weights = weights + 1 / marginal.variance
        best = tables_alone.best(pair)
        np.testing.assert_allclose(best.counts, counts / weights)
        np.testing.assert_allclose(best.variance, 1 / weights)
        # With moments an estimate is no worse.
        assert (stated.best(pair).variance <= best.variance * (1 + 1e-12)).all()
    if stated.moments is not None:
        # Counts of levels among the moments say more of the total.
        assert stated.total.variance < tables_alone.total.variance
    assert abs(stated.total.value - 4000) < 5 * stated.total.variance**0.5


def test_products_of_levels_among_moments_are_counts_like_others():
    stated = fitted(people(), moments_share=0.5).answers
    assert stated.moments is not None
    tables = {
        table.domain.names: table for table in stated.moments.tables(stated.domain)
    }
    assert set(tables) == {
        (),
        *((name,) for name in ("sex", "job", "ill")),
        *combinations(("sex", "job", "ill"), 2),
    }
    frame = people()
    for name in ("sex", "job", "ill"):
        table = tables[name,]
        truth = [
            (frame[name].isna() if level is None else frame[name] == level).sum()
            for level in table.domain.cells[0]
        ]
        error = (table.counts - truth) / np.sqrt(table.variance)
        assert np.abs(error).max() < 5


def test_cells_say_which_numbers_they_hold(model):
    domain = model.answers.domain
    cells = domain.by_name["kids"]
    assert cells[-1] is None
    assert domain.by_name["job"][-1] is None
    ranges = [cell for cell in domain.by_name["age"] if isinstance(cell, NumberRange)]
    assert ranges[0].low == 18
    assert ranges[-1].high == 99
    assert all(after.low == before.high + 1 for before, after in pairwise(ranges))


def test_least_squares_agree_on_margins_and_are_the_projection_of_all_tables():
    """Against the normal equations of all tables, solved as one dense system."""
    random = np.random.default_rng(2)
    domain = Domain.of({"a": ("1", "2", "3"), "b": ("x", "y"), "c": (False, True)})
    truth = random.uniform(50, 100, domain.shape)
    tables = []
    rows = []
    right = []
    weights = []
    cells = np.eye(domain.size).reshape(*domain.shape, domain.size)
    for names, std in (
        (("a", "b"), 3.0),
        (("b", "c"), 5.0),
        (("a",), 2.0),
        (("c",), 1.0),
    ):
        axes = tuple(i for i, name in enumerate(domain.names) if name not in names)
        counts = truth.sum(axis=axes)
        counts = counts + std * random.normal(size=counts.shape)
        tables.append(NoisyTable.of(domain.project(names), counts, noise_std=std))
        rows.append(cells.sum(axis=axes).reshape(-1, domain.size))
        right.append(counts.ravel())
        weights.append(np.full(counts.size, 1 / std))
    design = np.concatenate(rows)
    scale = np.concatenate(weights)
    solved, *_ = np.linalg.lstsq(
        design * scale[:, None], np.concatenate(right) * scale, rcond=None
    )
    covariance = np.linalg.pinv(design.T * scale**2 @ design)
    measurements = Measurements(domain, tuple(tables))
    for names in (("a", "b"), ("b", "c"), ("b",), ("c",), ()):
        axes = tuple(i for i, name in enumerate(domain.names) if name not in names)
        projection = cells.sum(axis=axes).reshape(-1, domain.size)
        table = reconcile(measurements, names)
        np.testing.assert_allclose(table.counts.ravel(), projection @ solved)
        variance = np.diag(projection @ covariance @ projection.T)
        np.testing.assert_allclose(table.variance.ravel(), variance)
        assert not table.is_independent
    margins = [
        reconcile(measurements, pair).counts for pair in (("a", "b"), ("b", "c"))
    ]
    np.testing.assert_allclose(margins[0].sum(axis=0), margins[1].sum(axis=1))
    with pytest.raises(LookupError, match="a and c were not measured together"):
        reconcile(measurements, ("a", "c"))


def test_a_crosstab_has_an_interval_in_every_cell():
    frame = people()
    answers = fitted(frame).infer("crosstab(job, ill)")
    assert [answer.name for answer in answers[:3]] == [
        "job = cook, ill = False",
        "job = cook, ill = True",
        "job = nurse, ill = False",
    ]
    assert answers[-1].name == "job = missing, ill = True"
    assert sum(answer.value for answer in answers) == pytest.approx(1.0)
    for answer in answers:
        assert 0 <= answer.low <= answer.high <= 1
        assert answer.noise > 0 < answer.sampling
    cooks = ((frame["job"] == "cook") & ~frame["ill"]).mean()
    assert answers[0].low - 0.02 < cooks < answers[0].high + 0.02


def test_a_crosstab_of_numbers_names_their_ranges(model):
    names = [answer.name for answer in model.infer("crosstab(age, sex)")]
    assert names[0].startswith("age = 18 to ")
    assert names[0].endswith(", sex = f")


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ("crosstab(sex, sex)", "names a column twice"),
        ("crosstab(sex, wage)", "no column 'wage'"),
        ("crosstab(sex)", "is not understood"),
        ("crosstab(sex, job) by ill", "is not understood"),
    ],
)
def test_crosstabs_that_cannot_be_are_refused(question, why):
    with pytest.raises(OptionError, match=why):
        fitted(people(300)).infer(question)


def test_columns_that_were_not_measured_together_have_no_crosstab():
    unpaired = fitted(people(300), pairs="none")
    with pytest.raises(OptionError, match="'sex' and 'job' were not measured together"):
        unpaired.infer("crosstab(sex, job)")


def test_a_crosstab_of_drowned_records_is_refused():
    domain = Domain.of({"a": ("x", "y"), "b": ("x", "y")})
    counts = np.full((2, 2), 3.0)
    table = NoisyTable.of(domain, counts, noise_std=10.0)
    assert (
        crosstab(Measurements(domain, (table,)), "a", "b", level=0.95, finite=False)
        is None
    )
    (answer,) = fitted(people(20), epsilon=0.05, pairs="all").infer(
        "crosstab(sex, ill)"
    )
    assert "too noisy for an interval" in answer.refused


@pytest.mark.parametrize("finite", [False, True])
def test_intervals_of_crosstabs_hold_as_often_as_they_say(finite):
    """Each cell of 4,000 simulated releases of two tables; of the records themselves where finite."""
    random = np.random.default_rng(3)
    domain = Domain.of({"a": ("1", "2", "3"), "b": ("x", "y")})
    shares = np.array([[0.3, 0.2], [0.25, 0.1], [0.1, 0.05]])
    held = []
    for _ in range(4000):
        records = random.multinomial(1000, shares.ravel()).reshape(3, 2)
        tables = []
        for names, std in ((("a", "b"), 12.0), (("a",), 6.0), (("b",), 6.0)):
            axes = tuple(i for i, name in enumerate(domain.names) if name not in names)
            counts = records.sum(axis=axes)
            counts = counts + std * random.normal(size=counts.shape)
            tables.append(NoisyTable.of(domain.project(names), counts, noise_std=std))
        answers = crosstab(
            Measurements(domain, tuple(tables)), "a", "b", level=0.95, finite=finite
        )
        truth = records / records.sum() if finite else shares
        held.append((answers.low <= truth) & (truth <= answers.high))
    # 24,000 intervals that share their noise six by six.
    assert np.mean(held) == pytest.approx(0.95, abs=0.012)


def test_a_question_without_an_answer_does_not_take_those_of_the_others():
    unpaired = fitted(people(300), pairs="none")
    questions = (
        "share(ill = true)",
        "crosstab(sex, job)",
        "corr(age, kids)",
        "mean(age)",
    )
    answers = unpaired.infer(*questions)
    assert [answer.question for answer in answers] == list(questions)
    assert [answer.refused is None for answer in answers] == [True, False, False, True]
    assert all("not measured together" in answer.refused for answer in answers[1:3])
    for question in questions[1:3]:
        with pytest.raises(OptionError, match="not measured together"):
            unpaired.infer(question)
    with pytest.raises(OptionError, match="no column 'wage'"):
        unpaired.infer("mean(age)", "mean(wage)")


def test_what_was_released_is_a_data_frame_with_its_noise(model):
    frame = model.answers.best(["sex", "kids"]).to_pandas()
    assert frame.columns.tolist() == ["sex", "kids", "count", "noise_std"]
    assert frame["sex"].unique().tolist() == ["f", "m"]
    assert frame["kids"].iloc[-1] is None
    best = model.answers.best(["sex", "kids"])
    assert (
        frame["count"].to_numpy().reshape(best.domain.shape).tolist()
        == best.counts.tolist()
    )
    assert (frame["noise_std"] ** 2).sum() == pytest.approx(best.variance.sum())
    total = NoisyTable.of_number(model.answers.total).to_pandas()
    assert total["count"].tolist() == [model.answers.total.value]


@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_several_quantiles_do_not_cross_and_are_those_of_single_questions(epsilon):
    noisy = fitted(people(500), epsilon=epsilon)
    probabilities = (0.02, 0.1, 0.25, 0.5, 0.51, 0.75, 0.9, 0.98)
    question = f"quantile(age, {', '.join(map(str, reversed(probabilities)))})"
    answers = noisy.infer(question)
    assert [answer.name for answer in answers] == [
        f"age at {p:g}" for p in probabilities
    ]
    for field in ("value", "low", "high"):
        values = [getattr(answer, field) for answer in answers]
        assert values == sorted(values)
    for probability, answer in zip(probabilities, answers, strict=True):
        (alone,) = noisy.infer(f"quantile(age, {probability})")
        assert alone.value == answer.value
        # Together, their order makes intervals narrower where noise reversed it.
        assert alone.low <= answer.low <= answer.value <= answer.high <= alone.high


@pytest.mark.parametrize(
    "question", ["quantile(age)", "quantile(age, 0.1, x)", "quantile(age) by sex"]
)
def test_quantiles_without_probabilities_are_not_understood(question):
    with pytest.raises(OptionError, match="is not understood"):
        fitted(people(300)).infer(question)
