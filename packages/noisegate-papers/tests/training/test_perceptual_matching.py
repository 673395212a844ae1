"""The loop of DP-MEPF: both losses reach a target, early stopping keeps the closest, and a kept fit goes on exactly."""

import numpy as np
import pytest
import torch
from torch import nn

from noisegate.features.feature_map import RowForm
from noisegate_images.models.generator import Generator
from noisegate_images.training.moment_matching import Target
from noisegate_papers.training.perceptual_matching import MovingAverage, PerceptualMatching, Validation
from noisegate_papers.training.schedules import PerceptualFitSettings

CPU = torch.device("cpu")


class Shift(Generator):
    """Gives noise around a point of its own for each label."""

    def __init__(self):
        super().__init__()
        self.points = nn.Parameter(torch.zeros(2, 3))

    def noise(self, rows, random):
        return 0.1 * torch.randn(rows, 3, generator=random)

    def forward(self, noise, labels):
        return noise + self.points[labels]


def same():
    return RowForm(lambda constants, points: points.T)


MEANS = np.array([[1.0, 0.0, -1.0], [0.5, 0.5, 0.5]])


def target(weights=(0.75, 0.25), std=0.01):
    return Target(means={"q": MEANS}, noise_std={"q": np.full(2, std)}, weights=np.array(weights), records=100.0)


def fitting(validation=None, *, std=0.01, **options):
    settings = {"steps": 300, "batch": 16, "learning_rate": 0.05, "check_every": 50, "check_batches": 4, **options}
    settings = PerceptualFitSettings(**settings)
    return PerceptualMatching(
        Shift(), target(std=std), {"q": same()}, settings, validation=validation, seed=0, device=CPU
    )


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "squared"},
        {"loss": "squared", "schedule": "constant", "ema_decay": 0.9},
        {"loss": "moving-average", "average_rate": 0.05, "average_reduction": "sum", "steps": 600},
    ],
)
def test_both_losses_reach_the_target(options):
    fit = fitting(**options)
    fit.run()
    np.testing.assert_allclose(fit.average.points.numpy(), MEANS, atol=0.15)


def test_the_moving_average_is_adams_of_the_gap():
    """By hand: Adam's first step is its rate against the sign of the gradient, damped where that is near ε."""
    gap = torch.tensor([[2.0], [-3.0]])
    for reduction, divisor in (("sum", 1), ("mean", 2)):
        settings = PerceptualFitSettings(average_rate=0.01, average_eps=0.5, average_reduction=reduction)
        average = MovingAverage(2, 1, settings, torch.Generator().manual_seed(0), CPU)
        start = average.value.clone()
        assert float(start.abs().max()) <= 2**-0.5
        slope = 2 * (start - gap) / divisor
        expected = start - 0.01 * slope / (slope.abs() + 0.5)
        torch.testing.assert_close(average.update(gap), expected)
    for _ in range(3000):
        average.update(gap)
    torch.testing.assert_close(average.value, gap, atol=0.1, rtol=0)


def validation(means, weights=(0.75, 0.25)):
    return Validation(means={"q": np.asarray(means)}, embeddings={"q": same()}, weights=np.array(weights), images=2000)


def test_the_distance_is_to_the_mean_over_all_records():
    generator = Shift()
    generator.points.data = torch.from_numpy(MEANS).float()
    whole = np.average(MEANS, axis=0, weights=[0.75, 0.25])
    random = torch.Generator().manual_seed(0)
    assert validation(whole).distance(generator, random, CPU) < 0.005
    assert validation(whole + np.array([0, 2, 0])).distance(generator, random, CPU) == pytest.approx(4, rel=0.05)
    assert validation(whole, (0.25, 0.75)).distance(generator, random, CPU) > 0.1


@pytest.mark.parametrize("images", [1, 500, 501, 1200])
def test_every_image_counts_once_in_the_distance(images):
    """They are made in blocks: with the same image over and over, the mean is that image at every number of them."""
    generator = Shift()
    generator.points.data = torch.from_numpy(MEANS).float()
    generator.noise = lambda rows, random: torch.zeros(rows, 3)
    found = Validation(
        means={"q": MEANS[1] + np.array([0, 1, 0])},
        embeddings={"q": same()},
        weights=np.array([0.0, 1.0]),
        images=images,
    ).distance(generator, torch.Generator().manual_seed(0), CPU)
    assert found == pytest.approx(1, abs=1e-5)


def test_the_generator_that_came_closest_is_kept():
    """On its way from 0 to the target it passes half of it."""
    half = np.average(MEANS, axis=0, weights=[0.75, 0.25]) / 2
    fit = fitting(validation(half), ema_decay=0.0, schedule="constant", check_every=1, steps=120, learning_rate=0.02)
    fit.run()
    last = fitting(ema_decay=0.0, schedule="constant", check_every=1, steps=120, learning_rate=0.02)
    last.run()
    assert np.abs(last.average.points[0].numpy() - MEANS[0]).max() < 0.15
    assert 0.3 < float(fit.average.points[0, 0]) < 0.7
    assert fit.closest < 0.05


@pytest.mark.parametrize("loss", ["squared", "moving-average"])
def test_a_kept_fit_goes_on_with_the_same_bits(loss):
    options = {"steps": 12, "check_every": 4, "loss": loss}
    whole, first, second = (fitting(validation(MEANS[0]), **options) for _ in range(3))
    whole.run()

    def stop(state):
        if state.step == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first.run(stop)
    second.load_state_dict(first.state_dict())
    assert (second.step, second.closest) == (7, first.closest)
    second.run()
    assert torch.equal(second.average.points, whole.average.points)
    assert (second.discrepancy, second.closest) == (whole.discrepancy, whole.closest)
