"""One network for all classes: where one that gives every class the same settles shows what each class weighs."""

import numpy as np
import pytest
import torch
from torch import nn

from noisegate.features.feature_map import RowForm
from noisegate_images.models.generator import Generator
from noisegate_images.training.fit import FitSettings
from noisegate_images.training.moment_matching import HalvesMatching, Target, class_weights
from noisegate_papers.training.perceptual_matching import PerceptualMatching
from noisegate_papers.training.schedules import PerceptualFitSettings

CPU = torch.device("cpu")
MEANS = np.array([[1.0, 0.0, -1.0], [-0.5, 0.5, 0.5]])
RECORDS = np.array([900.0, 100.0])


def same():
    return RowForm(lambda constants, points: points.T)


class OnePoint(Generator):
    """Gives noise around one point, whatever the label."""

    def __init__(self, size=3, std=0.01):
        super().__init__()
        self.point, self.std = nn.Parameter(torch.zeros(size)), std

    def noise(self, rows, random):
        return self.std * torch.randn(rows, len(self.point), generator=random)

    def forward(self, noise, labels):
        return noise + self.point


def target(noise):
    return Target(
        means={"a": MEANS, "b": MEANS},
        noise_std={"a": noise / RECORDS, "b": 2 * noise / RECORDS},
        weights=RECORDS / RECORDS.sum(),
        records=float(RECORDS.sum()),
    )


def by_loop(noise, power, apart=False, batch=16):
    settings = FitSettings(
        steps=150,
        batch=batch,
        learning_rate=0.05,
        stop_at_noise=False,
        class_power=power,
        independent_halves=apart,
        check_batches=3,
    )
    return HalvesMatching(OnePoint(), target(noise), {"a": same(), "b": same()}, settings, seed=0, device=CPU)


def by_moments(noise, power, loss="squared"):
    options = {"average_rate": 0.05, "average_reduction": "sum"} if loss == "moving-average" else {}
    settings = PerceptualFitSettings(
        steps=400, batch=16, learning_rate=0.05, ema_decay=0.9, class_power=power, loss=loss, check_batches=2, **options
    )
    embeddings = {"a": same(), "b": same()}
    return PerceptualMatching(OnePoint(), target(noise), embeddings, settings, validation=None, seed=0, device=CPU)


# Weights of the squared residuals of the two classes' means.
ALIKE, BY_SHARE_SQUARED, BY_SHARE_CUBED = (1.0, 1.0), (0.81, 0.01), (0.729, 0.001)


@pytest.mark.parametrize(
    ("noise", "power", "expected"),
    [
        (0.01, None, ALIKE),
        (1e5, None, BY_SHARE_SQUARED),
        (0.01, -2.0, ALIKE),
        (0.01, 0.0, BY_SHARE_SQUARED),
        (0.01, 1.0, BY_SHARE_CUBED),
    ],
)
@pytest.mark.parametrize("make", [by_loop, by_moments])
def test_a_shared_network_settles_at_the_weighted_mean(make, noise, power, expected):
    fit = make(noise, power)
    fit.run()
    np.testing.assert_allclose(fit.average.point.numpy(), np.average(MEANS, axis=0, weights=expected), atol=0.02)


def test_the_halves_apart_and_the_moving_average_weigh_alike():
    for fit in (by_loop(0.01, None, apart=True), by_moments(0.01, None, loss="moving-average")):
        fit.run()
        np.testing.assert_allclose(fit.average.point.numpy(), MEANS.mean(axis=0), atol=0.1)


def test_the_discrepancy_does_not_depend_on_how_classes_are_weighed():
    squares = np.square(MEANS * (RECORDS / 3.0)[:, None]).mean()
    for make in (by_loop, by_moments):
        for power in (None, 1.0):
            assert make(3.0, power).measure().value == pytest.approx(squares * (1 + 1 / 4) / 2, rel=0.05)


# How classes are weighed: alike where they stand out of the noise, by the noise where it drowns them.

DIM = 40


def of_length(records, *, noise, length=1.0, blocks=("a",)):
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


def test_a_class_that_the_noise_drowns_weighs_by_its_noise():
    found = of_length([10_000, 10, 20], noise=50.0)
    weights = in_means(class_weights(found, None), found)
    assert weights[1] / weights[0] < 1e-3
    # Between two drowned ones the noise decides: half the records are a quarter of the precision.
    assert weights[1] / weights[2] == pytest.approx(1 / 4, rel=0.01)


def test_weights_are_the_inverse_of_noise_and_misfit():
    records, noise = np.array([4000.0, 1000.0, 50.0]), 2.0
    found = of_length(records, noise=noise, length=0.7)
    snr = (0.7 * records / noise) ** 2 / DIM
    expected = 1 / (1 + 0.03 * snr)
    np.testing.assert_allclose(class_weights(found, None), expected / expected.max(), rtol=0.02)


def test_classes_without_weight_are_left_out():
    found = of_length([300, 0, 100], noise=0.1)
    assert found.present.tolist() == [0, 2]
    for power in (None, -4.0, 1.0):
        weights = class_weights(found, power)
        assert weights.shape == (2,)
        assert np.isfinite(weights).all()
