"""Perceptual features of generated points are those of records, differentiable, and computed once for both moments."""

from typing import ClassVar

import pytest
import torch
from torch import nn

from noisegate.schema.pixels import ImageShape
from noisegate_images.features.perceptual import Activations, Perceptual
from noisegate_images.networks.named import ChosenLayers

SHAPE = ImageShape(height=6, width=5)


class Counting(nn.Module):
    """Counts its calls, wherever it is copied to."""

    calls: ClassVar[list[int]] = []

    def forward(self, images):
        self.calls.append(len(images))
        return images


@pytest.fixture
def maps():
    torch.manual_seed(0)
    network = nn.Sequential(Counting(), nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Conv2d(4, 3, 3))
    activations = Activations(layers=ChosenLayers(network, ("1", "3"), SHAPE))
    Counting.calls.clear()
    return {f"m{moment}": Perceptual(activations=activations, moment=moment) for moment in (1, 2)}


def points(rows=6):
    return torch.rand(rows, SHAPE.size, generator=torch.Generator().manual_seed(1))


def test_means_are_those_of_each_set(maps):
    for embedding in (each.of_points() for each in maps.values()):
        features = embedding(points())
        expected = torch.stack([features[:, :3].mean(dim=1), features[:, 3:].mean(dim=1)], dim=1)
        torch.testing.assert_close(embedding.means(points(), 2), expected)


def test_slopes_are_right(maps):
    embedding = maps["m2"].of_points().to(torch.float64)
    made = points(2).double()

    def feature(values):
        return embedding.means(values.clone(), 1)[:4, 0]

    slopes = torch.autograd.functional.jacobian(feature, made)[:, 0, :5]
    step = 1e-2
    found = torch.stack(
        [(feature(made + step * bump) - feature(made - step * bump)) / (2 * step) for bump in _bumps(made, 5)], dim=1
    )
    torch.testing.assert_close(slopes.double(), found.double(), rtol=0.05, atol=5e-3)


def _bumps(made, count):
    for place in range(count):
        bump = torch.zeros_like(made)
        bump[0, place] = 1
        yield bump
