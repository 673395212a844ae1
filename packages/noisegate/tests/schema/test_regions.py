from datetime import UTC, date, datetime

import numpy as np
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer, ordinal

from noisegate.schema import (
    Date,
    Datetime,
    EncodedTable,
    Schema,
)

SCHEMA = Schema(
    (
        categorical("job", ("nurse", "1", "2..3"), missing=True),
        integer("age", 17, 90, missing=True),
        boolean("member"),
        ordinal("grade", (1, 2, 3)),
        continuous("rate", -0.1, 1.0),
        Date(name="born", lower=date(1950, 1, 1), upper=date(2020, 12, 31)),
        Datetime(
            name="seen",
            lower=datetime(2000, 1, 1, tzinfo=UTC),
            upper=datetime(2030, 1, 1, tzinfo=UTC),
        ),
    ),
    missing_values=("", "?"),
)
AGE, RATE, BORN, SEEN = range(4)
JOB, MEMBER, GRADE = range(3)


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ({"job": "nurse"}, {JOB: 0}),
        ({"job": " nurse "}, {JOB: 0}),
        ({"job": 1}, {JOB: 1}),
        ({"job": "2..3"}, {JOB: 2}),
        ({"job": None}, {JOB: 3}),
        ({"job": "?"}, {JOB: 3}),
        ({"member": True, "grade": 3}, {MEMBER: 1, GRADE: 2}),
        ({"member": "No", "grade": "1"}, {MEMBER: 0, GRADE: 0}),
    ],
)
def test_levels_become_codes(values, codes):
    region = SCHEMA.region(values)
    assert dict(region.codes) == codes
    assert dict(region.spans) == {}


@pytest.mark.parametrize(
    ("values", "spans"),
    [
        ({"age": 18}, {AGE: (18, 18)}),
        ({"age": np.int64(18)}, {AGE: (18, 18)}),
        ({"age": "18"}, {AGE: (18, 18)}),
        ({"age": (18, 30)}, {AGE: (18, 30)}),
        ({"age": [18, None]}, {AGE: (18, 90)}),
        ({"age": (None, "30")}, {AGE: (17, 30)}),
        ({"age": "18 .. 30"}, {AGE: (18, 30)}),
        ({"age": "..30"}, {AGE: (17, 30)}),
        ({"age": (-5, 1000)}, {AGE: (17, 90)}),
        ({"age": None}, {AGE: None}),
        ({"age": "?"}, {AGE: None}),
        ({"rate": ".5..1"}, {RATE: (0.5, 1.0)}),
        ({"born": "1970-01-01..1970-01-03"}, {BORN: (0, 2)}),
        ({"born": (date(1970, 1, 2), None)}, {BORN: (1, 18627)}),
        (
            {"seen": ("2000-01-01T01:00:00+01:00", "2000-01-01T00:00:01Z")},
            {SEEN: (946684800 * 10**6, 946684801 * 10**6)},
        ),
    ],
)
def test_numbers_and_moments_become_intervals_within_the_bounds(values, spans):
    assert dict(SCHEMA.region(values).spans) == spans


def test_membership_is_of_what_the_record_decodes_to():
    step = 1 / 73
    numeric = np.zeros((6, 4))
    numeric[:, AGE] = [
        1 * step,
        1.49 * step,
        1.51 * step,
        np.nan,
        0.51 * step,
        0.49 * step,
    ]
    records = EncodedTable(
        numeric, np.array([[0, 0, 0]] * 5 + [[1, 0, 0]], dtype=np.int32)
    )
    assert SCHEMA.region({"age": 18}).contains(records).tolist() == [
        True,
        True,
        False,
        False,
        True,
        False,
    ]
    assert SCHEMA.region({"age": None}).contains(records).tolist() == [
        False,
        False,
        False,
        True,
        False,
        False,
    ]
    assert SCHEMA.region({"age": "..18", "job": "nurse"}).contains(
        records
    ).tolist() == [
        True,
        True,
        *[False] * 2,
        True,
        False,
    ]


def test_a_real_number_is_found_again_though_encoding_rounds_it():
    column = SCHEMA.layout.numeric[RATE]
    for number in np.linspace(-0.1, 1.0, 211):
        position = (number - column.lower) / (column.upper - column.lower)
        record = EncodedTable(
            np.array([[0.5, position, 0.5, 0.5]]), np.zeros((1, 3), dtype=np.int32)
        )
        assert SCHEMA.region({"rate": number}).contains(record).all()


def test_a_condition_may_be_that_a_value_is_not_missing():
    records = EncodedTable(
        np.array([[0.5, 0.1, 0.1, 0.1], [np.nan, 0.1, 0.1, 0.1]]),
        np.array([[3, 0, 0], [0, 0, 0]], dtype=np.int32),
    )
    for name, expected in (
        ("job", [False, True]),
        ("age", [True, False]),
        ("member", [True, True]),
    ):
        region = SCHEMA.region({name: "is not missing"})
        assert region.contains(records).tolist() == expected
