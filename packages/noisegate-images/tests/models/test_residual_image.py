"""The residual generator: sizes, its start, and its way through a saved model."""

import torch
from torch import nn

from noisegate.schema.pixels import ImageShape
from noisegate_images.models.image import build_image_generator
from noisegate_images.models.image_network import ImageNetwork

SMALL = ImageNetwork(
    shape=ImageShape(height=12, width=8, channels=3), kind="residual", latent=5, hidden=(), channels=(6, 4, 3)
)


def test_label_and_noise_both_matter_and_the_seed_gives_the_weights():
    one, same = (build_image_generator(SMALL, 2, seed=1).eval() for _ in range(2))
    noise = torch.randn(1, 5)
    made = [one(noise, torch.tensor([label])) for label in (0, 1)] + [one(noise + 1, torch.tensor([0]))]
    assert not torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])
    assert torch.equal(made[0], same(noise, torch.tensor([0])))
    assert all(
        torch.equal(layer.bias, torch.zeros_like(layer.bias)) for layer in one.modules() if isinstance(layer, nn.Conv2d)
    )
