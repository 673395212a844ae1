import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "dp_hp"))

from mixture_likelihood import LabelledMixture, coverage, negative_log_likelihood


def grid(deviation=0.2):
    """The example of the papers: 5 x 5 modes, five of each of five labels."""
    places = np.array([(x, y) for x in range(5) for y in range(5)], dtype=np.float64)
    labels = np.array([(x + y) % 5 for x in range(5) for y in range(5)])
    return LabelledMixture(means=places, labels=labels, deviation=deviation)


def draw(mixture, each, seed=0):
    generator = np.random.default_rng(seed)
    modes = np.repeat(np.arange(len(mixture.means)), each)
    noise = generator.normal(size=(len(modes), mixture.means.shape[1]))
    return mixture.means[modes] + mixture.deviation * noise, mixture.labels[modes]


ONE = LabelledMixture(means=np.zeros((1, 2)), labels=np.array([7]), deviation=0.5)


def test_one_mode_is_a_gaussian():
    samples, labels = np.array([[0.0, 0.0], [0.5, 1.0]]), np.array([7, 7])
    at_mean = math.log(2 * math.pi * 0.25)
    assert negative_log_likelihood(samples[:1], labels[:1], ONE) == pytest.approx(at_mean)
    both = 2 * at_mean + 1.25 / (2 * 0.25)
    assert negative_log_likelihood(samples, labels, ONE, reduce="sum") == pytest.approx(both)
    assert negative_log_likelihood(samples, labels, ONE) == pytest.approx(both / 2)


def test_samples_of_the_mixture_have_its_entropy():
    mixture = grid()
    # Modes of one label are five standard deviations apart and more: they hardly overlap.
    entropy = math.log(25) + math.log(2 * math.pi * 0.04) + 1
    found = negative_log_likelihood(*draw(mixture, 4_000), mixture)
    # The standard error is 1/sqrt(100,000) = 0.003.
    assert found == pytest.approx(entropy, abs=0.02)


def test_the_mixture_covers_itself_and_each_mode_fully():
    found = coverage(*draw(grid(), 2_000), grid())
    assert (found.covered, found.modes) == (25, 25)
    # In the plane 98.9 % of a Gaussian lie within three standard deviations.
    np.testing.assert_allclose(found.shares, 1.0, atol=0.02)
