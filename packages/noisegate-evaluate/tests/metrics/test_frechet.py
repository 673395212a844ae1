"""The Fréchet distance against closed forms of Gaussians and against its definition."""

import numpy as np
import pytest
from scipy.linalg import sqrtm

from noisegate_evaluate.metrics.frechet import frechet_distance


def gaussian(seed, rows=300, dim=6):
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, dim)) @ random.normal(
        size=(dim, dim)
    ) + random.normal(size=dim)


def test_the_definition_with_a_matrix_root():
    ours = gaussian(0)
    theirs = gaussian(1, rows=200)
    first = np.cov(ours, rowvar=False)
    second = np.cov(theirs, rowvar=False)
    naive = np.square(ours.mean(0) - theirs.mean(0)).sum() + np.trace(
        first + second - 2 * sqrtm(first @ second).real
    )
    assert frechet_distance(ours, theirs) == pytest.approx(naive, rel=1e-9)
    assert frechet_distance(theirs, ours) == pytest.approx(naive, rel=1e-9)


def test_more_features_than_images_are_no_trouble():
    random = np.random.default_rng(3)
    ours = random.normal(size=(5, 40))
    theirs = random.normal(size=(6, 40))
    # tr (C₁C₂)^½ is the nuclear norm of A Bᵀ for centred rows A and B, over the roots of n - 1.
    centred = [
        (rows - rows.mean(0)) / np.sqrt(len(rows) - 1) for rows in (ours, theirs)
    ]
    nuclear = np.linalg.svd(centred[0] @ centred[1].T, compute_uv=False).sum()
    spread = sum(np.square(rows).sum() for rows in centred)
    expected = np.square(ours.mean(0) - theirs.mean(0)).sum() + spread - 2 * nuclear
    assert frechet_distance(ours, theirs) == pytest.approx(expected)
