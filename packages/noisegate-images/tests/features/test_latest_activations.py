import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from noisegate.schema.pixels import ImageShape
from noisegate_images.features.perceptual import LatestActivations
from noisegate_images.networks.named import ChosenLayers

SHAPE = ImageShape(height=4, width=4)


def test_two_threads_each_get_what_they_asked_for():
    """The halves of a batch run side by side: the one must not get the other's activations."""
    latest = LatestActivations(ChosenLayers(nn.Sequential(nn.Conv2d(3, 2, 3)), ("0",), SHAPE))
    points = [torch.rand(3, SHAPE.size) for _ in range(2)]
    meet = threading.Barrier(2)

    def run(rows: torch.Tensor) -> torch.Tensor:
        latest(rows)
        meet.wait(timeout=60)
        first = latest(rows)
        meet.wait(timeout=60)
        assert latest(rows) is first
        return first

    with ThreadPoolExecutor(2) as pool:
        for found, rows in zip(pool.map(run, points), points, strict=True):
            torch.testing.assert_close(found, latest.layers(rows))
