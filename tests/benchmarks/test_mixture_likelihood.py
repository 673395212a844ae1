import math
import sys
from pathlib import Path

import numpy as np
import pytest

from noisegate.errors import DataError, OptionError

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "dp_hp"))

import mixture_likelihood
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


def test_only_the_modes_of_the_label_count_and_each_weighs_one_over_all():
    means = np.array([[0.0], [2.0], [0.0]])
    mixture = LabelledMixture(means=means, labels=np.array([0, 0, 1]), deviation=1.0)
    normal = 1 / math.sqrt(2 * math.pi)
    for label, density in ((0, normal * (1 + math.exp(-2)) / 3), (1, normal / 3)):
        found = negative_log_likelihood(np.array([[0.0]]), np.array([label]), mixture)
        assert found == pytest.approx(-math.log(density))


def test_samples_of_the_mixture_have_its_entropy():
    mixture = grid()
    # Modes of one label are five standard deviations apart and more: they hardly overlap.
    entropy = math.log(25) + math.log(2 * math.pi * 0.04) + 1
    found = negative_log_likelihood(*draw(mixture, 4_000), mixture)
    # The standard error is 1/sqrt(100,000) = 0.003.
    assert found == pytest.approx(entropy, abs=0.02)


def test_a_wrong_label_is_unlikely_and_one_without_a_mode_impossible():
    mixture = grid()
    samples, labels = draw(mixture, 10)
    right = negative_log_likelihood(samples, labels, mixture)
    assert negative_log_likelihood(samples, (labels + 1) % 5, mixture) > right + 5
    assert negative_log_likelihood(samples, np.full_like(labels, 9), mixture) == math.inf


def test_far_samples_do_not_underflow():
    found = negative_log_likelihood(np.array([[1e6, 0.0]]), np.array([7]), ONE)
    assert found == pytest.approx(1e12 / 0.5, rel=1e-6)


def test_batches_do_not_matter(monkeypatch):
    mixture = grid()
    samples, labels = draw(mixture, 20)
    whole = negative_log_likelihood(samples, labels, mixture), coverage(samples, labels, mixture).shares
    monkeypatch.setattr(mixture_likelihood, "_BATCH", 7)
    assert negative_log_likelihood(samples, labels, mixture) == pytest.approx(whole[0])
    np.testing.assert_array_equal(coverage(samples, labels, mixture).shares, whole[1])


def test_the_mixture_covers_itself_and_each_mode_fully():
    found = coverage(*draw(grid(), 2_000), grid())
    assert (found.covered, found.modes) == (25, 25)
    # In the plane 98.9 % of a Gaussian lie within three standard deviations.
    np.testing.assert_allclose(found.shares, 1.0, atol=0.02)


def test_a_mode_is_covered_from_a_share_of_its_expected_samples():
    mixture = LabelledMixture(means=np.array([[0.0], [100.0]]), labels=np.array([0, 0]), deviation=1.0)
    # 1,000 samples: 500 expected for each mode, of which 99.73 % within three standard deviations.
    ball = math.erf(3 / math.sqrt(2))
    samples = np.repeat([[0.0], [100.0]], [900, 100], axis=0)
    found = coverage(samples, np.zeros(1_000, dtype=int), mixture)
    np.testing.assert_allclose(found.shares, [1.8 / ball, 0.2 / ball])
    assert found.covered == 2
    assert coverage(samples, np.zeros(1_000, dtype=int), mixture, least=0.21).covered == 1


def test_samples_of_another_label_or_beyond_three_deviations_cover_nothing():
    mixture = grid()
    side = np.array([mixture.deviation, 0.0])
    assert coverage(mixture.means, (mixture.labels + 1) % 5, mixture).covered == 0
    assert coverage(mixture.means + 3.01 * side, mixture.labels, mixture).covered == 0
    assert coverage(mixture.means + 2.99 * side, mixture.labels, mixture).covered == 25


@pytest.mark.parametrize("dimensions", [1, 2, 3, 8])
def test_the_ball_holds_the_share_that_is_drawn_into_it(dimensions):
    drawn = np.random.default_rng(0).normal(size=(50_000, dimensions))
    share = (np.square(drawn).sum(axis=1) <= 9).mean()
    # Four standard errors are below 0.009.
    assert mixture_likelihood._ball(3.0, dimensions) == pytest.approx(share, abs=0.009)


def test_what_does_not_fit_is_refused():
    samples, labels = np.zeros((3, 2)), np.zeros(3, dtype=int)
    for bad in ((samples[:, :1], labels), (samples, labels[:2]), (samples[:0], labels[:0])):
        with pytest.raises(DataError, match="do not fit"):
            negative_log_likelihood(*bad, ONE)
        with pytest.raises(DataError, match="do not fit"):
            coverage(*bad, ONE)
    with pytest.raises(OptionError, match="'median'"):
        negative_log_likelihood(samples, labels, ONE, reduce="median")
    with pytest.raises(OptionError, match="least"):
        coverage(samples, labels, ONE, least=0.0)
    with pytest.raises(OptionError, match="deviation"):
        LabelledMixture(means=np.zeros((1, 2)), labels=np.array([0]), deviation=0.0)
    with pytest.raises(OptionError, match="at least one mode"):
        LabelledMixture(means=np.zeros((0, 2)), labels=np.zeros(0), deviation=1.0)
