"""The Fréchet distance against closed forms of Gaussians and against its definition."""

import numpy as np
import pytest
from scipy.linalg import sqrtm

from noisegate.errors import DataError
from noisegate.evaluation.metrics.frechet import frechet_distance, moments_distance


def gaussian(seed, rows=300, dim=6):
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, dim)) @ random.normal(size=(dim, dim)) + random.normal(size=dim)


def test_known_gaussians():
    """Between N(m, A²) and N(0, B²) with A and B diagonal: ‖m‖² + Σ (a − b)²."""
    ours = np.array([3.0, 4.0]), np.diag([4.0, 9.0])
    theirs = np.zeros(2), np.diag([1.0, 25.0])
    assert moments_distance(ours, theirs) == pytest.approx(25 + (2 - 1) ** 2 + (3 - 5) ** 2)


def test_the_definition_with_a_matrix_root():
    ours, theirs = gaussian(0), gaussian(1, rows=200)
    first, second = np.cov(ours, rowvar=False), np.cov(theirs, rowvar=False)
    naive = np.square(ours.mean(0) - theirs.mean(0)).sum() + np.trace(first + second - 2 * sqrtm(first @ second).real)
    assert frechet_distance(ours, theirs) == pytest.approx(naive, rel=1e-9)
    assert frechet_distance(theirs, ours) == pytest.approx(naive, rel=1e-9)


def test_equal_sets_are_not_apart_and_a_shift_is_its_square():
    rows = gaussian(2)
    assert frechet_distance(rows, rows[::-1]) == pytest.approx(0, abs=1e-6)
    assert frechet_distance(rows + 2.0, rows) == pytest.approx(4 * rows.shape[1])


def test_more_features_than_images_are_no_trouble():
    random = np.random.default_rng(3)
    ours, theirs = random.normal(size=(5, 40)), random.normal(size=(6, 40))
    # tr (C₁C₂)^½ is the nuclear norm of A Bᵀ for centred rows A and B, over the roots of n - 1.
    centred = [(rows - rows.mean(0)) / np.sqrt(len(rows) - 1) for rows in (ours, theirs)]
    nuclear = np.linalg.svd(centred[0] @ centred[1].T, compute_uv=False).sum()
    spread = sum(np.square(rows).sum() for rows in centred)
    expected = np.square(ours.mean(0) - theirs.mean(0)).sum() + spread - 2 * nuclear
    assert frechet_distance(ours, theirs) == pytest.approx(expected)


def test_one_feature_and_single_precision():
    rows = np.arange(6, dtype=np.float32)[:, None]
    assert frechet_distance(3 * rows, rows) == pytest.approx(5.0**2 + (2 * rows.std(ddof=1)) ** 2)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros((1, 6)), r"a set has 1 image\(s\)"),
        (np.zeros((9, 5)), "6 features, another 5"),
        (np.full((9, 6), np.nan), "nan"),
        (np.zeros(6), r"shape \(6,\)"),
    ],
)
def test_features_that_cannot_be_compared_are_named(features, message):
    with pytest.raises(DataError, match=message):
        frechet_distance(gaussian(0), features)
