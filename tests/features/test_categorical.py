"""One-hot codes whose block has norm 1, exactly bounded."""

import numpy as np
import pytest

from noisegate.features.feature_map import Levels
from noisegate.schema import EncodedTable


def coded(codes):
    return EncodedTable(numeric=np.zeros((len(codes), 0)), codes=np.array(codes, np.int32))


def test_each_column_has_its_own_block_of_levels():
    levels = Levels(columns=(0, 2), sizes=(3, 2))
    found = levels(coded([[0, 9, 1], [2, 9, 0], [1, 9, 1]]))
    hot = np.float32(2**-0.5)
    expected = np.array([[1, 0, 0, 0, 1], [0, 0, 1, 1, 0], [0, 1, 0, 0, 1]]) * hot
    assert (levels.dim, found.dtype) == (5, np.float32)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 100])
def test_every_vector_has_norm_one_and_is_not_negative(columns):
    random = np.random.default_rng(columns)
    sizes = tuple(int(size) for size in random.integers(1, 9, columns))
    levels = Levels(columns=tuple(range(columns)), sizes=sizes)
    vectors = levels(coded(np.stack([random.integers(0, size, 50) for size in sizes], axis=1)))
    assert (levels.norm, levels.nonnegative) == (1.0, True)
    assert vectors.min() >= 0
    assert np.abs(np.linalg.norm(vectors.astype(np.float64), axis=1) - 1).max() < 1e-6
    assert ((vectors > 0).sum(axis=1) == columns).all()


def test_records_with_other_levels_have_other_vectors():
    levels = Levels(columns=(0, 1), sizes=(2, 2))
    assert len(np.unique(levels(coded([[0, 0], [0, 1], [1, 0], [1, 1]])), axis=0)) == 4


def test_one_level_in_each_column_counts_records_with_the_least_noise():
    levels = Levels(columns=(0, 1, 2), sizes=(2, 5, 3))
    every = levels(coded([[a, b, c] for a in range(2) for b in range(5) for c in range(3)])).astype(float)
    assert every @ levels.counter == pytest.approx(np.ones(30), abs=1e-6)
    # Of all vectors with these inner products, the one that least squares gives is the shortest.
    assert levels.counter == pytest.approx(np.linalg.lstsq(every, np.ones(30), rcond=None)[0], abs=1e-6)
