from datetime import date, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

from noisegate.app.drafts.draft import draft
from noisegate.schema import EncodedTable, Schema, decode
from noisegate.schema.columns import column_form
from noisegate.sources import TableSource

RECORD_COUNT = 4000
RANDOM = np.random.default_rng(0)
AGES = RANDOM.integers(18, 90, RECORD_COUNT)


def drafted(**columns):
    return draft(pd.DataFrame({**columns, "age": AGES}))


def distinct_codes(count, lower=1000, upper=99_999):
    return np.sort(RANDOM.choice(np.arange(lower, upper), count, replace=False))


def zipf_draws(codes):
    """Draws codes of which a few are frequent and most are rare."""
    weights = 1 / np.arange(1, len(codes) + 1)
    return RANDOM.choice(codes, RECORD_COUNT, p=weights / weights.sum())


CODES = {
    "municipality": RANDOM.choice(distinct_codes(30), RECORD_COUNT),
    "plz": zipf_draws(distinct_codes(150, 10_115, 14_200)),
    "station_id": RANDOM.choice(distinct_codes(80), RECORD_COUNT),
    "where": RANDOM.choice(distinct_codes(60), RECORD_COUNT),  # no name of a code
}


@pytest.mark.parametrize("name", CODES)
def test_codes_far_apart_are_levels_with_a_comment_that_asks(name):
    result = drafted(**{name: CODES[name]})
    column = result.schema.column(name)
    assert column.kind == "categorical"
    assert set(column.levels) == set(CODES[name].tolist())
    assert "is it a quantity?" in result.entries[0].comments[0]


QUANTITIES = {
    "counts": RANDOM.negative_binomial(1, 0.02, RECORD_COUNT),
    # As capital gains in the Adult data: mostly 0, then rare and far apart.
    "gain": np.where(
        RANDOM.random(RECORD_COUNT) < 0.9, 0, zipf_draws(distinct_codes(100))
    ),
    "salary": RANDOM.choice(np.arange(20_000, 90_000, 1_000), RECORD_COUNT)
    + (np.arange(RECORD_COUNT) == 7),
    "days": AGES * 365,
    "age_squared": AGES**2,
    "region": RANDOM.integers(1, 60, RECORD_COUNT),
}


@pytest.mark.parametrize("name", QUANTITIES)
def test_amounts_are_no_codes(name):
    assert drafted(**{name: QUANTITIES[name]}).schema.column(name).kind == "integer"


def test_of_too_many_codes_a_comment_says_what_to_do():
    codes = RANDOM.choice(distinct_codes(300), RECORD_COUNT)
    result = drafted(municipality=codes)
    assert result.schema.column("municipality").kind == "integer"
    [comment] = result.entries[0].comments
    assert comment.startswith("300 different whole numbers, spread out like codes")


CONSTANTS = {
    "year": (2013, {"kind": "categorical", "levels": [2013]}),
    "minus": (-7, {"kind": "categorical", "levels": [-7]}),
    "dose": (
        3.5,
        {"kind": "continuous", "lower": 3.4, "upper": 3.6, "atoms": [3.5]},
    ),
    "third": (1 / 3, {"kind": "continuous", "atoms": [1 / 3]}),
    "tiny": (1.5e-12, {"kind": "continuous", "atoms": [1.5e-12]}),
    "day": (
        date(2013, 5, 1),
        {"kind": "date", "lower": date(2013, 4, 30), "upper": date(2013, 5, 2)},
    ),
    "moment": (
        datetime(2013, 5, 1, 8),
        {"kind": "datetime", "step": 1, "lower": datetime(2013, 5, 1, 7, 59, 59)},
    ),
    "site": ("A", {"kind": "categorical", "levels": ["A"]}),
    "none_seen": (0, {"kind": "integer", "lower": 0, "upper": 1}),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_is_drafted_as_its_own_value(name, tmp_path):
    value, expected = CONSTANTS[name]
    path = tmp_path / "public.csv"
    table = pa.table({name: [value] * RECORD_COUNT, "age": AGES.tolist()})
    pyarrow.csv.write_csv(table, path)
    result = draft(path)
    assert not result.rules.remarks
    form = column_form(result.schema.column(name))
    assert {key: form[key] for key in expected} == expected
    # What is read through the drafted file is the constant again.
    schema = Schema.loads(result.toml())
    encoded = EncodedTable.concatenate(list(TableSource(path, schema).batches()))
    assert set(decode(encoded, schema)[name].to_pylist()) == {value}


def test_few_records_show_no_constant():
    assert draft(pd.DataFrame({"year": [2013] * 3})).schema.column("year").lower < 2013


def test_constants_are_tied_to_nothing():
    columns = {"dose": np.full(RECORD_COUNT, 0.1), "rate": np.full(RECORD_COUNT, 0.3)}
    assert not drafted(**columns).rules.remarks
