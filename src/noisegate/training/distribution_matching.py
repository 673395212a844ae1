"""A few images moved until networks see in them, on average, what they see in many: distribution matching.

Zhao and Bilen (WACV 2023), https://arxiv.org/abs/2110.04181: each step takes a network with fresh weights, and moves
the images of each class against the squared distance of their mean features from those of other images of the class.
Where the others are draws from a released model, so is all that comes of it, and no budget is spent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

Features: TypeAlias = Callable[[Tensor], Tensor]

DRAWS = 128
"""Images of each class in a step."""
_LEARNING_RATE, _MOMENTUM, _DECAY = 0.5, 0.5, 0.95


def matched_images(
    images: Float[Tensor, "classes each pixels"],
    draw: Callable[[int], Float[Tensor, "classes draws pixels"]],
    features_of: Callable[[int], Features],
    *,
    steps: int,
) -> Float[Tensor, "classes each pixels"]:
    """Returns the average over the steps of images in [0, 1] that start as `images`.

    Args:
        images: Where they start, (classes, each, pixels).
        draw: Returns so many images of each class to compare with, (classes, draws, pixels).
        features_of: Returns what the network of a step sees in rows of pixels.
        steps: How many; 0 returns the images.
    """
    moved, velocity, average = images.clone(), torch.zeros_like(images), images.clone()
    for step in range(steps):
        features = features_of(step)
        with torch.no_grad():
            wanted = _mean_features(features, draw(DRAWS))
        points = moved.detach().requires_grad_()
        distance = (_mean_features(features, points) - wanted).square().sum()
        velocity = _MOMENTUM * velocity + torch.autograd.grad(distance, points)[0]
        moved = (moved - _LEARNING_RATE * velocity).clamp(0, 1)
        average.lerp_(moved, 1 - min(_DECAY, (step + 1) / (step + 10)))
    return average


def _mean_features(features: Features, images: Float[Tensor, "classes rows pixels"]) -> Float[Tensor, "classes _"]:
    """Returns the mean over the images of each class of all that a network gives, in one row a class."""
    seen = features(images.flatten(0, 1))
    return seen.flatten(1).reshape(*images.shape[:2], -1).mean(dim=1)
