"""Records of which some values are known are completed, given what is known."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate import synthesize
from noisegate.errors import OptionError
from noisegate.models.rejection import RejectionError
from noisegate.schema import (
    Comparison,
    Ordered,
    Schema,
)

COLUMNS = (
    categorical("job", ("cook", "nurse", "smith"), missing=True),
    continuous("wage", 0, 100),
    integer("days", 0, 60),
    boolean("ill"),
)
FEW = {"cells": 8, "fit_options": {"components": 40, "steps": 60}}


def records(count, seed):
    """Draws records whose four columns all go with one hidden number."""
    random = np.random.default_rng(seed)
    hidden = random.standard_normal(count)
    job = np.array(["cook", "nurse", "smith"])[np.digitize(hidden, [-0.5, 0.5])]
    return pd.DataFrame(
        {
            "job": np.where(random.random(count) < 0.1, None, job),
            "wage": (50 + 15 * hidden + random.normal(0, 5, count)).clip(0, 100),
            "days": (30 + 10 * hidden + random.normal(0, 5, count))
            .clip(0, 60)
            .astype(int),
            "ill": random.random(count) < 1 / (1 + np.exp(-2 * hidden)),
        }
    )


@pytest.fixture(scope="module", params=[None, "ill"], ids=["mixture", "labelled"])
def model(request):
    schema = Schema(COLUMNS, label=request.param)
    return synthesize(records(6_000, seed=0), schema=schema, epsilon=100.0, **FEW)


@pytest.fixture
def gaps():
    """Records of which a third of the cells are missing, and the whole ones."""
    whole = records(1_500, seed=1).dropna()
    is_gap = np.random.default_rng(2).random(whole.shape) < 0.33
    return whole.astype(object).mask(is_gap).astype({"wage": float}), whole


def test_known_values_stay_and_gaps_are_filled(model, gaps):
    table, whole = gaps
    filled = model.sample(given=table, seed=0)
    assert not filled.isna().any().any()
    for name in ("job", "days", "ill"):
        is_known = table[name].notna().to_numpy()
        assert (filled[name][is_known] == whole[name].to_numpy()[is_known]).all()
    is_known = table["wage"].notna().to_numpy()
    wages = whole["wage"].to_numpy()[is_known]
    assert filled["wage"][is_known].to_numpy() == pytest.approx(wages)


def test_what_is_filled_goes_with_what_is_known(model, gaps):
    table, whole = gaps
    filled = model.sample(given=table, seed=0)
    is_filled = (table["wage"].isna() & table["days"].notna()).to_numpy()
    known_days = whole["days"].to_numpy()[is_filled]
    correlation = np.corrcoef(filled["wage"][is_filled], known_days)[0, 1]
    true = np.corrcoef(whole["wage"].to_numpy()[is_filled], known_days)[0, 1]
    assert correlation > 0.85 * true


def test_columns_that_are_lacking_are_added(model):
    """All that is known are shares and means in each group: a scenario."""
    real = records(6_000, seed=0)
    for is_ill in (False, True):
        synthetic = model.sample(given={"ill": [is_ill] * 2_000}, seed=0)
        of_group = real[real["ill"] == is_ill]
        assert list(synthetic.columns) == ["job", "wage", "days", "ill"]
        assert synthetic["wage"].mean() == pytest.approx(of_group["wage"].mean(), abs=2)
        # A column that is added may be missing, as the model has it.
        assert synthetic["job"].isna().mean() == pytest.approx(0.1, abs=0.04)


def test_an_arrow_table_is_taken_too(model):
    synthetic = model.sample(given=pa.table({"days": [3, None]}), seed=0)
    assert synthetic["days"][0] == 3
    assert len(synthetic) == 2


def test_the_same_seed_gives_the_same_values(model, gaps):
    table, _ = gaps
    first, second = (model.sample(given=table, seed=5) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)


@pytest.mark.parametrize(
    ("given_columns", "message"),
    [
        ({"pay": [1]}, "column 'pay' is not a column of the model; leave it out"),
        ({"job": ["clerk"]}, "record 1: column 'job': expected one of the 3 levels"),
        (3, "given is a int that cannot be read"),
    ],
)
def test_what_does_not_fit_is_refused_without_its_value(model, given_columns, message):
    with pytest.raises(OptionError, match=message) as caught:
        model.sample(given=given_columns)
    assert "clerk" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [{"n": 3}, {"where": {"ill": True}}, {"even": "ill"}, {"calibrated": True}],
)
def test_the_records_say_how_many_there_are(model, options):
    with pytest.raises(OptionError, match="leave n, where, even and calibrated out"):
        model.sample(given={"days": [1]}, **options)


def test_without_a_number_of_records_there_is_no_sample(model):
    with pytest.raises(OptionError, match="n=None: say how many"):
        model.sample()


@pytest.fixture(scope="module")
def stays():
    random = np.random.default_rng(0)
    first = random.integers(0, 30, 3_000)
    return pd.DataFrame({"first": first, "last": first + random.integers(0, 30, 3_000)})


DAYS = (
    integer("first", 0, 60),
    integer("last", 0, 60),
)


RULE = Comparison(left="first", relation="<=", right="last")


def test_completed_records_keep_to_the_constraints(stays):
    schema = Schema(DAYS, constraints=[RULE])
    model = synthesize(stays, schema=schema, epsilon=10.0, **FEW)
    synthetic = model.sample(given={"first": [20] * 500}, seed=0)
    assert (synthetic["last"] >= 20).all()


def test_known_values_that_break_a_constraint_are_refused(stays):
    schema = Schema(DAYS, constraints=[RULE])
    model = synthesize(stays, schema=schema, epsilon=10.0, **FEW)
    with pytest.raises(RejectionError, match="record 2 breaks a rule of the schema"):
        model.sample(given={"first": [3, 30], "last": [5, 10]})


def test_a_column_that_is_computed_cannot_be_known(stays):
    schema = Schema(DAYS, relations=[Ordered(upper_name="last", lower_name="first")])
    model = synthesize(stays, schema=schema, epsilon=10.0, **FEW)
    with pytest.raises(OptionError, match="'last' is computed by a relation"):
        model.sample(given={"last": [30]})
    synthetic = model.sample(given={"first": [20] * 500}, seed=0)
    assert (synthetic["last"] >= 20).all()
