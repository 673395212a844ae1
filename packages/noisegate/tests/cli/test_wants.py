"""`plan --want`: the least ε for answers as exact as they are wanted, from public facts alone."""

import json

import numpy as np
import pytest

from noisegate.errors import OptionError
from noisegate.inference.wants import EPSILONS, Want, price, read_want
from noisegate.schema import Boolean, Categorical, Integer, Schema

SCHEMA = Schema(
    (
        *(Integer(name="age", lower=0, upper=100), Boolean(name="ill")),
        Categorical(name="job", levels=("cook", "nurse")),
    ),
    label="ill",
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("mean(age) by job ±2 % at 90 %", Want(text="", question="mean(age) by job", half=2.0, level=0.9)),
        ("share(ill = true) +- 3%", Want(text="", question="share(ill = true)", half=0.03)),
        ("age ~ job+-0.5", Want(text="", question="age ~ job", half=0.5)),
    ],
)
def test_a_want_is_a_question_and_half_a_width(text, want):
    found = read_want(text, SCHEMA)
    assert (found.question, found.half, found.level) == (want.question, pytest.approx(want.half), want.level)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mean(age)", "must be a question and how far"),
        ("mean(age) ± 0", "the width must be above 0"),
        ("count(ill = true) ± 2 %", "percent are of a share"),
        ("mean(job) ± 2 %", "'job' is no number"),
        ("what ± 2", "is not understood"),
    ],
)
def test_what_is_no_want_is_refused(text, said):
    with pytest.raises(OptionError, match=said):
        read_want(text, SCHEMA)


def test_less_is_asked_for_where_less_is_wanted_and_no_epsilon_where_none_does():
    def least(half, records=3_000):
        want = Want(text="", question="share(job = nurse) by ill", half=half)
        return price([want], SCHEMA, records, shares=(0.43,))

    loose, tight, never = least(0.3), least(0.1), least(0.01)
    assert loose.reached and tight.reached and loose.epsilon < tight.epsilon
    assert tight.met[0].half <= 0.1
    assert not never.reached and never.epsilon == EPSILONS[-1]
    # By sampling alone 1.96 sqrt(.25 / (n/2) · 2) is .01, for a difference of two halves.
    assert 1 < never.met[0].records / (1.96**2 / 0.01**2) < 3


def test_the_number_of_records_is_public_where_one_is_replaced():
    want = Want(text="", question="share(ill = true)", half=0.2)
    assert price([want], SCHEMA, 2_000, shares=(0.43,), adjacency="replace-one").reached


def test_public_records_stand_in_where_they_are_given(desk, cli, tmp_path):
    random = np.random.default_rng(0)
    even, narrow = tmp_path / "even.csv", tmp_path / "narrow.csv"
    for path, low, high in ((even, 0, 91), (narrow, 40, 45)):
        rows = [f"{age},{job}" for age, job in zip(random.integers(low, high, 500), ["a", "b"] * 250, strict=True)]
        path.write_text("\n".join(["age,job", *rows]) + "\n")
    schema = tmp_path / "two.toml"
    schema.write_text(
        '[columns.age]\nkind = "integer"\nlower = 0\nupper = 90\n'
        '[columns.job]\nkind = "categorical"\nlevels = ["a", "b"]\n'
    )

    def found(like):
        ended = cli(
            *("plan", "--schema", schema, "--records", 2_000, "--want", "mean(age) +- 1.5", "--like", like, "--json")
        )
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    assert found(narrow)["epsilon"] < (found(even)["epsilon"] or 100)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--epsilon", 1], "leave out --epsilon"),
        (["--method", "dp-merf"], "of one table by 'pairwise'"),
        ([], "--want needs --records"),
        (["--records", 99_000_000], "up to 2,000,000"),
        (["--set", "cells=4"], "no --set but moments_share"),
        (["--unit-column", "job", "--contributions", 3], "one record each"),
    ],
)
def test_what_does_not_go_with_a_want_is_refused(desk, cli, more, said):
    ended = cli("plan", "--schema", desk.schema, "--want", "mean(age) +- 1", *more)
    assert ended.code == 2 and said in " ".join(ended.err.split())
