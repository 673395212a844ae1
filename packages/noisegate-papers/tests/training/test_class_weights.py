"""One network for all classes: where one that gives every class the same settles shows what each class weighs."""

import numpy as np
import pytest
import torch
from torch import nn

from noisegate.queries.feature_map import RowForm
from noisegate_images.models.generator import Generator
from noisegate_images.training.fit import FitSettings
from noisegate_images.training.moment_matching import HalvesMatching
from noisegate_images.training.target import Target, class_weights
from noisegate_papers.training.perceptual_matching import (
    MovingAverage,
    PerceptualMatching,
    SumProductFactors,
    Validation,
)
from noisegate_papers.training.schedules import PerceptualFitSettings

CPU = torch.device("cpu")
MEANS = np.array([[1.0, 0.0, -1.0], [-0.5, 0.5, 0.5]])
RECORDS = np.array([900.0, 100.0])


def same():
    return RowForm(lambda constants, points: points.T)


class Points(Generator):
    """Gives noise around one point, whatever the label, or around a point of its own for each."""

    def __init__(self, size=3, std=0.01, labels=1):
        super().__init__()
        self.points, self.std = nn.Parameter(torch.zeros(labels, size)), std

    def noise(self, rows, random):
        return self.std * torch.randn(rows, self.points.shape[1], generator=random)

    def forward(self, noise, labels):
        return noise + self.points[labels % len(self.points)]


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
    return HalvesMatching(
        Points(),
        target(noise),
        {"a": same(), "b": same()},
        settings,
        seed=0,
        device=CPU,
    )


def by_moments(noise, power, loss="squared"):
    options = (
        {"average_rate": 0.05, "average_reduction": "sum"}
        if loss == "moving-average"
        else {}
    )
    settings = PerceptualFitSettings(
        steps=400,
        batch=16,
        learning_rate=0.05,
        ema_decay=0.9,
        class_power=power,
        loss=loss,
        check_batches=2,
        **options,
    )
    embeddings = {"a": same(), "b": same()}
    return PerceptualMatching(
        Points(),
        target(noise),
        embeddings,
        settings,
        validation=None,
        seed=0,
        device=CPU,
    )


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
    np.testing.assert_allclose(
        fit.average.points[0].numpy(),
        np.average(MEANS, axis=0, weights=expected),
        atol=0.02,
    )


def test_the_halves_apart_and_the_moving_average_weigh_alike():
    for fit in (
        by_loop(0.01, None, apart=True),
        by_moments(0.01, None, loss="moving-average"),
    ):
        fit.run()
        np.testing.assert_allclose(
            fit.average.points[0].numpy(), MEANS.mean(axis=0), atol=0.1
        )


def test_the_discrepancy_does_not_depend_on_how_classes_are_weighed():
    squares = np.square(MEANS * (RECORDS / 3.0)[:, None]).mean()
    for make in (by_loop, by_moments):
        for power in (None, 1.0):
            assert make(3.0, power).measure().value == pytest.approx(
                squares * (1 + 1 / 4) / 2, rel=0.05
            )


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
            name: length * DIM**-0.5 * directions
            + std[:, None] * random.normal(size=directions.shape)
            for name in blocks
        },
        noise_std=dict.fromkeys(blocks, std),
        weights=records / records.sum(),
        records=float(records.sum()),
    )


def test_a_class_that_the_noise_drowns_weighs_by_its_noise():
    found = of_length([10_000, 10, 20], noise=50.0)
    weights = (
        class_weights(found, None) / found.noise_std["a"] ** 2
    )  # of squared residuals of means
    assert weights[1] / weights[0] < 1e-3
    # Between two drowned ones the noise decides: half the records are a quarter of the precision.
    assert weights[1] / weights[2] == pytest.approx(1 / 4, rel=0.01)


def test_weights_are_the_inverse_of_noise_and_misfit():
    records, noise = np.array([4000.0, 1000.0, 50.0]), 2.0
    found = of_length(records, noise=noise, length=0.7)
    snr = (0.7 * records / noise) ** 2 / DIM
    expected = 1 / (1 + 0.03 * snr)
    np.testing.assert_allclose(
        class_weights(found, None), expected / expected.max(), rtol=0.02
    )


def test_classes_without_weight_are_left_out():
    found = of_length([300, 0, 100], noise=0.1)
    assert found.present.tolist() == [0, 2]
    for power in (None, -4.0, 1.0):
        weights = class_weights(found, power)
        assert weights.shape == (2,)
        assert np.isfinite(weights).all()


# DP-HP's weight of the product kernel, and products matched in turn: where one point settles says what each weighs.

SUM, FIRST, SECOND = np.array([[1.0]]), np.array([[4.0]]), np.array([[-2.0]])


def matching(
    gamma, *, in_turn=False, apart=False, blocks=("sum", "one", "two"), steps=200
):
    means = {"sum": SUM, "one": FIRST, "two": SECOND}
    # The products have other noise than the sum kernel: γ must not depend on it.
    stds = {"sum": np.array([0.01]), "one": np.array([0.05]), "two": np.array([0.02])}
    target = Target(
        means={name: means[name] for name in blocks},
        noise_std={name: stds[name] for name in blocks},
        weights=np.ones(1),
        records=100.0,
    )
    settings = FitSettings(
        steps=steps,
        batch=16,
        learning_rate=0.1,
        ema_decay=0.9,
        stop_at_noise=False,
        independent_halves=apart,
    )
    forms = {name: same() for name in blocks}
    return HalvesMatching(
        Points(1, std=1e-3),
        target,
        forms,
        settings,
        seed=0,
        device=torch.device("cpu"),
        block_factors=SumProductFactors(sum_block="sum", gamma=gamma, in_turn=in_turn),
    )


def settled(*arguments, **options):
    fit = matching(*arguments, **options)
    fit.run()
    return float(fit.average.points)


@pytest.mark.parametrize(("gamma", "apart"), [(0.1, False), (5.0, False), (1.0, True)])
def test_gamma_is_the_weight_of_the_products_whatever_their_noise(gamma, apart):
    expected = (1.0 + gamma / 2 * (4.0 - 2.0)) / (1 + gamma)
    assert settled(gamma, apart=apart) == pytest.approx(expected, abs=0.02)


def test_without_gamma_each_block_weighs_by_its_noise():
    precisions = np.array([0.01, 0.05, 0.02]) ** -2
    assert settled(None) == pytest.approx(
        np.average([1.0, 4.0, -2.0], weights=precisions), abs=0.02
    )


def test_matched_in_turn_the_last_product_is_the_one_that_is_met():
    assert settled(1.0, in_turn=True, steps=400) == pytest.approx(
        (1.0 - 2.0) / 2, abs=0.2
    )


def test_the_distance_that_is_reported_is_of_all_blocks_whatever_the_loss():
    for options in ({"gamma": 5.0, "in_turn": True}, {"gamma": None}):
        measured = matching(**options).measure()
        squares = [(1.0 / 0.01) ** 2, (4.0 / 0.05) ** 2, (2.0 / 0.02) ** 2]
        assert measured.value == pytest.approx(np.mean(squares), rel=0.01)


# The loop of DP-MEPF: both losses reach a target, early stopping keeps the closest, and a kept fit goes on exactly.


PERCEPTUAL_MATCHING_MEANS = np.array([[1.0, 0.0, -1.0], [0.5, 0.5, 0.5]])


def fitting(validation=None, **options):
    settings = {
        "steps": 300,
        "batch": 16,
        "learning_rate": 0.05,
        "check_every": 50,
        "check_batches": 4,
        **options,
    }
    means, noise = {"q": PERCEPTUAL_MATCHING_MEANS}, {"q": np.full(2, 0.01)}
    target = Target(
        means=means, noise_std=noise, weights=np.array([0.75, 0.25]), records=100.0
    )
    start, named = (
        Points(std=0.1, labels=2),
        {"validation": validation, "seed": 0, "device": CPU},
    )
    return PerceptualMatching(
        start, target, {"q": same()}, PerceptualFitSettings(**settings), **named
    )


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "squared"},
        {"loss": "squared", "schedule": "constant", "ema_decay": 0.9},
        {
            "loss": "moving-average",
            "average_rate": 0.05,
            "average_reduction": "sum",
            "steps": 600,
        },
    ],
)
def test_both_losses_reach_the_target(options):
    fit = fitting(**options)
    fit.run()
    np.testing.assert_allclose(
        fit.average.points.numpy(), PERCEPTUAL_MATCHING_MEANS, atol=0.15
    )


def test_the_moving_average_is_adams_of_the_gap():
    """By hand: Adam's first step is its rate against the sign of the gradient, damped where that is near ε."""
    gap = torch.tensor([[2.0], [-3.0]])
    for reduction, divisor in (("sum", 1), ("mean", 2)):
        settings = PerceptualFitSettings(
            average_rate=0.01, average_eps=0.5, average_reduction=reduction
        )
        average = MovingAverage(2, 1, settings, torch.Generator().manual_seed(0), CPU)
        start = average.value.clone()
        assert float(start.abs().max()) <= 2**-0.5
        slope = 2 * (start - gap) / divisor
        expected = start - 0.01 * slope / (slope.abs() + 0.5)
        torch.testing.assert_close(average.update(gap), expected)
    for _ in range(3000):
        average.update(gap)
    torch.testing.assert_close(average.value, gap, atol=0.1, rtol=0)


def validation(means, weights=(0.75, 0.25), images=2000):
    return Validation(
        means={"q": np.asarray(means)},
        embeddings={"q": same()},
        weights=np.array(weights),
        images=images,
    )


def test_the_distance_is_to_the_mean_over_all_records():
    generator = Points(std=0.1, labels=2)
    generator.points.data = torch.from_numpy(PERCEPTUAL_MATCHING_MEANS).float()
    whole = np.average(PERCEPTUAL_MATCHING_MEANS, axis=0, weights=[0.75, 0.25])
    random = torch.Generator().manual_seed(0)
    assert validation(whole).distance(generator, random, CPU) < 0.005
    assert validation(whole + np.array([0, 2, 0])).distance(
        generator, random, CPU
    ) == pytest.approx(4, rel=0.05)
    assert validation(whole, (0.25, 0.75)).distance(generator, random, CPU) > 0.1


@pytest.mark.parametrize("images", [1, 500, 501, 1200])
def test_every_image_counts_once_in_the_distance(images):
    """They are made in blocks: with the same image over and over, the mean is that image at every number of them."""
    generator = Points(std=0.1, labels=2)
    generator.points.data = torch.from_numpy(PERCEPTUAL_MATCHING_MEANS).float()
    generator.noise = lambda rows, random: torch.zeros(rows, 3)
    compared = validation(
        PERCEPTUAL_MATCHING_MEANS[1] + np.array([0, 1, 0]), (0.0, 1.0), images
    )
    found = compared.distance(generator, torch.Generator().manual_seed(0), CPU)
    assert found == pytest.approx(1, abs=1e-5)


def test_the_generator_that_came_closest_is_kept():
    """On its way from 0 to the target it passes half of it."""
    half = np.average(PERCEPTUAL_MATCHING_MEANS, axis=0, weights=[0.75, 0.25]) / 2
    fit = fitting(
        validation(half),
        ema_decay=0.0,
        schedule="constant",
        check_every=1,
        steps=120,
        learning_rate=0.02,
    )
    fit.run()
    last = fitting(
        ema_decay=0.0, schedule="constant", check_every=1, steps=120, learning_rate=0.02
    )
    last.run()
    assert (
        np.abs(last.average.points[0].numpy() - PERCEPTUAL_MATCHING_MEANS[0]).max()
        < 0.15
    )
    assert 0.3 < float(fit.average.points[0, 0]) < 0.7
    assert fit.closest < 0.05


@pytest.mark.parametrize("loss", ["squared", "moving-average"])
def test_a_kept_fit_goes_on_with_the_same_bits(loss):
    options = {"steps": 12, "check_every": 4, "loss": loss}
    whole, first, second = (
        fitting(validation(PERCEPTUAL_MATCHING_MEANS[0]), **options) for _ in range(3)
    )
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
