"""Guarantee G-02: quantised vectors have norm at most `UNITS`, exactly, and depend on their own row alone."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from noisegate.errors import OptionError
from noisegate.privacy.grid import BLOCK_LIMIT, RECORD_LIMIT, UNITS, Grid

DTYPES = (np.float32, np.float64)
DIMS = (1, 2, 3, 17, 1000, 4096, 4097, 10_000)


def squared_norms(quantised):
    return [sum(int(x) ** 2 for x in row) for row in quantised]


def assert_inside(grid, rows):
    quantised = grid.quantise(rows)
    assert quantised.shape == rows.shape
    assert np.issubdtype(quantised.dtype, np.integer)
    assert max(squared_norms(quantised), default=0) <= UNITS**2
    if grid.nonnegative:
        assert quantised.min(initial=0) >= 0
    return quantised


def grids(dim):
    centre = tuple(np.linspace(-1, 1, dim)) if dim > 1 else (0.25,)
    return [
        Grid(norm=1.0),
        Grid(norm=0.3),
        Grid(norm=7e3, nonnegative=True),
        Grid(norm=2.0, centre=centre),
    ]


def adversarial(dim, dtype, norm):
    """Rows on the bound, one step above and below it, far outside, tiny, and with special values."""
    random = np.random.default_rng(dim)
    rows = [np.zeros(dim)]
    for direction in (
        random.normal(size=dim),
        np.ones(dim),
        np.eye(1, dim)[0],
        -np.eye(1, dim, dim - 1)[0],
    ):
        on = (direction / np.linalg.norm(direction) * norm).astype(dtype)
        away = np.where(on < 0, -np.inf, np.inf).astype(dtype)
        rows += [
            on,
            np.nextafter(on, away),
            np.nextafter(on, np.zeros(dim, dtype)),
            on * dtype(1 + 2.0**-10),
        ]
        rows += [
            on * dtype(1 + 2.0**-9),
            on * dtype(100),
            on * dtype(1e30),
            on * dtype(np.finfo(dtype).tiny),
        ]
        rows += [on * dtype(1e-3)]
    if dtype is np.float64:
        rows += [np.full(dim, 1e300), np.full(dim, 5e-324), np.full(dim, -1e300)]
    for special in (np.nan, np.inf, -np.inf):
        bad = random.normal(size=dim) * norm
        bad[dim // 2] = special
        rows.append(bad)
    return np.array(rows, dtype=dtype)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_adversarial_rows_stay_inside_the_ball(dtype, dim):
    for grid in grids(dim):
        assert_inside(grid, adversarial(dim, dtype, grid.norm))


finite = st.floats(
    allow_nan=False, allow_infinity=False, min_value=-1e289, max_value=1e289, width=64
)


@settings(max_examples=150)
@given(
    rows=st.one_of(
        hnp.arrays(
            np.float64,
            st.tuples(st.integers(1, 4), st.integers(1, 6)),
            elements=finite | st.just(np.nan),
        ),
        hnp.arrays(
            np.float32,
            st.tuples(st.integers(1, 4), st.integers(1, 6)),
            elements=st.floats(-(2.0**90), 2.0**90, width=32) | st.just(np.inf),
        ),
    ),
    norm=st.floats(1e-3, 1e6),
    nonnegative=st.booleans(),
)
def test_any_row_stays_inside_the_ball_and_keeps_its_bits_alone(
    rows, norm, nonnegative
):
    grid = Grid(norm=norm, nonnegative=nonnegative)
    together = assert_inside(grid, rows)
    for i in range(len(rows)):
        assert np.array_equal(grid.quantise(rows[i : i + 1])[0], together[i])


@settings(max_examples=100)
@given(
    dim=st.integers(1, 60),
    seed=st.integers(0, 2**32 - 1),
    step=st.integers(-40, 40),
    dtype=st.sampled_from(DTYPES),
)
def test_rows_close_to_the_bound_stay_inside_the_ball(dim, seed, step, dtype):
    row = np.random.default_rng(seed).normal(size=dim)
    row *= (1 + step * 2.0**-13) / np.linalg.norm(row)
    assert_inside(Grid(norm=1.0), row[None].astype(dtype))


@pytest.mark.parametrize("dim", (1, 17, 4097))
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_has_the_same_bits_in_every_company(dtype, dim):
    random = np.random.default_rng(5)
    for grid in grids(dim):
        rows = adversarial(dim, dtype, grid.norm)
        expected = grid.quantise(rows)
        order = random.permutation(len(rows))
        assert np.array_equal(grid.quantise(rows[order]), expected[order])
        assert np.array_equal(grid.quantise(np.asfortranarray(rows)), expected)
        assert np.array_equal(
            grid.quantise(np.repeat(rows, 2, axis=1)[:, ::2]), expected
        )
        cuts = [0, 1, 4, 5, len(rows)]
        parts = [grid.quantise(rows[a:b]) for a, b in pairwise(cuts)]
        assert np.array_equal(np.concatenate(parts), expected)
        for i in range(len(rows)):
            assert np.array_equal(grid.quantise(rows[i : i + 1])[0], expected[i])


@pytest.mark.parametrize("dim", [2**17, 2**22])
def test_what_is_cut_off_a_long_row_counts_for_its_norm(dim):
    """One large coordinate, and all others just too small for the first rounding: many of them matter together."""
    bits = (52 - math.ceil(math.log2(dim))) // 2
    row = np.full((1, dim), 99 * 2.0**-bits)
    row[0, 0] = 100.0
    quantised = Grid(norm=1.0).quantise(row)[0].astype(np.int64)
    assert 0.94 * UNITS < math.sqrt(int(quantised @ quantised)) <= UNITS


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding_is_toward_zero(dtype):
    grid = Grid(norm=1.0)
    rows = np.random.default_rng(6).uniform(-1, 1, size=(50, 20)).astype(dtype) / 5
    scaled = rows.astype(dtype) * dtype(grid.scale)
    quantised = grid.quantise(rows)
    assert [int(x) for x in quantised.ravel()] == [
        math.trunc(float(x)) for x in scaled.ravel()
    ]
    assert (np.abs(scaled - quantised) > 0.5).any(), (
        "no coordinate tells truncation from rounding"
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_inside_the_ball_keep_their_length_and_rows_outside_get_that_of_the_bound(
    dtype,
):
    grid = Grid(norm=3.0)
    random = np.random.default_rng(7)
    for dim in (1, 5, 300):
        inside = random.normal(size=(20, dim))
        inside *= (
            random.uniform(0.01, 1, size=(20, 1))
            * 3.0
            / np.linalg.norm(inside, axis=1, keepdims=True)
        )
        restored = grid.restore(grid.quantise(inside.astype(dtype)).astype(np.int64))
        assert np.abs(restored - inside).max() < 3.0 * 2.0**-20
        outside = inside * 1000
        clipped = grid.restore(grid.quantise(outside.astype(dtype)).astype(np.int64))
        direction = outside / np.linalg.norm(outside, axis=1, keepdims=True)
        far = np.linalg.norm(inside, axis=1) > 0.0301
        assert np.abs(clipped - 3.0 * direction)[far].max() < 3.0 * 0.003


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_a_row_with_a_value_that_is_no_number_takes_part_with_nothing(special, dtype):
    for grid in (Grid(norm=1.0), Grid(norm=1.0, centre=(0.0, 0.5, 0.0))):
        rows = np.array([[0.1, special, 0.2], [0.1, 0.1, 0.2]], dtype=dtype)
        quantised = grid.quantise(rows)
        assert not quantised[0].any()
        assert quantised[1].all()


def test_a_nonnegative_question_sets_negative_values_to_zero():
    quantised = Grid(norm=1.0, nonnegative=True).quantise(
        np.array([[-0.5, 0.5], [-9.0, 9.0], [-1.0, -1.0]])
    )
    assert (quantised[:, 0] == 0).all()
    assert quantised[2, 1] == 0
    half = quantised[0, 1] / UNITS
    whole = quantised[1, 1] / UNITS
    assert half == pytest.approx(0.5, rel=2e-3)
    assert whole == pytest.approx(1.0, rel=2e-3)


def test_a_centred_question_clips_around_its_centre():
    grid = Grid(norm=1.0, centre=(100.0, 0.0))
    at, near, far = grid.quantise(
        np.array([[100.0, 0.0], [100.5, 0.0], [0.0, 0.0]], dtype=np.float32)
    )
    assert not at.any()
    assert near[0] / UNITS == pytest.approx(0.5, rel=2e-3)
    assert far[0] / UNITS == pytest.approx(-1.0, rel=2e-3)


@pytest.mark.parametrize("norm", [0.0, -1.0, math.nan, math.inf])
def test_a_bound_that_is_not_positive_is_refused(norm):
    with pytest.raises(OptionError, match="norm="):
        Grid(norm=norm)


def test_a_question_that_is_both_nonnegative_and_centred_is_refused():
    with pytest.raises(OptionError, match="centred"):
        Grid(norm=1.0, nonnegative=True, centre=(0.5,))


def test_the_limits_on_records_leave_no_room_for_overflow():
    assert BLOCK_LIMIT * UNITS < 2**31 <= (BLOCK_LIMIT + 1) * UNITS
    assert RECORD_LIMIT * UNITS < 2**62 <= (RECORD_LIMIT + 1) * UNITS
    assert RECORD_LIMIT >= 10**12


def test_minus_infinity_in_a_nonnegative_question_depends_on_the_row_alone():
    # Norms where the fast test's own rounding decides; it adds in another order when columns come first in memory.
    random = np.random.default_rng(0)
    rows = np.abs(random.normal(size=(3000, 33)))
    edge = (1 + 2.0**-11) ** -0.5 / (1 - 2.0**-10)
    rows *= (
        edge
        * (1 + random.uniform(-1e-7, 1e-7, size=(3000, 1)))
        / np.linalg.norm(rows[:, 1:], axis=1)[:, None]
    )
    rows = rows.astype(np.float32)
    rows[:, 0] = -np.inf
    grid = Grid(norm=1.0, nonnegative=True)
    assert np.array_equal(grid.quantise(np.asfortranarray(rows)), grid.quantise(rows))


@pytest.mark.parametrize(
    "dtype", [np.int32, np.int64, np.float16, np.complex64, np.bool_]
)
def test_vectors_of_another_type_are_refused(dtype):
    """The tests of the norm are proved for float32 and float64; squares of integers would wrap around."""
    with pytest.raises(OptionError, match="cannot be summed"):
        Grid(norm=1.0).quantise(np.full((3, 4), 16).astype(dtype))
