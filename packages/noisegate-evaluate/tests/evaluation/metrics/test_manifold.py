"""Precision, recall, density and coverage against their definitions as loops, and on sets with known answers."""

import numpy as np
import pytest

from noisegate.errors import DataError, OptionError
from noisegate_evaluate.metrics.manifold import manifold_figures


def rows(seed, count=60, dim=3, shift=0.0):
    return np.random.default_rng(seed).normal(shift, 1.0, size=(count, dim))


def figures(*sets, **options):
    found = manifold_figures(*sets, **options)
    return found.precision, found.recall, found.density, found.coverage


def test_disjoint_sets_share_nothing():
    assert figures(rows(0), rows(1, shift=100.0)) == (0, 0, 0, 0)


def test_one_mode_of_two_is_precise_and_covers_half():
    real = np.concatenate([rows(0, 100), rows(1, 100, shift=50.0)])
    precision, recall, density, coverage = figures(rows(2, 200), real)
    assert precision > 0.8
    assert recall < 0.55
    assert coverage == pytest.approx(0.5, abs=0.05)
    assert density > 0.8


def test_too_few_images_or_neighbours_are_named():
    with pytest.raises(DataError, match=r"a set has 5 image\(s\); this figure needs at least 6"):
        manifold_figures(rows(0), rows(1, 5))
    with pytest.raises(OptionError, match="neighbours is 0"):
        manifold_figures(rows(0), rows(1), neighbours=0)
