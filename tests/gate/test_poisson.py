"""Guarantee G-19: every record enters a sample by itself, with the rate exactly, and anew each time.

The sample has no seed; each acceptance fails by chance with probability at most 1e-9.
"""

import numpy as np
import pytest
from scipy import stats

from noisegate.gate.queries import gradients
from noisegate.gate.queries.gradients import poisson_sample
from noisegate.privacy.gradient_plan import RATES

CHANCE = 1e-9


def fits(found, draws, rate):
    low, high = stats.binom.ppf(CHANCE / 2, draws, rate), stats.binom.isf(CHANCE / 2, draws, rate)
    return bool(low <= found <= high)


def members(records, rate, times):
    found = np.zeros((times, records), dtype=bool)
    for row in found:
        row[poisson_sample(records, rate)] = True
    return found


@pytest.mark.parametrize("rate", [1 / 64, 0.25, 0.75])
def test_the_rate_is_that_which_is_accounted(rate):
    found = members(5000, rate, 40)
    assert fits(found.sum(), found.size, rate)
    assert not fits(found.sum(), found.size, rate * 2 / 3)
    assert not fits(found.sum(), found.size, rate * 5 / 4)


def test_sizes_of_samples_vary_as_binomial_ones_do():
    # Fixed sizes, as of shuffled batches, have no variance at all.
    sizes = members(400, 0.25, 3000).sum(axis=1)
    statistic = np.square(sizes - 100).sum() / (400 * 0.25 * 0.75)
    assert stats.chi2.ppf(1e-6, 3000) < statistic < stats.chi2.isf(1e-6, 3000)


def test_records_and_samples_are_independent():
    found = members(2000, 0.5, 200).astype(float) * 2 - 1
    for left, right in ((found[:, :-1], found[:, 1:]), (found[:-1], found[1:]), (found[:, :-7], found[:, 7:])):
        assert abs((left * right).sum() / np.sqrt(left.size)) < 7.5


def test_every_record_has_the_same_rate_whatever_its_place(monkeypatch):
    monkeypatch.setattr(gradients, "_AT_ONCE", 100)
    per_record = members(250, 0.5, 2000).sum(axis=0)
    assert stats.chi2.ppf(CHANCE, 250) < (np.square(per_record - 1000) / 500).sum() < stats.chi2.isf(CHANCE, 250)


def test_words_are_compared_exactly(monkeypatch):
    words = np.array([0, 1, 2, 3, RATES - 1], dtype=np.uint64)
    monkeypatch.setattr(gradients, "_words", lambda count: words[:count])
    assert poisson_sample(5, 1 / RATES).tolist() == [0]
    assert poisson_sample(5, 3 / RATES).tolist() == [0, 1, 2]
    assert poisson_sample(5, (RATES - 1) / RATES).tolist() == [0, 1, 2, 3]
    assert poisson_sample(5, 1.0).tolist() == [0, 1, 2, 3, 4]


def test_samples_of_nothing_and_of_everything():
    assert poisson_sample(0, 0.5).tolist() == []
    assert poisson_sample(7, 1.0).tolist() == list(range(7))
    assert poisson_sample(50, 1 / RATES).size <= 1
