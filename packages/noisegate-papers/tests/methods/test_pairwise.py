"""The pairwise method from records to samples: what it finds and what it costs; see test_legal_tables for the rest."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.shared.stated import kinds, ledger_of

from noisegate import Gate
from noisegate.errors import ModelError, OptionError
from noisegate.ledger.ledger import Kind
from noisegate.methods.pairwise import Pairwise
from noisegate.privacy.grid import UNITS
from noisegate.schema import Boolean, Categorical, Continuous, Integer, Schema

TINY = Pairwise(fit_options={"components": 40, "steps": 80})
AGE = Integer(name="age", lower=0, upper=120, missing=True)
RATE = Continuous(name="rate", lower=0.0, upper=4.0)
KIDS = Integer(name="kids", lower=0, upper=3)
WORK = Categorical(name="work", levels=("a", "b", "c"), missing=True)
ILL = Boolean(name="ill")
SCHEMA = Schema((AGE, RATE, KIDS, WORK, ILL), label="ill")


def people(rows=3000, seed=0):
    """Work follows age, the rate is zero for a third and else follows illness, and illness follows age."""
    random = np.random.default_rng(seed)
    age = random.integers(20, 80, rows)
    ill = random.uniform(size=rows) < (age - 10) / 160
    rate = np.where(
        random.uniform(size=rows) < 0.3,
        0.0,
        np.clip(random.normal(1.0 + 1.5 * ill, 0.4), 0, 4),
    )
    frame = pd.DataFrame(
        {
            "age": pd.array(age, dtype="Int64"),
            "rate": rate,
            "kids": np.clip(random.poisson(age / 40), 0, 3),
            "work": np.array(["a", "b", "c"])[(age - 20) // 20],
            "ill": ill,
        }
    )
    frame.loc[random.uniform(size=rows) < 0.1, "age"] = pd.NA
    return frame


def gate(frame, schema=SCHEMA, **options):
    return Gate(
        frame[[c for c in frame.columns if c in schema.names]],
        schema=schema,
        **{"epsilon": 1.0, **options},
    )


def fit(schema=SCHEMA, method=TINY, frame=None, **options):
    return method.fit(
        gate(people() if frame is None else frame, schema, **options), device="cpu"
    )


@pytest.fixture(scope="module")
def clear():
    """A fit at an ε at which the noise is small."""
    return fit(
        method=replace(TINY, fit_options={"components": 60, "steps": 300}),
        epsilon=100.0,
    )


def test_a_label_alone_is_made():
    assert fit(Schema((ILL,), label="ill")).sample(300, seed=0).column_names == ["ill"]


def test_what_a_column_always_says_the_samples_say_too():
    frame = people(3000).assign(age=pd.array([None] * 3000, dtype="Int64"), rate=4.0)
    table = fit(frame=frame, epsilon=20.0).sample(1000, seed=0).to_pandas()
    assert table.age.isna().mean() > 0.98
    assert (table.rate == 4.0).mean() > 0.98


def apart(left, right, columns):
    """Total variation distance of the joint distributions of two columns, ages in decades."""
    tables = [
        table.assign(age=np.floor(table.age.astype(float) / 10))
        for table in (left, right)
    ]
    joints = [
        pd.crosstab(*(table[name].astype(str) for name in columns), normalize=True)
        for table in tables
    ]
    return joints[0].sub(joints[1], fill_value=0).fillna(0).abs().to_numpy().sum() / 2


def test_pairs_are_recovered_and_without_them_they_are_not(clear):
    real = people()
    one_way = (
        fit(method=replace(TINY, pairs="none"), epsilon=100.0)
        .sample(5000, seed=0)
        .to_pandas()
    )
    here = clear.sample(5000, seed=0).to_pandas()
    assert apart(real, here, ["age", "work"]) < 0.12
    assert apart(real, one_way, ["age", "work"]) > 0.5
    # The label is told apart in the one-way tables too.
    for table in (here, one_way):
        assert apart(real, table, ["ill", "work"]) < 0.06


def test_single_values_keep_their_part_and_the_rest_its_shape(clear):
    real, here = people(), clear.sample(5000, seed=0).to_pandas()
    assert (here.rate == 0).mean() == pytest.approx((real.rate == 0).mean(), abs=0.03)
    assert here.age.isna().mean() == pytest.approx(0.1, abs=0.03)
    for ill in (True, False):
        for part in (0.5, 0.9):
            wanted = real.rate[real.ill == ill].quantile(part)
            assert here.rate[here.ill == ill].quantile(part) == pytest.approx(
                wanted, abs=0.15
            )
    assert set(here.age.dropna().unique()) <= set(range(121))


@pytest.mark.parametrize(
    ("pairs", "found"),
    [
        ("chosen", True),
        ((("work", "age"),), True),
        ((("work", "rate"), ("ill", "age")), False),
    ],
)
def test_the_pairs_of_the_settings_are_those_that_are_found(pairs, found):
    table = (
        fit(
            method=replace(
                TINY, pairs=pairs, fit_options={"components": 60, "steps": 200}
            ),
            epsilon=100.0,
        )
        .sample(5000, seed=0)
        .to_pandas()
    )
    assert bool(apart(people(), table, ["age", "work"]) < 0.3) is found


def test_triples_find_what_no_pair_shows():
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": random.uniform(size=4000) < 0.5, "b": random.uniform(size=4000) < 0.5}
    )
    frame["c"] = frame.a ^ frame.b
    schema = Schema((Boolean(name="a"), Boolean(name="b"), Boolean(name="c")))
    # 30 runs with the triple gave 0.9727 with a standard deviation of 0.0012.
    for triples, low, high in (((), 0.3, 0.7), ((("a", "b", "c"),), 0.96, 1.0)):
        table = (
            fit(schema, replace(TINY, triples=triples), frame, epsilon=50.0)
            .sample(3000, seed=0)
            .to_pandas()
        )
        assert low < (table.c == (table.a ^ table.b)).mean() <= high


def test_replacing_a_record_costs_more_than_adding_one_and_needs_their_number():
    certificate = fit(adjacency="replace-one", records=3000).certificate
    assert certificate.adjacency.value == "replace-one"
    assert {event.sensitivity for event in certificate.events} == {
        math.isqrt(2 * UNITS**2) + 1
    }
    assert certificate.check() <= 1.0
    assert {event.sensitivity for event in fit().certificate.events} == {UNITS}


@pytest.fixture
def ledger(tmp_path):
    return ledger_of(tmp_path, epsilon=3.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pairs": (("age", "nobody"),)}, "nobody"),
        ({"triples": (("age", "rate", "nobody"),)}, "nobody"),
        ({"fit_options": {"step": 3}}, "step"),
        ({"fit_options": {"steps": -3}}, "steps=-3"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_spent(ledger, changes, message):
    with pytest.raises(OptionError, match=message):
        fit(method=replace(TINY, **changes), ledger=ledger, dataset="clinic")
    assert kinds(ledger) == []
    fit(ledger=ledger, dataset="clinic")
    assert kinds(ledger) == [Kind.RESERVE, Kind.CONFIRM, Kind.COMMIT]


@pytest.mark.parametrize(
    "settings",
    [
        *(
            {"pairs": value}
            for value in (
                "some",
                None,
                5,
                [("a",)],
                [("a", 1)],
                ["ab"],
                [("a", "b", "c")],
            )
        ),
        *({"triples": value} for value in ("abc", None, [("a", "b")])),
    ],
)
def test_unusable_columns_are_refused_by_the_name_of_the_setting(settings):
    with pytest.raises(OptionError, match=f"^{next(iter(settings))}="):
        Pairwise(**settings)


def test_a_release_of_other_settings_is_refused(clear):
    for changes in (
        {"cells": 5},
        {"pairs": "chosen"},
        {"triples": (("age", "rate", "work"),)},
    ):
        with pytest.raises(
            ModelError, match="does not hold the tables of its settings"
        ):
            replace(TINY, **changes).fit_release(clear.release)
