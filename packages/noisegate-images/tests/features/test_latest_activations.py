import threading

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
    expected = [latest.layers(rows) for rows in points]
    found: dict[int, torch.Tensor] = {}
    meet = threading.Barrier(2)

    def run(place: int) -> None:
        latest(points[place])
        meet.wait(timeout=60)
        found[place] = latest(points[place])
        first = found[place]
        meet.wait(timeout=60)
        assert latest(points[place]) is first

    threads = [threading.Thread(target=run, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for place in range(2):
        torch.testing.assert_close(found[place], expected[place])
