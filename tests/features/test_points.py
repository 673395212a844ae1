"""The features of points that an image generator is matched through are those that the gate computes of records."""

import numpy as np
import torch

from noisegate.features.fourier import draw
from noisegate.schema import EncodedTable, pixel_schema

SCHEMA = pixel_schema(6, 6, labels=(0, 1, 2))


def features(**settings):
    return draw(SCHEMA.layout, count=80, length_scales=[(2.0, 2.0)] * 36, exclude_label=True, seed=3, **settings)


def test_fourier_of_points_is_the_private_map():
    for kernel in ("numeric", "pairs"):
        private = features(kernel=kernel)
        points = np.random.default_rng(0).integers(0, 256, (50, 36)) / 255
        found = private.of_points()(torch.from_numpy(points).float())
        expected = private(EncodedTable(points, np.zeros((50, 1), dtype=np.int32)))
        np.testing.assert_allclose(found.numpy().T, expected, atol=2e-3 * 80**-0.5)


def test_gradients_reach_the_points():
    embedding = features(kernel="numeric").of_points().to(torch.float64)
    points = torch.rand(5, 36, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(embedding, points)
