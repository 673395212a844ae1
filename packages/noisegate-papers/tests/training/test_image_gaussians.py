"""Gaussians of small images by noisy moments: exact ones give mean and covariance, loud ones the mean alone."""

import numpy as np
import pytest
import torch

from noisegate.records import Rows
from noisegate.schema.pixels import ImageShape
from noisegate_papers.queries.thumbnails import Thumbnails
from noisegate_papers.queries.transforms import OuterProducts
from noisegate_papers.training.gaussians import image_gaussians, matched_images

SMALL = Thumbnails(image=ImageShape(height=8, width=8), side=2, lead=1.0)


def sums(images):
    """The exact sums of one class, (1, entries)."""
    records = Rows(images, np.zeros((len(images), 1), np.int32))
    return OuterProducts(of=SMALL)(records).astype(np.float64).sum(axis=0)[None]


@pytest.fixture
def images():
    random = np.random.default_rng(0)
    return np.clip(
        0.5
        + 0.15 * random.standard_normal((500, 3)) @ random.standard_normal((3, 64)) / 2,
        0,
        1,
    )


def test_moments_are_those_of_the_small_images(images):
    found = image_gaussians(sums(images), SMALL, noise_std=1e-9)
    means, roots = found.means, found.roots
    small = SMALL(Rows(images, np.zeros((500, 1), np.int32)))[:, 1:].astype(np.float64)
    np.testing.assert_allclose(means[0], small.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(
        roots[0] @ roots[0].T, np.cov(small.T, bias=True), atol=1e-5
    )


@pytest.mark.parametrize("loud", [False, True])
def test_directions_below_the_noise_are_left_out(images, loud):
    """Without a signal no eigenvalue of the noise is taken for one, and without the rule half of them are."""
    random, size = np.random.default_rng(1), 16
    noise_std = 200.0 if loud else 1e-6
    noise = noise_std * random.standard_normal((1, (size + 1) * (size + 2) // 2))
    noise[:, : size + 1] = 0  # of the number of records and the mean
    roots = image_gaussians(sums(images) + noise, SMALL, noise_std=noise_std).roots
    kept = (np.linalg.norm(roots[0], axis=0) > 0).sum()
    assert kept <= 1 if loud else 3 <= kept < 16


def test_images_are_drawn_class_by_class_in_full_size():
    bright = np.concatenate([sums(np.full((50, 64), level)) for level in (0.2, 0.9)])
    drawn = image_gaussians(bright, SMALL, noise_std=1e-6).draw(
        3, np.random.default_rng(0)
    )
    assert drawn.shape == (2, 3, 64)
    np.testing.assert_allclose(drawn[0], 0.2, atol=1e-3)
    np.testing.assert_allclose(drawn[1], 0.9, atol=1e-3)


# A few images matched to many by features: they come nearer to what is drawn, within their bounds.


def draw(many):
    """Images of two classes, one dark and one bright, of 4 pixels."""
    return torch.tensor([0.2, 0.8])[:, None, None].expand(2, many, 4)


def features_of(step):
    """Random directions, scaled so that a step is no leap."""
    directions = torch.randn(4, 6, generator=torch.Generator().manual_seed(step)) / 6
    return lambda rows: rows @ directions


def test_the_mean_of_a_class_becomes_that_of_its_draws():
    start = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(0))
    found = matched_images(start, draw, features_of, steps=150)
    torch.testing.assert_close(found.mean(dim=1), draw(1)[:, 0], atol=0.03, rtol=0)
    assert (start.mean(dim=1) - draw(1)[:, 0]).abs().max() > 0.1
    # All images of a class are moved alike, so that they stay as different as they were where no bound is met.
    torch.testing.assert_close(
        found[1] - found[1].mean(dim=0),
        start[1] - start[1].mean(dim=0),
        atol=0.2,
        rtol=0,
    )


@pytest.mark.parametrize("steps", [0, 3])
def test_images_stay_within_their_bounds_and_those_given_as_they_are(steps):
    start = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(1))
    kept = start.clone()
    found = matched_images(start, lambda many: 5 * draw(many), features_of, steps=steps)
    assert torch.equal(start, kept) and found.min() >= 0 and found.max() <= 1
    assert torch.equal(found, start) == (steps == 0)
