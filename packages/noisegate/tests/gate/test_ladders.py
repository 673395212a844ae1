"""Ladders put every value in exactly one cell, and bounds come out around what was put in."""

from datetime import UTC, date, datetime

import numpy as np
import pytest

from noisegate.discovery import findings as search
from noisegate.discovery.exact_counts import FINE, bin_edges

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


@pytest.mark.parametrize(("kind", "value"), [("integer", 7), ("continuous", 7.0), ("date", 7)])
def test_a_constant_column_gets_two_different_bounds(kind, value):
    lower, upper = seen(kind, np.full(1000, value))
    assert lower < upper and lower <= (date(1970, 1, 8) if kind == "date" else value) <= upper


def test_empty_cells_are_hardly_ever_taken_for_occupied():
    found = [seen("continuous", np.zeros(0), noise=10.0, seed=seed) for seed in range(300)]
    # Each with probability 1/1000: more than six of 300 with probability below 1e-7.
    assert sum(one is not None for one in found) <= 6


@pytest.mark.parametrize(
    ("kind", "ends", "expected"),
    [
        ("continuous", (-(2.0**-128), 31.75), (0, 32)),
        ("continuous", (61.3, 92.7), (61, 93)),
        ("continuous", (-31.0, -0.5), (-31, 0)),
        ("continuous", (2.5e-5, 4.23e-4), (0, 4.3e-4)),
        ("integer", (17, 2047), (0, 2100)),
        ("integer", (1 - 2**52, 2**52 - 1), (1 - 2**52, 2**52 - 1)),
        ("date", (-3650, 3600), (date(1960, 1, 1), date(1979, 12, 31))),
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


@pytest.mark.parametrize(("low", "high"), [(-(2.0**-105), -(2.0**-106)), (2.0**-106, 2.0**-105)])
def test_bins_next_to_zero_that_noise_alone_found_have_bounds(low, high):
    lower, upper = search.rounded("continuous", low, high)
    assert lower <= low < high <= upper and (upper <= 0 or high > 0) and (lower >= 0 or low < 0)
