"""Maps of unit vectors, that is squares, products, projections and whitening: bounds that are proved and reached."""

import math

import numpy as np
import pytest

from noisegate.errors import OptionError
from noisegate.gate.execution import (
    Execution,
    block_rows,
    made_up_records,
    map_execution,
)
from noisegate.privacy.events import Adjacency
from noisegate.privacy.grid import UNITS, Grid
from noisegate.schema import EncodedTable, pixel_schema
from noisegate.schema.pixels import ImageShape
from noisegate_images.queries.perceptual import Perceptual
from noisegate_papers.methods.dp_mge import DPMGE
from noisegate_papers.queries.transforms import (
    Compression,
    OuterProducts,
    Squares,
    matrices_of,
    principal_axes,
    random_axes,
    whitened,
)

SHAPE = ImageShape(height=8, width=8)
LAYOUT = pixel_schema(8, 8, labels=("a", "b")).layout


class Given:
    """A sharing map that gives what it was given, one row for each record."""

    norm, nonnegative = 1.0, False

    def __init__(self, vectors):
        self.vectors = np.asarray(vectors, dtype=np.float32)
        self.dim, self.first_half = (
            self.vectors.shape[1],
            lambda records: self.vectors[: len(records)],
        )

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
    np.testing.assert_allclose(
        squares, encoding(records).astype(np.float64) ** 2, rtol=1e-6
    )
    assert squares.sum(axis=1) == pytest.approx(np.ones(20), abs=1e-5)
    assert (
        Perceptual(activations=encoding.activations, moment=2)(records)
        .sum(axis=1)
        .min()
        > 1.5
    )


@pytest.mark.parametrize(
    ("adjacency", "times"),
    [(Adjacency.ADD_REMOVE, 1), (Adjacency.REPLACE_ONE, math.sqrt(2))],
)
def test_the_gate_charges_the_proved_sensitivity(adjacency, times):
    squares = Squares(of=Given(unit(0)))
    grid = Grid(norm=squares.norm, nonnegative=squares.nonnegative)
    assert grid.bound.sensitivity(adjacency) == pytest.approx(times * UNITS, rel=1e-6)


# Public projections: no vector becomes longer, products are exact, and axes are those that they are called after.


def directions(seed, rows=300, dim=9):
    vectors = np.random.default_rng(seed).normal(size=(rows, dim))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(
    "axes",
    [
        random_axes(9, 4, seed=0),
        random_axes(9, 9, seed=1),
        principal_axes(directions(5), 3),
    ],
)
def test_coordinates_are_those_along_the_axes_and_no_vector_becomes_longer(axes):
    assert axes.T @ axes == pytest.approx(np.eye(axes.shape[1]), abs=1e-9)
    vectors = directions(0)
    found = Compression(of=Given(vectors), axes=axes)(empty(300)).astype(np.float64)
    np.testing.assert_allclose(found, vectors @ axes, atol=1e-6)
    assert np.linalg.norm(found, axis=1).max() <= 1 + 2**-15
    assert np.linalg.norm(
        Compression(of=Given(axes[:, :1].T), axes=axes)(empty(1))
    ) == pytest.approx(1, abs=1e-6)


def test_products_are_the_same_in_any_order_and_block():
    """Every partial sum is a whole number that float64 holds, so what BLAS does to a larger block changes no bit."""
    vectors, axes = directions(0, rows=257, dim=144), random_axes(144, 33, seed=0)
    found = Compression(of=Given(vectors), axes=axes)(empty(257))
    turned = Compression(
        of=Given(vectors[:, ::-1]), axes=np.ascontiguousarray(axes[::-1])
    )(empty(257))
    single = [
        Compression(of=Given(row[None]), axes=axes)(empty(1)) for row in vectors[:5]
    ]
    assert np.array_equal(found, turned)
    assert np.array_equal(found[:5], np.concatenate(single))


def test_a_compressed_encoding_passes_the_probe_of_the_gate():
    compressed = Compression(
        of=DPMGE(image=(8, 8, 1)).encoding(), axes=random_axes(144, 5, seed=0)
    )
    layout = pixel_schema(8, 8).layout
    assert map_execution("c", compressed, layout, block_rows(compressed)) == Execution(
        rows=block_rows(compressed)
    )
    assert (compressed.dim, compressed.norm, compressed.nonnegative) == (5, 1.0, False)


def test_unusable_axes_are_refused():
    with pytest.raises(OptionError, match="must be orthonormal"):
        Compression(of=Given(directions(0)), axes=1.01 * random_axes(9, 2, seed=0))
    with pytest.raises(
        OptionError, match=r"axes of shape \(8, 2\) do not compress vectors of 9"
    ):
        Compression(of=Given(directions(0)), axes=random_axes(8, 2, seed=0))
    with pytest.raises(
        OptionError, match=r"2 public record\(s\) give no 3 principal axes"
    ):
        principal_axes(directions(0, rows=2), 3)


# Outer products as vectors: the geometry that is proved, and the way back to matrices.


def triangles(vectors):
    records = EncodedTable(
        np.zeros((len(vectors), 1)), np.zeros((len(vectors), 0), np.int32)
    )
    return OuterProducts(of=Given(vectors))(records).astype(np.float64)


def within(seed, rows=200, dim=5):
    """Vectors of length up to 1."""
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(rows, dim))
    return (
        vectors
        / np.linalg.norm(vectors, axis=1, keepdims=True)
        * random.uniform(0.3, 1, (rows, 1))
    )


def test_the_inner_product_is_the_square_of_that_of_the_vectors():
    one, other = within(0), within(1)
    inner = (triangles(one) * triangles(other)).sum(axis=1)
    np.testing.assert_allclose(inner, (one * other).sum(axis=1) ** 2, atol=1e-6)


def test_a_norm_is_the_square_of_the_vectors_and_at_most_1():
    vectors = within(0)
    np.testing.assert_allclose(
        np.linalg.norm(triangles(vectors), axis=1),
        np.linalg.norm(vectors, axis=1) ** 2,
        atol=1e-6,
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
    np.testing.assert_allclose(
        found, vectors[:, :, None] * vectors[:, None, :], atol=1e-6
    )
    noise = np.random.default_rng(1).normal(size=(4, 15))
    assert np.linalg.norm(matrices_of(noise), axis=(1, 2)) == pytest.approx(
        np.linalg.norm(noise, axis=1)
    )


class Unit:
    """The columns themselves, with norm 1."""

    dim, norm, nonnegative = 8, 1.0, True

    def __call__(self, records):
        rows = records.numeric
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def records(rows, seed=0):
    random = np.random.default_rng(seed)
    spread = np.array([0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 0.0, 0.0])
    mixed = 0.5 + random.uniform(-1, 1, size=(rows, 8)) * spread
    return EncodedTable(mixed, np.zeros((rows, 0), np.int32))


def made(**options):
    vectors = Unit()(records(3000))
    return whitened(
        Unit(), vectors, **{"dim": 5, "exponent": 1.0, "length": 2.0, **options}
    ), vectors


def test_public_vectors_are_centred_and_as_wide_in_every_direction():
    feature_map, _ = made()
    found = feature_map(records(3000))
    assert found.shape == (3000, 5)
    assert found.dtype == np.float32
    assert np.abs(found.mean(axis=0)).max() < 1e-3
    # A few are cut at twice the length, which narrows them a little.
    covariance = np.cov(found.T)
    assert np.allclose(np.diag(covariance), 4 / 5, rtol=0.05)
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 0.05


def test_directions_in_which_public_vectors_do_not_vary_are_left_out():
    vectors = np.zeros((100, 8), np.float32)
    vectors[:, 0] = np.linspace(0, 1, 100)
    feature_map = whitened(Unit(), vectors, dim=3, exponent=1.0, length=1.0)
    found = feature_map.after(np.eye(8, dtype=np.float32))
    assert np.abs(found[:, 0]).max() > 0.5
    assert not found[:, 1:].any()
    with pytest.raises(OptionError, match="the same features"):
        whitened(Unit(), np.ones((100, 8), np.float32), dim=3, exponent=1.0, length=1.0)


def test_what_is_far_from_all_public_vectors_is_shortened():
    feature_map, _ = made()
    far = np.zeros((1, 8), np.float32)
    far[0, 4] = 1.0
    assert np.linalg.norm(feature_map.after(far)) == pytest.approx(4.0, rel=1e-6)
    assert feature_map.norm == 4.0
