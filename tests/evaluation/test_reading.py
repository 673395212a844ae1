from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from noisegate.evaluation.reading import read_levels, read_numbers
from noisegate.schema import Boolean, Categorical, Continuous, Date, Datetime, Integer, Ordinal, Schema

NAN = float("nan")


def numbers(values, column):
    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    return read_numbers(pa.table({column.name: array}), column, Schema(columns=(column,)))


def codes(values, column):
    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    return read_levels(pa.table({column.name: array}), column, Schema(columns=(column,))).codes.tolist()


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


def test_what_is_no_number_is_outside_and_not_missing():
    read = numbers(["5", "five", "?"], AGE)
    np.testing.assert_array_equal(read.unit, [0.5, NAN, NAN])
    assert read.outside.tolist() == [False, True, False]
    assert numbers([date(2020, 1, 1), None], AGE).outside.tolist() == [True, False]
    assert numbers([[1, 2], None], AGE).outside.tolist() == [True, False]


def test_bounds_of_a_large_range_do_not_lose_the_middle():
    wide = Continuous(name="x", lower=-1e300, upper=1e300)
    assert numbers([0.0], wide).unit.tolist() == [0.5]


DAY = Date(name="day", lower=date(2020, 1, 1), upper=date(2020, 1, 11), missing=True)


@pytest.mark.parametrize(
    "values",
    [
        [date(2020, 1, 1), date(2020, 1, 6), date(2020, 1, 11), None],
        ["2020-01-01", "2020-01-06", "2020-01-11", "NA"],
        [datetime(2020, 1, 1), datetime(2020, 1, 6), datetime(2020, 1, 11), None],
        pa.array([date(2020, 1, 1), date(2020, 1, 6), date(2020, 1, 11), None], pa.date64()),
        pa.array([datetime(2020, 1, 1), datetime(2020, 1, 6), datetime(2020, 1, 11), None], pa.timestamp("ns")),
        pa.array([datetime(2020, 1, 1), datetime(2020, 1, 6), datetime(2020, 1, 11), None], pa.timestamp("s")),
    ],
)
def test_a_date_is_read_from_dates_moments_and_text(values):
    np.testing.assert_array_equal(numbers(values, DAY).unit, [0.0, 0.5, 1.0, NAN])


def test_moments_with_a_time_zone_compare_in_utc():
    column = Datetime(name="t", lower=datetime(2020, 1, 1, tzinfo=UTC), upper=datetime(2020, 1, 1, 10, tzinfo=UTC))
    east = timezone(timedelta(hours=2))
    typed = pa.array([datetime(2020, 1, 1, 7, tzinfo=east)], pa.timestamp("us", tz="+02:00"))
    assert numbers(typed, column).unit.tolist() == [0.5]
    assert numbers(["2020-01-01T07:00:00+02:00"], column).unit.tolist() == [0.5]


COLOUR = Categorical(name="colour", levels=("red", "blue"))


def test_levels_missing_and_outside_have_their_own_codes():
    assert codes(["red", "blue", None, "?", "green", " red "], COLOUR) == [0, 1, 2, 2, 3, 0]


def test_an_unknown_level_becomes_other_where_declared():
    column = Categorical(name="colour", levels=("red", "rest"), other="rest", missing=True)
    assert codes(["red", "green", "?"], column) == [0, 1, 2]


def test_whole_number_levels_are_found_in_floats_and_text():
    column = Ordinal(name="stars", levels=(1, 2, 3), missing=True)
    assert codes(pa.array([1, 3, None, 4]), column) == [0, 2, 3, 4]
    assert codes(pa.array([1.0, 3.0, NAN, 2.5]), column) == [0, 2, 3, 4]
    assert codes(["1", "3", "NA", "x"], column) == [0, 2, 3, 4]


def test_levels_that_a_reader_took_for_numbers_or_truth_values_are_found():
    assert codes(pa.array([1, 10, 2]), Categorical(name="zip", levels=("01", "10"))) == [0, 1, 3]
    assert codes(pa.array([True, False]), Categorical(name="c", levels=("true", "false"))) == [0, 1]
    # Text went through no guess, so it has to match exactly.
    assert codes(["1", "01"], Categorical(name="zip", levels=("01", "10"))) == [3, 0]


def test_booleans_are_read_from_every_spelling():
    column = Boolean(name="b", missing=True)
    assert codes(pa.array([True, False, None]), column) == [1, 0, 2]
    assert codes(["TRUE", "no", "1", "?", "maybe"], column) == [1, 0, 1, 2, 3]
    assert codes(pa.array([1, 0, 7]), column) == [1, 0, 3]
    assert codes(pa.array([1.0, None, 0.0]), column) == [1, 2, 0]
