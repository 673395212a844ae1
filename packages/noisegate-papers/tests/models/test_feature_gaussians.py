"""Gaussian features: the moments that are asked for, length 1, each label its own, and saved ones."""

import numpy as np
import pytest
import torch

from noisegate_papers.features.transforms import random_axes
from noisegate_papers.models.decoded import FeatureGaussians

FAR = FeatureGaussians(means=np.array([[3.0, 0.0], [0.0, 4.0]]), roots=np.array([[0.3, 0.1], [0.2, 0.4]]))


def drawn(source, labels, seed=0):
    return source.draw(torch.as_tensor(labels), torch.Generator().manual_seed(seed)).numpy()


def test_features_have_length_1_and_each_label_its_own():
    found = drawn(FAR, [0, 1] * 500)
    assert found.dtype == np.float32
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(1000), abs=1e-6)
    # Far from 0, the angle of a draw is its sideways part over the mean's length.
    assert found[0::2, 1].std() == pytest.approx(0.1 / 3, rel=0.15)
    assert found[1::2, 0].std() == pytest.approx(0.2 / 4, rel=0.15)


def test_a_full_root_gives_the_covariance():
    axes, spread = random_axes(4, 2, seed=0), np.array([[0.3, 0.1], [0.1, 0.2]])
    source = FeatureGaussians(means=np.array([[20.0, 0.0]]), roots=spread[None], axes=axes)
    found = drawn(source, [0] * 20_000) @ axes
    covariance = np.cov(found[:, 1] / found[:, 0] * 20)
    assert covariance == pytest.approx((spread @ spread.T)[1, 1], rel=0.1)
    assert source.features == 4


def test_what_is_below_0_is_0_where_features_have_no_sign():
    source = FeatureGaussians(means=np.zeros((1, 8)), roots=np.ones((1, 8)), nonnegative=True)
    found = drawn(source, [0] * 200)
    assert found.min() == 0
    assert 0.4 < (found == 0).mean() < 0.6
