"""Figures in each group of a column: one group may be badly copied where the mean is well."""

import numpy as np
import pyarrow as pa
import pytest

from noisegate import evaluate
from noisegate.errors import OptionError
from noisegate.schema import Boolean, Categorical, Integer, Schema
from noisegate_evaluate.metrics.groups import group_figures

SCHEMA = Schema(
    [
        Categorical(name="sex", levels=("f", "m", "x")),
        Integer(name="age", lower=0, upper=9),
        Boolean(name="ill"),
    ]
)


def people(seed, ill_of_f):
    """Men whose illness follows their age, women whose illness may follow it or the opposite, and five others."""
    random = np.random.default_rng(seed)
    sex = np.array(["f"] * 1000 + ["m"] * 1000 + ["x"] * 5)
    age = random.integers(0, 10, len(sex))
    old = age > 4
    ill = np.where(sex == "f", old == ill_of_f, old)
    return pa.table({"sex": sex, "age": age, "ill": ill})


REAL = people(0, ill_of_f=True)
MADE = people(1, ill_of_f=False)


def test_the_group_that_is_copied_badly_is_the_worst():
    groups = group_figures(MADE, REAL, SCHEMA, "sex")
    errors = {group.level: group.pairs for group in groups.groups}
    assert errors["f"] > 0.9
    assert errors["m"] < 0.05
    assert groups.worst["pairs"].group.level == "f"
    verdict, *_ = groups.verdicts()
    assert verdict.word == "noise"
    assert "'f', the worst of 2 groups" in verdict.reasons[0]


def test_an_association_that_a_group_loses_is_told_beside_the_mean():
    women = np.asarray(REAL["sex"]) == "f"
    chance = np.random.default_rng(3).random(len(women)) < 0.5
    ill = np.where(women, chance, REAL["ill"])
    made = REAL.set_column(2, "ill", pa.array(ill))
    groups = group_figures(made, REAL, SCHEMA, "sex")
    kept = {group.level: group.associations_kept for group in groups.groups}
    assert kept["f"] < 0.1
    assert kept["m"] == 1
    worst = groups.worst["associations_lost"]
    assert worst.group.level == "f"
    assert worst.mean_error == pytest.approx((1 - kept["f"]) / 2)
    reasons = [reason for verdict in groups.verdicts() for reason in verdict.reasons]
    told = f"by sex, {kept['f']:.0%} of strong associations are kept in 'f'"
    assert any(reason.startswith(told) for reason in reasons)


def test_numbers_that_are_off_in_one_group_are_those_of_the_worst():
    women = np.asarray(REAL["sex"]) == "f"
    age = np.where(women, np.minimum(np.asarray(REAL["age"]) + 3, 9), REAL["age"])
    older = REAL.set_column(1, "age", pa.array(age))
    worst = group_figures(older, REAL, SCHEMA, "sex").worst
    for figure in ("mean", "quantile"):
        assert worst[figure].group.level == "f"
        assert getattr(worst[figure].group, figure).column == "age"
        assert worst[figure].mean_error == pytest.approx(worst[figure].error / 2)
    # By hand, less what chance does: two standard errors of a difference.
    real = np.asarray(REAL["age"])[women]
    apart = (age[women].mean() - real.mean()) / real.std(ddof=1)
    assert worst["mean"].error == pytest.approx(apart - 2 * np.sqrt(2 / 1000))


def test_groups_of_the_same_records_have_no_error():
    groups = group_figures(REAL, REAL, SCHEMA, "sex")
    assert {worst.error for worst in groups.worst.values()} == {0.0}
    assert [verdict.word for verdict in groups.verdicts()] == ["good"]


def test_a_group_of_few_records_is_counted_and_said_to_be_too_small():
    groups = group_figures(MADE, REAL, SCHEMA, "sex")
    *_, others = groups.groups
    assert (others.level, others.records, others.errors) == ("x", 5, {})
    note = "by sex, fewer than 100 real records are too few to judge: 'x' (5)"
    assert groups.notes == (note,)


def test_shares_of_groups_are_told():
    women = MADE.filter(pa.array([True] * 1000 + [False] * 1005))
    shares = [group.share for group in group_figures(women, REAL, SCHEMA, "sex").groups]
    assert shares == [1, 0, 0]


def test_a_report_has_its_groups_and_their_word():
    report = evaluate(MADE, REAL, schema=SCHEMA, by="sex")
    assert report.to_json()["groups"]["column"] == "sex"
    assert report.verdict.word == "noise"
    assert "too few to judge: 'x' (5)" in report.notes[-1]


@pytest.mark.parametrize("label", ["ill", "age"])
def test_a_model_that_fails_one_group_is_told_with_training_records(label):
    schema = Schema(SCHEMA.columns, label=label)
    test = people(2, ill_of_f=True)
    groups = evaluate(MADE, test, schema=schema, train=REAL, by="sex").groups
    scores = {group.level: group.score for group in groups.groups}
    assert scores["f"].synthetic < 0.1
    assert scores["f"].real > 0.7
    assert scores["m"].synthetic == pytest.approx(scores["m"].real, abs=0.02)
    assert scores["x"] is None
    assert groups.worst["score_lost"].group.level == "f"
    alone = evaluate(MADE, test, schema=schema, by="sex").groups
    assert alone.score is None


def test_groups_of_the_label_itself_have_no_scores():
    schema = Schema(SCHEMA.columns, label="sex")
    groups = evaluate(MADE, REAL, schema=schema, train=REAL, by="sex").groups
    assert {group.score for group in groups.groups} == {None}


@pytest.mark.parametrize("column", ["age", "sexx"])
def test_groups_are_those_of_a_column_of_levels(column):
    with pytest.raises(OptionError, match="expected a column of levels: "):
        group_figures(MADE, REAL, SCHEMA, column)
