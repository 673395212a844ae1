"""Guarantee G-20: rows are clipped onto the integer ball exactly, whatever they are, each as a function of itself."""

import numpy as np
import pytest
from tests.shared.sums import squared

from noisegate.privacy.gradient_grid import (
    add_clipped,
    add_factored,
    add_products,
    clip_factors,
    clip_rows,
    row_norms,
)
from noisegate.privacy.grid import UNITS, Grid

LARGEST = np.finfo(np.float32).max


def rows(length):
    random = np.random.default_rng(length)
    ordinary = random.normal(size=(4, length))
    on = ordinary[0] / np.linalg.norm(ordinary[0])
    single = np.eye(1, length)[0]
    heavy = random.normal(size=length) ** 9
    special_rows = [
        *ordinary,
        on,
        on * (1 + 2.0**-11),
        on * (1 + 2.0**-9),
        on / 100,
        heavy,
        single,
        single * LARGEST,
    ]
    special_rows += [
        np.full(length, LARGEST),
        np.full(length, 1e-44),
        single * 1e-30,
        np.zeros(length),
    ]
    return np.array(special_rows).astype(np.float32)


@pytest.mark.parametrize("norm", [1e-30, 1e-4, 1.0, 37.0, 1e30])
@pytest.mark.parametrize("length", [1, 2, 40, 5000, 70_000])
def test_no_row_is_longer_than_the_bound(norm, length):
    vectors = (
        rows(length)
        if norm == 1.0
        else rows(length)[[0, 4, 5, 6, 9]] * np.float32(norm)
    )
    clipped = clip_rows(vectors, clip_factors((vectors,), Grid(norm=norm)))
    assert max(squared(row) for row in clipped) <= UNITS**2


@pytest.mark.parametrize("length", [1, 40, 5000])
def test_rows_are_what_the_grid_gives_but_for_a_little_length(length):
    vectors = rows(length)
    grid = Grid(norm=1.0)
    clipped = clip_rows(vectors, clip_factors((vectors,), grid))
    right = grid.quantise(vectors)
    assert np.array_equal(clipped[[4, 7, 12, 13, 14]], right[[4, 7, 12, 13, 14]])
    # Clipped rows lose √D/2ᵏ of their length at most, and rounding moves a coordinate by one.
    assert np.abs(clipped - right).max() <= 0.004 * UNITS
    lengths = np.linalg.norm(clipped[[6, 9, 10]].astype(float), axis=1)
    assert (lengths > 0.995 * UNITS).all()


def test_a_row_that_is_not_finite_adds_nothing():
    vectors = rows(40)[:4]
    spoiled = vectors.copy()
    spoiled[0, 3] = np.nan
    spoiled[2, 0] = np.inf
    spoiled[3, 39] = -np.inf
    factors = clip_factors((spoiled,), Grid(norm=1.0))
    assert (factors > 0).tolist() == [False, True, False, False]
    total = np.zeros(40, dtype=np.int64)
    add_clipped(total, spoiled, factors)
    assert np.array_equal(
        total, clip_rows(vectors, clip_factors((vectors,), Grid(norm=1.0)))[1]
    )
    assert not clip_rows(spoiled, factors)[[0, 2, 3]].any()


def test_parts_are_clipped_as_one_row_and_summed_exactly():
    vectors = rows(5000)
    grid = Grid(norm=1.0)
    whole = clip_rows(vectors, clip_factors((vectors,), grid))
    parts = np.split(vectors, [1, 1, 3000], axis=1)
    factors = clip_factors(parts, grid)
    totals = [np.full(part.shape[1], 7, dtype=np.int64) for part in parts]
    for total, part in zip(totals, parts, strict=True):
        add_clipped(total, part, factors)
    assert np.array_equal(np.concatenate(totals), whole.sum(axis=0, dtype=np.int64) + 7)


LAYOUTS = {
    "rows first": np.ascontiguousarray,
    "columns first": np.asfortranarray,
    "every other": lambda vectors: np.repeat(np.repeat(vectors, 2, axis=0), 2, axis=-1)[
        ::2, ..., ::2
    ],
    "backwards": lambda vectors: np.ascontiguousarray(vectors[::-1])[::-1],
}


@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("shape", [(64, 512), (64, 3, 512), (7, 1), (9, 5001)])
def test_a_norm_does_not_depend_on_memory_order_and_neighbours(shape, layout):
    vectors = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    expected = np.concatenate(
        [row_norms(vectors[row : row + 1].copy()) for row in range(len(vectors))]
    )
    assert np.allclose(
        expected,
        np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True),
        rtol=1e-4,
    )
    arranged = LAYOUTS[layout](vectors)
    for count in (1, 2, 3, len(vectors)):
        assert row_norms(arranged[:count]).tobytes() == expected[:count].tobytes()
        assert row_norms(arranged[-count:]).tobytes() == expected[-count:].tobytes()


def test_norms_of_rows_at_the_ends_of_float32():
    with np.errstate(over="ignore"):
        vectors = rows(40)
    expected = np.linalg.norm(vectors.astype(np.float64), axis=1)
    norms = row_norms(vectors)[:, 0]
    assert np.allclose(norms, expected, rtol=1e-4, atol=0)
    assert (norms <= expected * (1 + 1e-15)).all()
    spoiled = vectors[:3].copy()
    spoiled[0, 0] = np.nan
    spoiled[1, 1] = -np.inf
    assert np.isnan(row_norms(spoiled)[0, 0])
    assert row_norms(spoiled)[1, 0] == np.inf


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_what_a_block_adds_is_what_its_records_add_in_every_memory_order(layout):
    random = np.random.default_rng(1)
    grid = Grid(norm=1.0)
    inputs = LAYOUTS[layout](random.standard_normal((33, 300)).astype(np.float32))
    slopes = LAYOUTS[layout](random.standard_normal((33, 7)).astype(np.float32))

    def products(some):
        norms = row_norms(inputs[some])
        scaled = (slopes[some] * norms).astype(np.float32)
        total = np.zeros(7 * 300, dtype=np.int64)
        add_products(
            total, inputs[some], norms, clip_rows(scaled, clip_factors((scaled,), grid))
        )
        return total

    def factored(some):
        total = np.zeros(2 * 7 * 150, dtype=np.int64)
        halves = np.stack([slopes[some], -slopes[some]], axis=1)
        add_factored(total, inputs[some].reshape(-1, 2, 150), halves, grid)
        return total

    for adds in (products, factored):
        singles = [adds(slice(row, row + 1)) for row in range(33)]
        assert all(single.any() for single in singles)
        for count in (1, 2, 33):
            assert np.array_equal(adds(slice(count)), sum(singles[:count]))
