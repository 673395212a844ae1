"""Columns of Python objects: one record must not change what the others become."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from noisegate.data import TableSource
from noisegate.data.tables.memory import MixedObjects, objects_to_arrow
from noisegate.errors import DataError
from noisegate.schema import Continuous, Datetime, EncodedTable, Schema

EVENING = dt.datetime(2020, 1, 1, 18)
MOMENTS = Schema((Datetime(name="t", lower=dt.datetime(2019, 1, 1), upper=dt.datetime(2021, 1, 1)),))
NUMBERS = Schema((Continuous(name="x", lower=0.0, upper=10.0, missing=True),))


def encode(cells, schema):
    frame = pd.DataFrame({schema.names[0]: pd.Series(cells, dtype=object)})
    return EncodedTable.concatenate(list(TableSource(frame, schema).batches())).numeric[:, 0]


OTHERS = [1, True, "2.5", Decimal("2.5"), np.float16(0.5), np.int8(3), None, float("nan")]
BESIDE = [(cell, other, NUMBERS) for cell in (0.1, np.float16(0.1), np.float32(0.1)) for other in OTHERS]


@pytest.mark.parametrize(("cell", "other", "schema"), [*BESIDE, (EVENING, dt.date(2020, 1, 1), MOMENTS)])
def test_a_cell_is_the_same_beside_any_other_object(cell, other, schema):
    for place, cells in enumerate(([cell, other], [other, cell])):
        try:
            beside = encode(cells, schema)[place]
        except DataError as error:
            assert "mixed" in str(error)  # refused, which says nothing about the others
        else:
            assert encode([cell], schema)[0] == beside


MIXED = [[1, 2.5], ["a", 1], [np.datetime64("2020-01-01"), np.int8(1)], [object()], [b"x"], [1 + 2j]]


@pytest.mark.parametrize("cells", [*MIXED, [EVENING, EVENING.replace(tzinfo=dt.UTC)], [dt.date(2020, 1, 1), EVENING]])
def test_mixed_and_unknown_objects_are_refused(cells):
    with pytest.raises(MixedObjects):
        objects_to_arrow(cells)


def test_objects_of_one_type_become_what_they_say():
    assert objects_to_arrow(["a", None, float("nan"), pd.NA]).to_pylist() == ["a", None, None, None]
    assert objects_to_arrow([2**70, -(2**70), np.int8(3)]).to_pylist() == [2**63 - 1, -(2**63), 3]
    assert objects_to_arrow([Decimal("1.50"), Decimal("1e3")]).to_pylist() == ["1.50", "1E+3"]
    assert objects_to_arrow([pd.Timestamp(EVENING), EVENING, pd.NaT]).to_pylist() == [EVENING, EVENING, None]
    assert objects_to_arrow([True, np.bool_(False)]).to_pylist() == [True, False]
    assert objects_to_arrow([]).to_pylist() == [] and objects_to_arrow([None, pd.NaT]).null_count == 2


def test_a_refused_cell_does_not_travel_in_the_error():
    with pytest.raises(DataError) as caught:
        encode(["0.1", "secret diagnosis"], NUMBERS)
    assert "secret" not in str(caught.value) and caught.value.__context__ is None
