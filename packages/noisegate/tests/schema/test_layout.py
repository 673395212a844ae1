import numpy as np
import pytest

from noisegate.schema import EncodedTable


def table(start, rows):
    return EncodedTable(np.arange(start, start + rows, dtype=np.float64)[:, None], np.zeros((rows, 0), np.int32))


def test_rows_and_concatenate_are_inverse():
    whole = table(0, 7)
    parts = [whole.rows(slice(0, 3)), whole.rows([3, 4]), whole.rows(np.array([False] * 5 + [True] * 2))]
    again = EncodedTable.concatenate(parts)
    assert len(again) == 7
    np.testing.assert_array_equal(again.numeric, whole.numeric)


def test_unequal_lengths_and_types_are_refused():
    with pytest.raises(ValueError, match="equal length"):
        EncodedTable(np.zeros((2, 1)), np.zeros((3, 1), np.int32))
    with pytest.raises(ValueError, match="float64 and int32"):
        EncodedTable(np.zeros((2, 1)), np.zeros((2, 1), np.int64))
