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
    assert groups.worst.level == "f"
    assert groups.verdict().word == "noise"
    assert "'f', the worst of 2 groups" in groups.verdict().reasons[0]


def test_a_group_of_few_records_is_counted_and_not_measured():
    *_, others = group_figures(MADE, REAL, SCHEMA, "sex").groups
    assert (others.level, others.records, others.pairs) == ("x", 5, None)


def test_shares_of_groups_are_told():
    women = MADE.filter(pa.array([True] * 1000 + [False] * 1005))
    shares = [group.share for group in group_figures(women, REAL, SCHEMA, "sex").groups]
    assert shares == [1, 0, 0]


def test_a_report_has_its_groups_and_their_word():
    report = evaluate(MADE, REAL, schema=SCHEMA, by="sex")
    assert report.to_json()["groups"]["column"] == "sex"
    assert report.verdict.word == "noise"


@pytest.mark.parametrize("column", ["age", "sexx"])
def test_groups_are_those_of_a_column_of_levels(column):
    with pytest.raises(OptionError, match="expected a column of levels: "):
        group_figures(MADE, REAL, SCHEMA, column)
