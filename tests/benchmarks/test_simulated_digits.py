import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from simulated_digits import simulated_digits


@pytest.fixture(scope="module")
def digits():
    return simulated_digits(600, seed=1)


def test_digits_follow_from_the_seed(digits):
    images, labels = simulated_digits(600, seed=1)
    assert np.array_equal(images, digits[0])
    assert np.array_equal(labels, digits[1])
    assert not np.array_equal(simulated_digits(600, seed=2)[0], images)


def test_digits_are_set_like_mnist(digits):
    images, labels = digits
    assert images.dtype == np.uint8
    assert images.shape == (600, 28, 28)
    assert set(labels.tolist()) == set(range(10))
    ink = images / images.sum(axis=(1, 2), keepdims=True)
    axis = np.arange(28) - 13.5
    centre = np.stack([ink.sum(axis=2) @ axis, ink.sum(axis=1) @ axis])
    assert np.abs(centre).max() < 0.75
    assert 0.05 < (images / 255).mean() < 0.25
    assert images.max(axis=(1, 2)).min() > 100  # none is lost


def test_a_digit_looks_like_its_own_kind(digits):
    """The nearest image among others has the same label far more often than by chance, and not always: they vary."""
    images, labels = digits
    flat = images.reshape(len(images), -1) / 255.0
    squares = (flat**2).sum(axis=1)
    distance = squares[:, None] + squares[None] - 2 * flat @ flat.T
    np.fill_diagonal(distance, np.inf)
    assert 0.6 < (labels[distance.argmin(axis=1)] == labels).mean() < 0.99
