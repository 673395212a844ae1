"""The kernel distance against its definition written as loops, and its freedom from bias."""

import numpy as np
import pytest

from noisegate.errors import OptionError
from noisegate.evaluation.metrics.kid import KernelDistance, discrepancy, kernel_distance


def naive(first, second):
    def kernel(x, y):
        return (x @ y / len(x) + 1) ** 3

    def within(rows):
        n = len(rows)
        return sum(kernel(rows[i], rows[j]) for i in range(n) for j in range(n) if i != j) / (n * (n - 1))

    across = sum(kernel(x, y) for x in first for y in second) / (len(first) * len(second))
    return within(first) + within(second) - 2 * across


def rows(seed, count=12, dim=3, shift=0.0):
    return np.random.default_rng(seed).normal(shift, 1.0, size=(count, dim))


def test_the_definition():
    assert discrepancy(rows(0), rows(1, 9, shift=1.0)) == pytest.approx(naive(rows(0), rows(1, 9, shift=1.0)))


def test_it_has_no_bias():
    """The mean of 100 samples of one distribution is 0 within 5 of its standard errors; with the diagonal it is not."""
    values = [discrepancy(rows(2 * seed), rows(2 * seed + 1)) for seed in range(100)]
    assert abs(np.mean(values)) < 5 * np.std(values) / 10
    assert min(values) < 0
    assert kernel_distance(rows(0, 200, shift=2.0), rows(1, 200)).mean > 5


def test_all_images_in_one_subset_are_one_figure():
    found = kernel_distance(rows(0), rows(1), size=50)
    assert (found.subsets, found.size, found.deviation) == (1, 12, None)
    assert found.mean == pytest.approx(naive(rows(0), rows(1)))


def test_subsets_are_drawn_by_the_seed_and_their_mean_is_near_the_whole():
    ours, theirs = rows(0, 400), rows(1, 300, shift=0.5)
    found = kernel_distance(ours, theirs, subsets=30, size=100, seed=1)
    assert found == kernel_distance(ours, theirs, subsets=30, size=100, seed=1)
    assert found != kernel_distance(ours, theirs, subsets=30, size=100, seed=2)
    assert (found.subsets, found.size) == (30, 100)
    # Overlapping subsets: their deviation is an upper bound of the error of the mean.
    assert abs(found.mean - discrepancy(ours, theirs)) < found.deviation
    assert found.to_json()["mean"] == found.mean


def test_its_name_has_the_features_in_it():
    assert KernelDistance.named("encoder") == "kid(encoder)"


@pytest.mark.parametrize("option", [{"subsets": 0}, {"size": 1}])
def test_impossible_options_are_named(option):
    with pytest.raises(OptionError, match=f"{next(iter(option))} is"):
        kernel_distance(rows(0), rows(1), **option)
