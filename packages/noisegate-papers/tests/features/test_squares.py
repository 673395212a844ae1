"""Squares of unit vectors: the bound that is proved, that it is reached, and that the network is run once for both."""

import math

import numpy as np
import pytest

from noisegate.gate.execution import made_up_records
from noisegate.privacy.events import Adjacency
from noisegate.privacy.grid import UNITS, Grid
from noisegate.schema import EncodedTable, pixel_schema
from noisegate.schema.pixels import ImageShape
from noisegate_images.features.perceptual import Perceptual
from noisegate_papers.features.transforms import Squares
from noisegate_papers.methods.mge import DPMGE

SHAPE = ImageShape(height=8, width=8)
LAYOUT = pixel_schema(8, 8, labels=("a", "b")).layout


class Given:
    """A sharing map that gives what it was given, one row for each record."""

    norm, nonnegative = 1.0, False

    def __init__(self, vectors):
        self.vectors = np.asarray(vectors, dtype=np.float32)
        self.dim, self.first_half = self.vectors.shape[1], lambda records: self.vectors[: len(records)]

    def second_half(self, values):
        return values

    def __call__(self, records):
        return self.first_half(records)


def empty(rows):
    return EncodedTable(np.zeros((rows, 1)), np.zeros((rows, 0), np.int32))


def squares_of(vectors):
    return Squares(of=Given(vectors))(empty(len(vectors))).astype(np.float64)


def unit(seed, rows=500, dim=7):
    vectors = np.random.default_rng(seed).normal(size=(rows, dim)) ** 3
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_a_vector_has_at_most_the_stated_norm_and_a_single_entry_reaches_it():
    assert np.linalg.norm(squares_of(unit(0)), axis=1).max() <= 1 + 1e-6
    assert np.linalg.norm(squares_of(-np.eye(4)), axis=1) == pytest.approx(np.ones(4))
    squares = Squares(of=Given(unit(0)))
    assert (squares.norm, squares.nonnegative, squares.dim) == (1.0, True, 7)
    half = Given(unit(0) / 2)
    half.norm = 0.5
    assert Squares(of=half).norm == 0.25


def test_replacing_a_record_moves_a_sum_by_root_two_at_most_and_that_is_reached():
    vectors = squares_of(np.concatenate([unit(0, 60), np.eye(7)]))
    lengths = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
    assert lengths.max() == pytest.approx(math.sqrt(2), abs=1e-6)


def test_they_are_a_second_moment_and_not_the_squares_scaled_once_more():
    """Of `Perceptual(moment=2)` the entries do not add up to 1, and no variance follows from them."""
    records = made_up_records(LAYOUT, 20, np.random.default_rng(0))
    encoding = DPMGE(image=SHAPE.axes).encoding()
    squares = Squares(of=encoding)(records).astype(np.float64)
    np.testing.assert_allclose(squares, encoding(records).astype(np.float64) ** 2, rtol=1e-6)
    assert squares.sum(axis=1) == pytest.approx(np.ones(20), abs=1e-5)
    assert Perceptual(activations=encoding.activations, moment=2)(records).sum(axis=1).min() > 1.5


@pytest.mark.parametrize(("adjacency", "times"), [(Adjacency.ADD_REMOVE, 1), (Adjacency.REPLACE_ONE, math.sqrt(2))])
def test_the_gate_charges_the_proved_sensitivity(adjacency, times):
    squares = Squares(of=Given(unit(0)))
    grid = Grid(norm=squares.norm, nonnegative=squares.nonnegative)
    assert grid.bound.sensitivity(adjacency) == pytest.approx(times * UNITS, rel=1e-6)
