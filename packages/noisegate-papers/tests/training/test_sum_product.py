"""DP-HP's weight of the product kernel, and products matched in turn: where one point settles says what each weighs."""

import numpy as np
import pytest
import torch

from noisegate.features.feature_map import RowForm
from noisegate_images.training.fit import FitSettings
from noisegate_images.training.moment_matching import Target
from noisegate_papers.training.perceptual_matching import SumProductMatching

from .test_class_weights import OnePoint

SUM, FIRST, SECOND = np.array([[1.0]]), np.array([[4.0]]), np.array([[-2.0]])


def matching(gamma, *, in_turn=False, apart=False, blocks=("sum", "one", "two"), steps=200):
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
        steps=steps, batch=16, learning_rate=0.1, ema_decay=0.9, stop_at_noise=False, independent_halves=apart
    )
    same = {name: RowForm(lambda constants, points: points.T) for name in blocks}
    named = {"sum_block": "sum", "gamma": gamma, "in_turn": in_turn, "seed": 0, "device": torch.device("cpu")}
    return SumProductMatching(OnePoint(1, std=1e-3), target, same, settings, **named)


def settled(*arguments, **options):
    fit = matching(*arguments, **options)
    fit.run()
    return float(fit.average.point)


@pytest.mark.parametrize(("gamma", "apart"), [(0.1, False), (5.0, False), (1.0, True)])
def test_gamma_is_the_weight_of_the_products_whatever_their_noise(gamma, apart):
    expected = (1.0 + gamma / 2 * (4.0 - 2.0)) / (1 + gamma)
    assert settled(gamma, apart=apart) == pytest.approx(expected, abs=0.02)


def test_without_gamma_each_block_weighs_by_its_noise():
    precisions = np.array([0.01, 0.05, 0.02]) ** -2
    assert settled(None) == pytest.approx(np.average([1.0, 4.0, -2.0], weights=precisions), abs=0.02)


def test_matched_in_turn_the_last_product_is_the_one_that_is_met():
    assert settled(1.0, in_turn=True, steps=400) == pytest.approx((1.0 - 2.0) / 2, abs=0.2)


def test_the_distance_that_is_reported_is_of_all_blocks_whatever_the_loss():
    for options in ({"gamma": 5.0, "in_turn": True}, {"gamma": None}):
        measured = matching(**options).measure()
        squares = [(1.0 / 0.01) ** 2, (4.0 / 0.05) ** 2, (2.0 / 0.02) ** 2]
        assert measured.value == pytest.approx(np.mean(squares), rel=0.01)
