from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from noisegate.answers.domain import NumberRange
from noisegate.schema import Categorical, Date, Integer, Schema
from noisegate_evaluate.reading import read_levels, read_numbers
from noisegate_evaluate.reporting.released import range_name

NAN = float("nan")


def numbers(values, column):
    return read_numbers(
        pa.table({column.name: values}), column, Schema(columns=(column,))
    )


def codes(values, column):
    return read_levels(
        pa.table({column.name: values}), column, Schema(columns=(column,))
    ).codes.tolist()


AGE = Integer(name="age", lower=0, upper=10, missing=True)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([0, 5, 10, None], pa.int64()),
        pa.array([0, 5, 10, None], pa.uint8()),
        pa.array([0.0, 5.0, 10.0, None]),
        pa.array([0.0, 5.0, 10.0, NAN]),
        pa.array(["0", " 5 ", "10.0", "?"]),
        pa.array(["0", "5", "10", None], pa.large_string()),
        pa.array(["0", "5", "10", ""]).dictionary_encode(),
        pa.array([Decimal("0"), Decimal("5"), Decimal("10"), None]),
        pa.chunked_array([[0], [5, 10], [None]]),
    ],
    ids=lambda array: str(array.type),
)
def test_a_number_is_read_from_every_type_that_can_hold_it(values):
    read = numbers(values, AGE)
    np.testing.assert_array_equal(read.unit, [0.0, 0.5, 1.0, NAN])
    assert not read.outside.any()


def test_a_number_beyond_its_bounds_is_clamped_as_the_schema_says():
    read = numbers(pa.array([-3.0, 12.5, float("inf"), float("-inf")]), AGE)
    assert read.unit.tolist() == [0.0, 1.0, 1.0, 0.0]
    assert numbers(["inf", "-inf", "1e999"], AGE).unit.tolist() == [1.0, 0.0, 1.0]


DAY = Date(name="day", lower=date(2020, 1, 1), upper=date(2020, 1, 11), missing=True)


@pytest.mark.parametrize(
    "values",
    [
        [date(2020, 1, 1), date(2020, 1, 6), date(2020, 1, 11), None],
        ["2020-01-01", "2020-01-06", "2020-01-11", "NA"],
        [datetime(2020, 1, 1), datetime(2020, 1, 6), datetime(2020, 1, 11), None],
        pa.array(
            [date(2020, 1, 1), date(2020, 1, 6), date(2020, 1, 11), None], pa.date64()
        ),
        pa.array(
            [datetime(2020, 1, 1), datetime(2020, 1, 6), datetime(2020, 1, 11), None],
            pa.timestamp("ns"),
        ),
        pa.array(
            [datetime(2020, 1, 1), datetime(2020, 1, 6), datetime(2020, 1, 11), None],
            pa.timestamp("s"),
        ),
    ],
)
def test_a_date_is_read_from_dates_moments_and_text(values):
    np.testing.assert_array_equal(numbers(values, DAY).unit, [0.0, 0.5, 1.0, NAN])


COLOUR = Categorical(name="colour", levels=("red", "blue"))


def test_levels_missing_and_outside_have_their_own_codes():
    assert codes(["red", "blue", None, "?", "green", " red "], COLOUR) == [
        0,
        1,
        2,
        2,
        3,
        0,
    ]


def test_limits_are_read_as_such_also_beside_numbers_of_another_type():
    dose = Integer(name="dose", lower=1, upper=9, missing=True, limits=["<1", "10+"])
    cells = pa.array(["<1", "1.0", " 10+ ", "0", "10", "<2", None])
    read = numbers(cells, dose)
    assert read.unit.tolist()[:5] == [0, 0.1, 1, 0.1, 0.9]
    assert read.outside.tolist() == [False] * 5 + [True, False]
    cell = NumberRange(*[dose.limit_numbers["<1"]] * 2)
    assert range_name(dose, cell) == "<1"
    assert range_name(dose, NumberRange(3, dose.limit_numbers["10+"])) == "3 – 10+"
