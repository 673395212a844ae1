"""What finitely many features lose, against many draws of the features."""

import math

import numpy as np
import pytest

from noisegate.schema import Boolean, Continuous, EncodedTable, Schema
from noisegate_images.features.fourier import draw
from noisegate_papers.features.error_bounds import random_feature_error, truncation_error


def squared_mmd(omega, one, two):
    """Of two tables of numbers, by the features of frequencies `omega`, (draws, F)."""
    waves = [np.exp(1j * omega[..., None] * table).mean(axis=-1) for table in (one, two)]
    return (np.abs(waves[0] - waves[1]) ** 2).mean(axis=-1)


@pytest.mark.parametrize("frequencies", [1, 10, 300])
def test_random_features_of_two_tables(frequencies):
    random = np.random.default_rng(0)
    omega = random.standard_normal((2_000, frequencies))
    far = np.abs(squared_mmd(omega, np.zeros(1), np.full(1, 20.0)) - 2)
    assert 0.5 <= far.mean() / random_feature_error(frequencies) <= 0.7
    near = np.array([0.0, 0.3, 0.5]), np.array([0.1, 0.3, 0.9])
    found = squared_mmd(omega, *near)
    known = np.exp(-((np.concatenate(near)[:, None] - np.concatenate(near)) ** 2) / 2)
    sign = np.repeat([1 / 3, -1 / 3], 3)
    exact = float(sign @ known @ sign)
    bound = math.sqrt(exact * (4 - exact) / frequencies)
    assert np.abs(found - exact).mean() <= bound < random_feature_error(frequencies)
    # As printed: D = 2F features.
    assert random_feature_error(frequencies) < 8 * math.sqrt(math.pi / frequencies) / 7


@pytest.mark.parametrize("kernel", ["pairs", "numeric"])
def test_the_features_of_the_library_keep_the_bound(kernel):
    """Length scales and columns are drawn as well, columns by fixed shares; the kernel is the mean over all draws."""
    schema = Schema((*(Continuous(name=name, lower=0.0, upper=1.0) for name in "uvw"), Boolean(name="y")))
    layout = schema.layout
    records = EncodedTable(
        numeric=np.array([[0.1, 0.9, 0.5], [0.8, 0.2, 0.5]]), codes=np.array([[0], [1]], dtype=np.int32)
    )
    found = []
    for seed in range(200):
        features = draw(
            layout, count=25, kernel=kernel, length_scales=[(0.005, 0.5)] * 3, exclude_label=False, seed=seed
        )
        one, two = features(records)
        found.append(((one - two) ** 2).sum())
    error = np.abs(np.array(found) - np.mean(found)).mean()
    assert 0.25 <= error / random_feature_error(25) <= 1


def test_what_a_truncation_loses_can_be_lost():
    """Two tables of one record each, with opposite features where the series is cut."""
    kept, left = np.array([0.6]), np.array([0.8])
    one, two = np.concatenate([kept, left]), np.concatenate([kept, -left])
    lost = ((one - two) ** 2).sum() - ((one[:1] - two[:1]) ** 2).sum()
    assert lost == pytest.approx(truncation_error(1 - kept @ kept), rel=1e-12)
