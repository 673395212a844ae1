"""A few images matched to many by features: they come nearer to what is drawn, within their bounds."""

import pytest
import torch

from noisegate_papers.training.image_gaussians import matched_images


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
    torch.testing.assert_close(found[1] - found[1].mean(dim=0), start[1] - start[1].mean(dim=0), atol=0.2, rtol=0)


@pytest.mark.parametrize("steps", [0, 3])
def test_images_stay_within_their_bounds_and_those_given_as_they_are(steps):
    start = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(1))
    kept = start.clone()
    found = matched_images(start, lambda many: 5 * draw(many), features_of, steps=steps)
    assert torch.equal(start, kept) and found.min() >= 0 and found.max() <= 1
    assert torch.equal(found, start) == (steps == 0)
