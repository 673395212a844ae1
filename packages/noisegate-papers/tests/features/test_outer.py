"""Outer products as vectors: the geometry that is proved, and the way back to matrices."""

import math

import numpy as np
import pytest

from noisegate.schema import EncodedTable
from noisegate_papers.features.transforms import OuterProducts, matrices_of


class Given:
    norm, nonnegative = 1.0, False

    def __init__(self, vectors):
        self.vectors = np.asarray(vectors, dtype=np.float32)
        self.dim, self.first_half = self.vectors.shape[1], lambda records: self.vectors[: len(records)]

    def second_half(self, values):
        return values


def triangles(vectors):
    records = EncodedTable(np.zeros((len(vectors), 1)), np.zeros((len(vectors), 0), np.int32))
    return OuterProducts(of=Given(vectors))(records).astype(np.float64)


def within(seed, rows=200, dim=5):
    """Vectors of length up to 1."""
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(rows, dim))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) * random.uniform(0.3, 1, (rows, 1))


def test_the_inner_product_is_the_square_of_that_of_the_vectors():
    one, other = within(0), within(1)
    inner = (triangles(one) * triangles(other)).sum(axis=1)
    np.testing.assert_allclose(inner, (one * other).sum(axis=1) ** 2, atol=1e-6)


def test_a_norm_is_the_square_of_the_vectors_and_at_most_1():
    vectors = within(0)
    np.testing.assert_allclose(
        np.linalg.norm(triangles(vectors), axis=1), np.linalg.norm(vectors, axis=1) ** 2, atol=1e-6
    )
    diagonal = np.full((1, 5), 1 / math.sqrt(5))
    assert np.linalg.norm(triangles(diagonal)) == pytest.approx(1, abs=1e-6)


def test_replacing_a_vector_moves_a_sum_by_root_two_at_most():
    vectors = triangles(np.concatenate([within(0, 60), np.eye(5)]))
    lengths = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
    assert lengths.max() == pytest.approx(math.sqrt(2), abs=1e-6)


def test_matrices_come_back_with_their_frobenius_norms():
    vectors = within(0, 7)
    found = matrices_of(triangles(vectors))
    np.testing.assert_allclose(found, vectors[:, :, None] * vectors[:, None, :], atol=1e-6)
    noise = np.random.default_rng(1).normal(size=(4, 15))
    assert np.linalg.norm(matrices_of(noise), axis=(1, 2)) == pytest.approx(np.linalg.norm(noise, axis=1))
