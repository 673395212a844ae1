import math
import re
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate.schema import (
    Date,
    Datetime,
    EncodedTable,
    Ordinal,
    Schema,
    decode,
    pixel_schema,
)
from noisegate.schema.columns import Problem
from noisegate.schema.encode import encode
from noisegate.schema.parsing import parse_floats, parse_integers
from noisegate_evaluate.reading import encode_tolerantly

ONES = ("a", 'q"', "ü", "\x01")


@st.composite
def tables(draw):
    """A schema with bounds as wide as is allowed, and values within."""
    lower = draw(st.integers(-(2**60), 2**60))
    width = draw(st.integers(1, 2**53))
    start = draw(st.datetimes(datetime(1800, 1, 1), datetime(1950, 1, 1)))
    length = timedelta(microseconds=draw(st.integers(1, 2**53)))
    schema = Schema(
        (
            integer("n", lower, lower + width, missing=True),
            Date(name="d", lower=date(1, 1, 1), upper=date(9999, 12, 31), missing=True),
            Datetime(name="t", lower=start, upper=start + length, missing=True),
            Ordinal(name="o", levels=ONES, missing=True),
            categorical("k", (5, -3, 2**60), missing=True),
            boolean("b", missing=True),
        )
    )
    cells = {
        "n": st.integers(lower, lower + width),
        "d": st.dates(),
        "t": st.datetimes(start, start + length),
        "o": st.sampled_from(ONES),
        "k": st.sampled_from((5, -3, 2**60)),
        "b": st.booleans(),
    }
    rows = draw(st.integers(1, 8))
    return schema, {
        name: draw(st.lists(st.none() | cell, min_size=rows, max_size=rows))
        for name, cell in cells.items()
    }


@given(tables())
def test_decoding_undoes_encoding_from_values_and_from_text(case):
    schema, columns = case
    types = dict(
        n=pa.int64(),
        d=pa.date32(),
        t=pa.timestamp("us"),
        o=pa.string(),
        k=pa.int64(),
        b=pa.bool_(),
    )
    arrays = {name: pa.array(values, types[name]) for name, values in columns.items()}
    assert decode(encode(arrays, schema), schema).to_pydict() == columns
    as_text = {name: array.cast(pa.string()) for name, array in arrays.items()}
    assert decode(encode(as_text, schema), schema).to_pydict() == columns


number_like = (
    st.text("0123456789+-.eExXnaifty_ ", max_size=12)
    | st.floats().map(repr)
    | st.integers().map(str)
)
FLOAT = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity|nan)",
    re.IGNORECASE | re.ASCII,
)


@given(st.lists(number_like.map(str.strip), min_size=1, max_size=5))
def test_numbers_in_text_are_read_as_python_reads_them_and_one_by_one(texts):
    together = parse_floats(pa.array(texts))
    for i, text in enumerate(texts):
        alone = parse_floats(pa.array([text]))
        assert together.is_bad[i] == alone.is_bad[0] == (FLOAT.fullmatch(text) is None)
        if not together.is_bad[i]:
            np.testing.assert_equal(together.numbers[i], float(text))
            assert alone.numbers[:1].tobytes() == together.numbers[
                i : i + 1
            ].tobytes() or math.isnan(float(text))


@given(st.lists(number_like.map(str.strip), min_size=1, max_size=5))
def test_whole_numbers_in_text_are_exact_and_one_by_one(texts):
    together = parse_integers(pa.array(texts))
    for i, text in enumerate(texts):
        alone = parse_integers(pa.array([text]))
        assert together.is_bad[i] == alone.is_bad[0]
        assert together.is_missing[i] == alone.is_missing[0]
        if together.is_bad[i] or together.is_missing[i]:
            continue
        assert together.numbers[i] == alone.numbers[0]
        plain = re.fullmatch(r"\+?(-?[0-9]+)(\.0*)?", text)
        if plain:
            assert together.numbers[i] == min(max(int(plain[1]), -(2**63)), 2**63 - 1)


@given(
    st.lists(
        st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)), min_size=1, max_size=4
    ),
    st.integers(0, 9),
)
def test_moments_in_text_with_a_zone_are_turned_to_utc(moments, hours):
    column = Datetime(
        name="t",
        lower=datetime(1900, 1, 1, tzinfo=UTC),
        upper=datetime(2100, 1, 1, tzinfo=UTC),
    )
    schema = Schema((column,))
    text = pa.array([f"{moment.isoformat()}+0{hours}:30" for moment in moments])
    utc = [
        (moment - timedelta(hours=hours, minutes=30)).replace(tzinfo=UTC)
        for moment in moments
    ]
    expected = [min(max(moment, column.lower), column.upper) for moment in utc]
    assert decode(encode({"t": text}, schema), schema)["t"].to_pylist() == expected


@pytest.mark.parametrize("text", ["2020-01-02", "2020-01-02T03:04:05", "x"])
def test_moments_without_a_zone_do_not_pass_for_those_with_one(text):
    column = Datetime(
        name="t",
        lower=datetime(1900, 1, 1, tzinfo=UTC),
        upper=datetime(2100, 1, 1, tzinfo=UTC),
    )
    with pytest.raises(Problem) as caught:
        encode({"t": pa.array(["2020-01-02T03:04:05Z", text])}, Schema((column,)))
    assert caught.value.row == 1
    assert caught.value.value == text
    with pytest.raises(Problem) as caught:
        encode({"t": pa.array([datetime(2020, 1, 1)])}, Schema((column,)))
    assert caught.value.row is None


def test_digits_finer_than_a_microsecond_are_dropped_alike():
    schema = Schema(
        (Datetime(name="t", lower=datetime(1900, 1, 1), upper=datetime(2100, 1, 1)),)
    )
    text = pa.array(["1969-12-31T23:59:59.123456789", "2020-01-01 00:00:00.000000999"])
    stamps = text.cast(pa.timestamp("ns"))
    encodings = [
        encode({"t": array}, schema).numeric.tobytes() for array in (text, stamps)
    ]
    assert encodings[0] == encodings[1]
    assert decode(encode({"t": text}, schema), schema)["t"][0].as_py() == datetime(
        1969, 12, 31, 23, 59, 59, 123456
    )


@pytest.mark.parametrize(
    ("column", "array"),
    [
        (continuous("x", 0, 1), pa.array([True])),
        (integer("x", 0, 1), pa.array([date(2020, 1, 1)])),
        (Date(name="x", lower=date(2020, 1, 1), upper=date(2021, 1, 1)), pa.array([1])),
        (boolean("x"), pa.array([b"true"])),
        (Ordinal(name="x", levels=("1", "2")), pa.array([date(2020, 1, 1)])),
        (Ordinal(name="x", levels=("true",)), pa.array([True])),
    ],
)
def test_types_that_do_not_fit_are_refused(column, array):
    with pytest.raises(Problem) as caught:
        encode({"x": array}, Schema((column,)))
    assert caught.value.row is None
    assert "found a column of " in caught.value.message


def test_levels_match_across_text_and_whole_numbers():
    text = Schema((Ordinal(name="x", levels=("1", "2")),))
    whole = Schema((Ordinal(name="x", levels=(1, 2)),))
    for schema, array in (
        (text, pa.array([2, 1])),
        (whole, pa.array(["02", "1.0"])),
        (whole, pa.array([2.0, 1.0])),
    ):
        assert encode({"x": array}, schema).codes.tolist() == [[1], [0]]
    with pytest.raises(Problem):
        encode({"x": pa.array(["02", "1"])}, text)


def test_other_takes_unknown_levels_but_not_missing_ones():
    schema = Schema((categorical("x", (1, 2), other=2),))
    assert encode({"x": pa.array(["1", "7", "what"])}, schema).codes.tolist() == [
        [0],
        [1],
        [1],
    ]
    with pytest.raises(Problem) as caught:
        encode({"x": pa.array(["1", "?"])}, schema)
    assert caught.value.message.startswith(
        "column 'x': the value is missing, and the schema allows none; set missing"
    )
    assert caught.value.row == 1


NAN = math.nan
TOKENS = pa.array(["", "?", "NA"])
TEN = integer("n", 0, 10)
DAY = Date(name="d", lower=date(2020, 1, 1), upper=date(2020, 1, 11))
MOMENT = Datetime(
    name="t",
    lower=datetime(2020, 1, 1, tzinfo=UTC),
    upper=datetime(2020, 1, 1, 10, tzinfo=UTC),
)
ZIP = categorical("z", ("01", "10"))


@pytest.mark.parametrize(
    ("column", "cells", "values", "outside"),
    [
        (TEN, ["0", " 5 ", "10.0", "?", "five", "12"], [0, 0.5, 1, NAN, NAN, 1], [4]),
        (TEN, [0.0, 2.5, NAN, math.inf, None], [0, 0.25, NAN, 1, NAN], []),
        (TEN, [True, False, None], [0.1, 0, NAN], []),
        (TEN, [[1, 2], None], [NAN, NAN], [0]),
        (TEN, [date(2020, 1, 1), None], [NAN, NAN], [0]),
        (
            DAY,
            ["2020-01-01", "2020-01-06T10:00:00", "NA", "x"],
            [0, 0.5, NAN, NAN],
            [3],
        ),
        (DAY, [20200101, None], [NAN, NAN], [0]),
        (MOMENT, ["2020-01-01T05:00:00", "2020-01-01T07:00:00+02:00"], [0.5, 0.5], []),
        (MOMENT, [datetime(2020, 1, 1, 5)], [0.5], []),
        (ZIP, [1, 10, 2, None], [0, 1, 2, 2], [2]),
        (ZIP, ["1", " 01 ", "?"], [2, 0, 2], [0]),
        (ZIP, [1.0, NAN], [0, 2], []),
        (categorical("c", ("true", "false")), [True, False], [0, 1], []),
        (categorical("c", ("a", "rest"), other="rest"), ["a", "b", "?"], [0, 1, 2], []),
        (categorical("c", ("nan", "a")), ["a", "nan"], [1, 0], []),
        (Ordinal(name="o", levels=(1, 2, 3)), [1.0, 3.0, NAN, 2.5], [0, 2, 3, 3], [3]),
        (boolean("b"), ["TRUE", "no", "1", "maybe"], [1, 0, 1, 2], [3]),
        (boolean("b"), [None, None], [2, 2], []),
    ],
)
def test_a_tolerant_reading_places_what_it_can_and_marks_the_rest(
    column, cells, values, outside
):
    encoded_cells, astray = encode_tolerantly(column, pa.array(cells), TOKENS)
    np.testing.assert_array_equal(encoded_cells, values)
    assert np.flatnonzero(astray).tolist() == outside


def test_tables_of_pixels_are_read_as_bytes():
    schema = pixel_schema(1, 2, labels=("a", "b"))
    arrays = {
        "pixel_0_0": pa.array(["7", "300"]),
        "pixel_0_1": pa.array([0.0, -1.0]),
        "label": pa.array(["b", "a"]),
    }
    images = encode(arrays, schema)
    assert images.pixels.tolist() == [
        [[[7], [0]]],
        [[[255], [0]]],
    ]
    assert images.labels.tolist() == [1, 0]


def test_positions_and_codes_become_typed_values():
    columns = [
        categorical("c", "xy", missing=True),
        integer("n", 10, 20, missing=True),
        continuous("r", -1, 1),
    ]
    time = Datetime(name="t", lower=datetime(2020, 1, 1), upper=datetime(2020, 1, 3))
    schema = Schema([*columns, boolean("b"), categorical("k", [7, 9]), time])
    numeric = np.array([[0.26, 0.5, 0.5], [np.nan, -3.0, 0.0], [9.0, 1.0, 1.0]])
    codes = np.array([[0, 1, 0], [1, 0, 1], [2, 0, 1]], dtype=np.int32)
    decoded = decode(EncodedTable(numeric, codes), schema)
    assert decoded.column_names == list(schema.names)
    assert decoded.to_pydict() == {
        "c": ["x", "y", None],
        "n": [13, None, 20],
        "r": [0.0, -1.0, 1.0],
        "b": [True, False, False],
        "k": [7, 9, 9],
        "t": [datetime(2020, 1, 2), datetime(2020, 1, 1), datetime(2020, 1, 3)],
    }
    assert decoded.schema.types == [
        pa.string(),
        pa.int64(),
        pa.float64(),
        pa.bool_(),
        pa.int64(),
        pa.timestamp("us"),
    ]


def test_what_no_encoder_makes_is_refused():
    schema = Schema((integer("n", 0, 9), boolean("b")))
    codes = np.zeros((1, 1), np.int32)
    with pytest.raises(ValueError, match="'n': a missing value"):
        decode(EncodedTable(np.array([[np.nan]]), codes), schema)
    with pytest.raises(ValueError, match=r"'b': a code outside 0\.\.1"):
        decode(EncodedTable(np.array([[0.0]]), codes + 2), schema)
    with pytest.raises(ValueError, match="another number of columns"):
        decode(EncodedTable(np.zeros((1, 2)), codes), schema)
