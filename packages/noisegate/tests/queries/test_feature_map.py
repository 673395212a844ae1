"""One-hot codes whose block has norm 1, exactly bounded."""

import numpy as np
import pytest

from noisegate.queries.feature_map import Levels
from noisegate.schema import EncodedTable


def coded(codes):
    return EncodedTable(
        numeric=np.zeros((len(codes), 0)), codes=np.array(codes, np.int32)
    )


def test_each_column_has_its_own_block_of_levels():
    levels = Levels(columns=(0, 2), sizes=(3, 2))
    blocks = levels(coded([[0, 9, 1], [2, 9, 0], [1, 9, 1]]))
    hot = np.float32(2**-0.5)
    expected = np.array([[1, 0, 0, 0, 1], [0, 0, 1, 1, 0], [0, 1, 0, 0, 1]]) * hot
    assert levels.dim == 5
    assert blocks.dtype == np.float32
    assert blocks.tolist() == expected.tolist()


def test_one_level_in_each_column_counts_records_with_the_least_noise():
    levels = Levels(columns=(0, 1, 2), sizes=(2, 5, 3))
    every = levels(
        coded([[a, b, c] for a in range(2) for b in range(5) for c in range(3)])
    ).astype(float)
    assert every @ levels.count_functional == pytest.approx(np.ones(30), abs=1e-6)
    # Of all vectors with these inner products, the one that least squares gives is the shortest.
    assert levels.count_functional == pytest.approx(
        np.linalg.lstsq(every, np.ones(30), rcond=None)[0], abs=1e-6
    )
