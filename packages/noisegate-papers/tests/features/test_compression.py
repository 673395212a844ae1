"""Public projections: no vector becomes longer, products are exact, and axes are those that they are called after."""

import numpy as np
import pytest

from noisegate.errors import OptionError
from noisegate.gate.execution import Execution, block_rows, map_execution
from noisegate.schema import EncodedTable, pixel_schema
from noisegate_papers.features.transforms import Compression, principal_axes, random_axes
from noisegate_papers.methods.mge import DPMGE


class Given:
    norm, nonnegative = 1.0, False

    def __init__(self, vectors):
        self.vectors = np.asarray(vectors, dtype=np.float32)
        self.dim, self.first_half = self.vectors.shape[1], lambda records: self.vectors[: len(records)]

    def second_half(self, values):
        return values


def empty(rows):
    return EncodedTable(np.zeros((rows, 1)), np.zeros((rows, 0), np.int32))


def unit(seed, rows=300, dim=9):
    vectors = np.random.default_rng(seed).normal(size=(rows, dim))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("axes", [random_axes(9, 4, seed=0), random_axes(9, 9, seed=1), principal_axes(unit(5), 3)])
def test_coordinates_are_those_along_the_axes_and_no_vector_becomes_longer(axes):
    assert axes.T @ axes == pytest.approx(np.eye(axes.shape[1]), abs=1e-9)
    vectors = unit(0)
    found = Compression(of=Given(vectors), axes=axes)(empty(300)).astype(np.float64)
    np.testing.assert_allclose(found, vectors @ axes, atol=1e-6)
    assert np.linalg.norm(found, axis=1).max() <= 1 + 2**-15
    assert np.linalg.norm(Compression(of=Given(axes[:, :1].T), axes=axes)(empty(1))) == pytest.approx(1, abs=1e-6)


def test_products_are_the_same_in_any_order_and_block():
    """Every partial sum is a whole number that float64 holds, so what BLAS does to a larger block changes no bit."""
    vectors, axes = unit(0, rows=257, dim=144), random_axes(144, 33, seed=0)
    found = Compression(of=Given(vectors), axes=axes)(empty(257))
    turned = Compression(of=Given(vectors[:, ::-1]), axes=np.ascontiguousarray(axes[::-1]))(empty(257))
    single = [Compression(of=Given(row[None]), axes=axes)(empty(1)) for row in vectors[:5]]
    assert np.array_equal(found, turned)
    assert np.array_equal(found[:5], np.concatenate(single))


def test_a_compressed_encoding_passes_the_probe_of_the_gate():
    compressed = Compression(of=DPMGE(image=(8, 8, 1)).encoding(), axes=random_axes(144, 5, seed=0))
    layout = pixel_schema(8, 8).layout
    assert map_execution("c", compressed, layout, block_rows(compressed)) == Execution(rows=block_rows(compressed))
    assert (compressed.dim, compressed.norm, compressed.nonnegative) == (5, 1.0, False)


def test_principal_axes_are_the_longest_directions_first():
    vectors = np.random.default_rng(0).normal(size=(500, 4)) * [1, 5, 2, 0.1] + [0, 0, 9, 0]
    axes = principal_axes(vectors, 3)
    assert np.abs(axes).argmax(axis=0).tolist() == [2, 1, 0]
    assert (axes[[2, 1, 0], range(3)] > 0).all()


def test_unusable_axes_are_refused():
    with pytest.raises(OptionError, match="must be orthonormal"):
        Compression(of=Given(unit(0)), axes=1.01 * random_axes(9, 2, seed=0))
    with pytest.raises(OptionError, match=r"axes of shape \(8, 2\) do not compress vectors of 9"):
        Compression(of=Given(unit(0)), axes=random_axes(8, 2, seed=0))
    with pytest.raises(OptionError, match=r"2 public record\(s\) give no 3 principal axes"):
        principal_axes(unit(0, rows=2), 3)
