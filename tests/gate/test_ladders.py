"""Ladders put every value in exactly one cell, and bounds come out around what was put in."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest

from noisegate.gate.queries import findings
from noisegate.gate.queries.exact_counts import FINE, BinEdges, bin_edges

KINDS = ["continuous", "integer", "date", "datetime", "datetime-utc"]
VALUES = {
    "continuous": np.array([0.0, -0.0, 1e-300, 1.0, -1.0, 0.75, 2.0**127, 1e300, -1e300, np.inf, -np.inf]),
    "integer": np.array([0, 1, -1, 2, -2, 3, 2**52, -(2**52), 2**63 - 1, -(2**63)]),
    "date": np.array([-719162, 0, 1, -1, 2932896]),
    "datetime": np.array([0, -(10**17), 10**17, 2**62]),
    "datetime-utc": np.array([0, 1]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_is_counted_exactly_once(kind):
    look = bin_edges(kind)
    assert (np.diff(look.edges) > 0).all()
    for value in VALUES[kind]:
        counts = look.counts(np.array([value]))
        assert (counts.shape, counts.sum(), counts.max()) == ((look.size,), 1, 1)
    together = look.counts(VALUES[kind])
    assert together.tolist() == sum(look.counts(np.array([value])) for value in VALUES[kind]).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_look_counts_what_is_inside_once_and_nothing_else(kind):
    look = bin_edges(kind)
    middle = look.size // 2
    for first, last in ((middle, middle), (middle - 3, middle + 2), (0, look.size - 1)):
        fine = look.within(first, last)
        assert fine.size <= FINE
        assert (fine.edges[0], fine.edges[-1]) == (look.edges[first], look.edges[last + 1])
        inside = np.array([fine.edges[0], fine.edges[-2]])
        assert fine.counts(inside).sum() == 2
        outside = np.array([fine.edges[0] - abs(fine.edges[0]) / 2 - 1, fine.edges[-1]])
        assert fine.counts(outside).sum() == 0


def test_cells_of_whole_numbers_are_powers_of_two_on_both_sides():
    look = bin_edges("integer")
    for value in (1, 2, 3, 4, 7, 8, 1023, 1024):
        for signed in (value, -value):
            cell = int(np.argmax(look.counts(np.array([signed]))))
            assert abs(cell - look.zero) == value.bit_length()
    assert look.counts(np.array([0]))[look.zero] == 1


def test_dates_are_counted_by_decade_to_the_last_day():
    look = bin_edges("date")
    for first, last in (
        (date(1970, 1, 1), date(1979, 12, 31)),
        (date(9990, 1, 1), date.max),
        (date.min, date(9, 12, 31)),
    ):
        steps = [day.toordinal() - date(1970, 1, 1).toordinal() for day in (first, last)]
        counts = look.counts(np.array(steps))
        assert counts.max() == 2
        cell = int(np.argmax(counts))
        assert findings.span(BinEdges(edges=look.edges[cell : cell + 2], clamped=False), 0, 0) == tuple(steps)


def test_moments_are_at_most_285_years_apart():
    look = bin_edges("datetime")
    assert look.edges[-1] - look.edges[0] <= 2**53
    moment = (datetime(1999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )
    edges = look.edges[np.argmax(look.counts(np.array([moment]))) + np.array([0, 1])]
    assert edges[1] == moment + 1


def seen(kind, values, *, noise=0.0, seed=0):
    """Returns the bounds that two looks with Gaussian noise give, as discovery takes them."""
    random, look = np.random.default_rng(seed), bin_edges(kind)
    std = noise or 1e-9
    noisy = look.counts(values) + std * random.standard_normal(look.size)
    found = findings.occupied(noisy, std, look.zero)
    if found is None:
        return None
    fine = look.within(found.first, found.last)
    noisy = fine.counts(values) + std * random.standard_normal(fine.size)
    return findings.span(fine, *findings.trimmed(noisy, std, fine, look, found))


@pytest.mark.parametrize("noise", [0.0, 30.0])
@pytest.mark.parametrize("seed", range(5))
def test_bounds_cover_nearly_all_values_and_are_not_far_off(noise, seed):
    random = np.random.default_rng(seed)
    for values, narrow in (
        (random.integers(17, 91, 20_000), (8, 127)),
        (random.integers(1995, 2021, 20_000), (1500, 2100)),
        (random.integers(-40, 45, 20_000), (-64, 64)),
    ):
        lower, upper = seen("integer", values, noise=noise, seed=seed)
        assert np.mean((values < lower) | (values > upper)) < 0.03
        assert narrow[0] <= lower < upper <= narrow[1]
    lower, upper = seen("continuous", np.exp(random.normal(0, 1, 20_000)), noise=noise, seed=seed)
    assert -0.1 <= lower < 0.2
    assert 5 < upper < 1100


def test_a_long_thin_tail_is_kept_where_the_first_look_was_sure_of_it():
    values = np.concatenate([np.zeros(30_000), np.random.default_rng(1).uniform(3000, 16000, 2500)]).astype(np.int64)
    lower, upper = seen("integer", values, noise=100.0)
    assert lower <= 0
    assert upper >= 8191


@pytest.mark.parametrize(("kind", "value", "expected"), [("integer", 0, (0, 1)), ("continuous", 0.0, None)])
def test_a_constant_column_gets_two_different_bounds(kind, value, expected):
    found = seen(kind, np.full(1000, value))
    assert found[0] <= value < found[1]
    assert expected in (None, found)


def test_too_few_values_give_no_bounds():
    assert seen("integer", np.array([5, 5, 5]), noise=30.0) is None


def test_empty_cells_are_hardly_ever_taken_for_occupied():
    found = [seen("continuous", np.zeros(0), noise=10.0, seed=seed) for seed in range(300)]
    # Each with probability 1/1000: more than six of 300 with probability below 1e-7.
    assert sum(one is not None for one in found) <= 6


@pytest.mark.parametrize(
    ("noisy", "zero", "expected"),
    [
        ([0, 0, 0, 2.5, 9, 0, 9, 2.5, 1.5, 0], None, (3, 7)),
        ([2.5, 9, 0, 0, 0, 0, 0, 0, 9, 2.5], None, (0, 9)),
        ([0, 0, 2.5, 2.5, 9, 9, 2.5, 2.5, 0, 0], None, (2, 7)),
        # Not across zero, on either side.
        ([0, 0, 2.5, 2.5, 9, 9, 2.5, 2.5, 0, 0], 4, (4, 7)),
        ([0, 0, 2.5, 2.5, 9, 9, 2.5, 2.5, 0, 0], 5, (2, 5)),
    ],
)
def test_cells_beside_sure_ones_are_taken_in_while_they_stand_out(noisy, zero, expected):
    found = findings.occupied(np.array(noisy, dtype=float), 1.0, zero)
    assert (found.first, found.last) == expected


def test_a_single_cell_may_be_left_of_a_second_look():
    fine = BinEdges(edges=np.arange(5.0), clamped=False)
    look = BinEdges(edges=np.array([2.0, 3.0]), clamped=True)
    found = findings.Occupied(first=0, last=0, sure=(0, 0))
    assert findings.trimmed(np.zeros(4), 1.0, fine, look, found) == (2, 2)
