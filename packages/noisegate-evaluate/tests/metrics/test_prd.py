"""Precision and recall for distributions: the curve of histograms with known answers, and sets that overlap by halves.

No well-kept implementation is on PyPI. The curve was compared once with the authors' program (`prd_score.py` of
`msmsajjadi/precision-recall-distributions`) on random histograms, and with its results on the sets below.
"""

import numpy as np
import pytest

from noisegate_evaluate.metrics.ndb import distribution_scores, prd_curve


def rows(seed, count=400, dim=3, shift=0.0):
    return np.random.default_rng(seed).normal(shift, 1.0, size=(count, dim))


def scores(*sets, **options):
    found = distribution_scores(*sets, **{"runs": 1, **options})
    return found.precision, found.recall


def at(precision, recall, slope):
    """The point of the curve at the angle next to arctan of `slope`."""
    place = np.abs(
        np.linspace(0, np.pi / 2, len(precision)) - np.arctan(slope)
    ).argmin()
    return precision[place], recall[place]


def test_the_definition_at_any_slope():
    """Their definition 1 by theorem 3, with a loop."""
    random = np.random.default_rng(0)
    synthetic, real = random.dirichlet(np.ones(6), size=2)
    precision, recall = prd_curve(synthetic, real)
    angles = np.linspace(1e-10, np.pi / 2 - 1e-10, 1001)
    for place in (3, 250, 500, 800, 997):
        slope = np.tan(angles[place])
        expected = sum(min(slope * p, q) for p, q in zip(real, synthetic, strict=True))
        assert precision[place] == pytest.approx(expected, abs=1e-9)
        assert recall[place] == pytest.approx(expected / slope, rel=1e-6)


def test_equal_disjoint_and_half_overlapping_sets():
    one = rows(0)
    other = rows(0, shift=30.0)
    assert scores(one, one) == pytest.approx((1, 1))
    assert scores(one, other) == pytest.approx((0, 0))
    both = np.concatenate([one[:200], other[:200]])
    # F_8 at precision 1 and recall 1/2 is 65/(128 + 1) = 0.504; the other score is that at the other end of the weight.
    assert scores(one, both) == pytest.approx((0.98, 0.504), abs=0.03)
    assert scores(both, one) == pytest.approx((0.504, 0.98), abs=0.03)
