"""The number of different bins: the test against statsmodels' and the divergence against SciPy's; known answers.

No well-kept implementation of the whole is on PyPI; the authors' program is `ndb.py` of `eitanrich/gans-n-gmms`.
"""

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from statsmodels.stats.proportion import proportions_ztest

from noisegate_evaluate.metrics import ndb as module
from noisegate_evaluate.metrics.ndb import different_bins, share_scores


def rows(seed, count=4000, dim=2, shift=0.0):
    return np.random.default_rng(seed).normal(shift, 1.0, size=(count, dim))


def test_the_scores_are_those_of_the_two_proportion_test():
    random = np.random.default_rng(0)
    first = random.multinomial(300, np.full(7, 1 / 7))
    second = random.multinomial(500, np.full(7, 1 / 7))
    expected = [
        proportions_ztest([a, b], [300, 500])[0]
        for a, b in zip(first, second, strict=True)
    ]
    assert share_scores(first, second) == pytest.approx(expected)


def test_equal_distributions_differ_in_a_twentieth_of_the_bins():
    """Over five pairs 500 tests at 0.05: 25 ± 5, and some more for bins that were cut to one of the samples."""
    found = [different_bins(rows(seed), rows(100 + seed)) for seed in range(5)]
    assert {one.bins for one in found} == {100}
    assert 0.03 < np.mean([one.share for one in found]) < 0.09


@pytest.mark.parametrize(("lacking", "different"), [(30, 0), (31, 2)])
def test_the_test_is_two_sided(monkeypatch, lacking, different):
    """Of 500 each, 220 against 250 have z = 1.90 and 219 against 250 have 1.96; one-sided it would be from 1.645 on."""
    counts = np.array([250 - lacking, 250 + lacking]), np.array([250, 250])
    monkeypatch.setattr(module, "_counts", lambda *_: counts)
    assert different_bins(rows(0, 500), rows(1, 500), bins=2).different == different


def test_the_divergence_is_scipys(monkeypatch):
    counts = np.array([3, 0, 7, 10]), np.array([5, 5, 0, 10])
    monkeypatch.setattr(module, "_counts", lambda *_: counts)
    found = different_bins(rows(0, 20), rows(1, 20), bins=4)
    assert found.divergence == pytest.approx(jensenshannon(counts[0], counts[1]) ** 2)
