"""The residual generator: sizes, its start, and its way through a saved model."""

from dataclasses import replace

import torch
from torch import nn

from noisegate.schema.pixels import ImageShape
from noisegate_images.models.image import Doubled, UpBlock, build_image_generator
from noisegate_images.models.image_network import ImageNetwork

SMALL = ImageNetwork(
    shape=ImageShape(height=12, width=8, channels=3), kind="residual", latent=5, hidden=(), channels=(6, 4, 3)
)


def test_the_sizes_of_the_paper_are_four_pixels_and_three_doublings():
    with torch.device("meta"):
        network = replace(SMALL, shape=ImageShape(height=32, width=32, channels=3), channels=(512, 256, 128, 64))
        logits = build_image_generator(network, 10, seed=0).logits
    assert logits[1].kernel_size == (4, 4)
    assert [tuple(block.past[0].weight.shape[:2]) for block in logits if isinstance(block, UpBlock)] == [
        (256, 512),
        (128, 256),
        (64, 128),
    ]


def test_the_output_is_half_of_tanh_and_one():
    values = torch.linspace(-3, 3, 7)
    torch.testing.assert_close(Doubled()(values).sigmoid(), (values.tanh() + 1) / 2)


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
