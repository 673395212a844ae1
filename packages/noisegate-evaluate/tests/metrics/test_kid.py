"""The kernel distance against its definition written as loops, and its freedom from bias."""

import numpy as np

from noisegate_evaluate.metrics.frechet import discrepancy, kernel_distance


def rows(seed, count=12, dim=3, shift=0.0):
    return np.random.default_rng(seed).normal(shift, 1.0, size=(count, dim))


def test_it_has_no_bias():
    """The mean of 100 samples of one distribution is 0 within 5 of its standard errors; with the diagonal it is not."""
    values = [discrepancy(rows(2 * seed), rows(2 * seed + 1)) for seed in range(100)]
    assert abs(np.mean(values)) < 5 * np.std(values) / 10
    assert min(values) < 0
    assert kernel_distance(rows(0, 200, shift=2.0), rows(1, 200)).mean > 5


def test_subsets_are_drawn_by_the_seed_and_their_mean_is_near_the_whole():
    ours = rows(0, 400)
    theirs = rows(1, 300, shift=0.5)
    found = kernel_distance(ours, theirs, subsets=30, size=100, seed=1)
    assert found == kernel_distance(ours, theirs, subsets=30, size=100, seed=1)
    assert found != kernel_distance(ours, theirs, subsets=30, size=100, seed=2)
    assert (found.subsets, found.size) == (30, 100)
    # Overlapping subsets: their deviation is an upper bound of the error of the mean.
    assert abs(found.mean - discrepancy(ours, theirs)) < found.deviation
    assert found.to_json()["mean"] == found.mean
