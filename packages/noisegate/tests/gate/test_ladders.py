"""Ladders put every value in exactly one cell, and bounds come out around what was put in."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest

from noisegate.discovery import findings as search
from noisegate.discovery.exact_counts import FINE, BinEdges, bin_edges

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
        assert fine.size <= FINE and (fine.edges[0], fine.edges[-1]) == (look.edges[first], look.edges[last + 1])
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
        assert search.span(BinEdges(edges=look.edges[cell : cell + 2], clamped=False), 0, 0) == tuple(steps)


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
    found = search.occupied(noisy, std, look.zero)
    if found is None:
        return None
    fine = search.second_look(look, found, noisy, std)
    cells = fine.counts(values) + std * random.standard_normal(fine.size)
    ends = search.bounds(look, found, noisy, fine, cells, std)
    return "zeros" if ends is None else search.rounded(kind, *ends)


@pytest.mark.parametrize("noise", [0.0, 30.0])
@pytest.mark.parametrize("seed", range(5))
def test_bounds_cover_nearly_all_values_and_are_not_far_off(noise, seed):
    random = np.random.default_rng(seed)
    for values, narrow in (
        (random.integers(17, 91, 20_000), (0, 130)),
        (random.integers(1995, 2021, 20_000), (1500, 2100)),
        (random.integers(-40, 45, 20_000), (-70, 70)),
    ):
        lower, upper = seen("integer", values, noise=noise, seed=seed)
        assert np.mean((values < lower) | (values > upper)) < 0.03 and narrow[0] <= lower < upper <= narrow[1]
    lower, upper = seen("continuous", np.exp(random.normal(0, 1, 20_000)), noise=noise, seed=seed)
    assert -0.1 <= lower < 0.2 and 5 < upper < 1100


def test_a_long_thin_tail_is_kept_where_the_first_look_was_sure_of_it():
    values = np.concatenate([np.zeros(30_000), np.random.default_rng(1).uniform(3000, 16000, 2500)]).astype(np.int64)
    lower, upper = seen("integer", values, noise=100.0)
    assert lower <= 0 and upper >= 8191


@pytest.mark.parametrize(("kind", "value"), [("integer", 7), ("continuous", 7.0), ("date", 7)])
def test_a_constant_column_gets_two_different_bounds(kind, value):
    lower, upper = seen(kind, np.full(1000, value))
    assert lower < upper and lower <= (date(1970, 1, 8) if kind == "date" else value) <= upper


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
    found = search.occupied(np.array(noisy, dtype=float), 1.0, zero)
    assert (found.first, found.last) == expected


def test_neighbours_stand_out_together_where_none_does_alone():
    noisy = np.array([0, 0, 0.5, 3.5, 3.5, 3.5, 3.5, 0.5, 0, 0])
    assert noisy.max() < search.threshold(1.0, len(noisy))
    found = search.occupied(noisy, 1.0, None)
    assert (found.first, found.last, found.gap) == (3, 6, None)


@pytest.mark.parametrize(("empty", "told"), [(9, False), (10, True)])
def test_a_wide_gap_is_told(empty, told):
    noisy = np.array([0, 9, *[0] * empty, 9, 0], dtype=float)
    assert search.occupied(noisy, 1.0, None).gap == ((1, empty + 2) if told else None)
    assert search.occupied(noisy, 1.0, 1).gap is None  # zero is far from everything


@pytest.mark.parametrize(
    ("counts", "std", "expected"),
    [
        ([0, 0, 100, 100, 0, 0, 0, 0], 0.0, (2, 3)),
        # To halve the width is worth 2 % of the records, 4 of 200, and not more.
        ([3, 0, 100, 97], 0.0, (2, 3)),
        ([5, 0, 100, 95], 0.0, (0, 3)),
        # Noise of 10 records makes it as unsure.
        ([0, 0, 100, 100], 10.0, (0, 3)),
        ([0, 0, 0, 0, 0, 0, 1000, 1000], 10.0, (6, 7)),
    ],
)
def test_ends_are_cut_off_where_that_is_worth_it(counts, std, expected):
    assert search.kept(np.array(counts, dtype=float), std, float(sum(counts))) == expected


@pytest.mark.parametrize(
    ("kind", "ends", "expected"),
    [
        ("continuous", (-(2.0**-128), 31.75), (0, 32)),
        ("continuous", (1.0, 81.5), (0, 82)),
        ("continuous", (61.3, 92.7), (61, 93)),
        ("continuous", (-31.0, 0.5), (-31, 1)),
        ("continuous", (-31.0, -0.5), (-31, 0)),
        ("continuous", (2.5e-5, 4.23e-4), (0, 4.3e-4)),
        ("integer", (17, 2047), (0, 2100)),
        ("integer", (1024, 2047), (1000, 2100)),
        ("integer", (1 - 2**52, 2**52 - 1), (1 - 2**52, 2**52 - 1)),
        ("date", (-3650, 3600), (date(1960, 1, 1), date(1979, 12, 31))),
        ("date", (3, 400), (date(1970, 1, 4), date(1971, 2, 5))),
        ("datetime", (0, 10**14), (datetime(1970, 1, 1), datetime(1973, 12, 31, 23, 59, 59, 999_999))),
        ("datetime-utc", (0, 10**6), (datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))),
    ],
)
def test_bounds_are_rounded_outwards_and_to_zero(kind, ends, expected):
    assert search.rounded(kind, *ends) == expected


@pytest.mark.parametrize(("records", "std"), [(858, 10.0), (5000, 50.0), (20_000, 50.0)])
@pytest.mark.parametrize("kind", ["continuous", "integer"])
def test_what_is_mostly_zero_gets_bounds_of_the_rest(kind, records, std):
    random = np.random.default_rng(7)
    rest = random.uniform(1, 81, records)
    values = np.where(random.random(records) < 0.6, 0.0, rest if kind == "continuous" else np.rint(rest))
    for seed in range(10):
        lower, upper = seen(kind, values, noise=std, seed=seed)
        assert lower == 0 and 60 <= upper <= 130 and np.mean(values > upper) < 0.05


def test_where_zeros_alone_stand_out_wider_cells_beside_them_are_looked_at():
    random = np.random.default_rng(3)
    values = np.where(random.random(900) < 0.6, 0.0, 2.0 ** random.uniform(-3, 5, 900))
    ends = [seen("continuous", values, noise=45.0, seed=seed) for seed in range(20)]
    assert ends.count("zeros") <= 15  # the first look, of one power of two a bin, shows 45 records in each
    assert {one for one in ends if one != "zeros"} <= {(0.0, 1.0), (0.0, 16.0), (0.0, 32.0), (0.0, 256.0)}
    assert seen("integer", np.zeros(900), noise=45.0) == "zeros"


@pytest.mark.parametrize(("low", "high"), [(-(2.0**-105), -(2.0**-106)), (2.0**-106, 2.0**-105)])
def test_bins_next_to_zero_that_noise_alone_found_have_bounds(low, high):
    lower, upper = search.rounded("continuous", low, high)
    assert lower <= low < high <= upper and (upper <= 0 or high > 0) and (lower >= 0 or low < 0)
