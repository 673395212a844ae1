"""Neighbours of public images in the space of features; colour turned to grey."""

import numpy as np
import pytest
import torch

from noisegate.errors import OptionError
from noisegate_papers.contrib.pretraining import decoder
from noisegate_papers.contrib.pretraining.decoder import instances_of
from noisegate_papers.contrib.pretraining.images import grey


class Directions:
    """The mean red and green of an image, as a unit vector."""

    dim, norm, nonnegative = 2, 1.0, True

    def __call__(self, records):
        assert records.numeric.max() <= 1
        means = records.numeric.reshape(len(records), -1, 3)[:, :, :2].mean(axis=1)
        return (means / np.linalg.norm(means, axis=1, keepdims=True)).astype(np.float32)


def test_neighbours_are_the_nearest_features_and_the_image_itself_the_first(monkeypatch):
    monkeypatch.setattr(decoder, "_BLOCK", 3)
    angles = np.deg2rad([0, 40, 5, 90, 80])
    pixels = np.zeros((5, 4, 4, 3))
    pixels[..., 0], pixels[..., 1] = 255 * np.cos(angles)[:, None, None], 255 * np.sin(angles)[:, None, None]
    found = instances_of(pixels.astype(np.uint8), Directions(), neighbours=2)
    assert found.neighbours.tolist() == [[0, 2], [1, 2], [2, 0], [3, 4], [4, 3]]
    torch.testing.assert_close(found.features.norm(dim=1), torch.ones(5))
    assert found.pixels.shape == (5, 4, 4, 3)
    with pytest.raises(OptionError, match="neighbours=6 of 5 images"):
        instances_of(pixels.astype(np.uint8), Directions(), neighbours=6)


def test_grey_weighs_the_colours():
    pixels = np.zeros((2, 1, 2, 3), dtype=np.uint8)
    pixels[0, 0, 0], pixels[0, 0, 1], pixels[1] = (255, 0, 0), (0, 255, 0), 200
    assert grey(pixels).tolist() == [[[[76], [150]]], [[[200], [200]]]]
