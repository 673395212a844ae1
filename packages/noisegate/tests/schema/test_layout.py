import numpy as np

from noisegate.schema import EncodedTable


def table(start, rows):
    return EncodedTable(np.arange(start, start + rows, dtype=np.float64)[:, None], np.zeros((rows, 0), np.int32))


def test_rows_and_concatenate_are_inverse():
    whole = table(0, 7)
    parts = [whole.rows(slice(0, 3)), whole.rows([3, 4]), whole.rows(np.array([False] * 5 + [True] * 2))]
    again = EncodedTable.concatenate(parts)
    assert len(again) == 7
    np.testing.assert_array_equal(again.numeric, whole.numeric)
