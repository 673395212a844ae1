"""Pictures of any size for a network of one size: the middle square is taken, and the vectors are a layer."""

import torch
from torch import nn

from noisegate.contrib.encoders import Resized
from noisegate.networks.layers import ChosenLayers
from noisegate.schema.pixels import ImageShape


def test_the_square_in_the_middle_is_resized():
    seen = []
    network = nn.Flatten()
    network.register_forward_hook(lambda module, given, output: seen.append(given[0]))
    resized = Resized(network, 4, mode="bilinear")
    images = torch.zeros(1, 3, 8, 16)
    images[:, :, :, 4:12] = 1
    assert resized(images).shape == (1, 48)
    torch.testing.assert_close(seen[0], torch.ones(1, 3, 4, 4))
    same = torch.rand(1, 3, 4, 4)
    assert torch.equal(resized(same), same.flatten(1))


def test_its_vectors_can_be_chosen_as_a_layer():
    layers = ChosenLayers(
        Resized(nn.Flatten(), 4, mode="bicubic"), ("feature",), ImageShape(height=8, width=8), pool=True
    )
    assert layers.dim == 48
    torch.testing.assert_close(layers(torch.full((2, 64), 0.25)), torch.full((2, 48), 0.25))
