"""How classes are weighed: alike where they stand out of the noise, by the noise where it drowns them."""

import numpy as np
import pytest

from noisegate_images.training.moment_matching import Target, class_weights

DIM = 40


def target(records, *, noise, length=1.0, blocks=("a",)):
    """Means of the same length in every class, released as sums: noise of a mean is that of the sum by the count."""
    records = np.asarray(records, dtype=float)
    random = np.random.default_rng(0)
    std = noise / np.maximum(records, 1)
    directions = random.choice([-1.0, 1.0], (len(records), DIM))
    return Target(
        means={
            name: length * DIM**-0.5 * directions + std[:, None] * random.normal(size=directions.shape)
            for name in blocks
        },
        noise_std=dict.fromkeys(blocks, std),
        weights=records / records.sum(),
        records=float(records.sum()),
    )


def in_means(weights, found):
    """Returns weights of squared residuals of means, from those in noise standard deviations."""
    std = found.noise_std["a"][found.present]
    return weights / std**2


@pytest.mark.parametrize("blocks", [("a",), ("a", "b")])
def test_classes_above_the_noise_weigh_alike_whatever_their_share(blocks):
    found = target([9800, 200], noise=0.01, blocks=blocks)
    alike = in_means(class_weights(found, None), found)
    assert alike[1] / alike[0] == pytest.approx(1, abs=1e-3)


def test_a_class_that_the_noise_drowns_weighs_by_its_noise():
    found = target([10_000, 10, 20], noise=50.0)
    weights = in_means(class_weights(found, None), found)
    assert weights[1] / weights[0] < 1e-3
    # Between two drowned ones the noise decides: half the records are a quarter of the precision.
    assert weights[1] / weights[2] == pytest.approx(1 / 4, rel=0.01)


def test_weights_are_the_inverse_of_noise_and_misfit():
    records, noise = np.array([4000.0, 1000.0, 50.0]), 2.0
    found = target(records, noise=noise, length=0.7)
    snr = (0.7 * records / noise) ** 2 / DIM
    expected = 1 / (1 + 0.03 * snr)
    np.testing.assert_allclose(class_weights(found, None), expected / expected.max(), rtol=0.02)


def test_classes_without_weight_are_left_out():
    found = target([300, 0, 100], noise=0.1)
    assert found.present.tolist() == [0, 2]
    for power in (None, -4.0, 1.0):
        weights = class_weights(found, power)
        assert weights.shape == (2,)
        assert np.isfinite(weights).all()
