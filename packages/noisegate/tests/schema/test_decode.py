from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

from noisegate.schema import Boolean, Categorical, Continuous, Datetime, EncodedTable, Integer, Schema, decode


def test_positions_and_codes_become_typed_values():
    schema = Schema(
        (
            Categorical(name="c", levels=("x", "y"), missing=True),
            Integer(name="n", lower=10, upper=20, missing=True),
            Continuous(name="r", lower=-1, upper=1),
            Boolean(name="b"),
            Categorical(name="k", levels=(7, 9)),
            Datetime(name="t", lower=datetime(2020, 1, 1), upper=datetime(2020, 1, 3)),
        )
    )
    numeric = np.array([[0.26, 0.5, 0.5], [np.nan, -3.0, 0.0], [9.0, 1.0, 1.0]])
    codes = np.array([[0, 1, 0], [1, 0, 1], [2, 0, 1]], dtype=np.int32)
    found = decode(EncodedTable(numeric, codes), schema)
    assert found.column_names == list(schema.names)
    assert found.to_pydict() == {
        "c": ["x", "y", None],
        "n": [13, None, 20],
        "r": [0.0, -1.0, 1.0],
        "b": [True, False, False],
        "k": [7, 9, 9],
        "t": [datetime(2020, 1, 2), datetime(2020, 1, 1), datetime(2020, 1, 3)],
    }
    assert found.schema.types == [pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.int64(), pa.timestamp("us")]


def test_what_no_encoder_makes_is_refused():
    schema = Schema((Integer(name="n", lower=0, upper=9), Boolean(name="b")))
    one = np.zeros((1, 1), np.int32)
    with pytest.raises(ValueError, match="'n': a missing value"):
        decode(EncodedTable(np.array([[np.nan]]), one), schema)
    with pytest.raises(ValueError, match=r"'b': a code outside 0\.\.1"):
        decode(EncodedTable(np.array([[0.0]]), one + 2), schema)
    with pytest.raises(ValueError, match="another number of columns"):
        decode(EncodedTable(np.zeros((1, 2)), one), schema)
