"""The discriminator: it sees images through the encoder, place by place, and how well they go with a feature."""

import torch

from noisegate.schema.pixels import ImageShape
from noisegate_images.networks.layers import ChosenLayers
from noisegate_images.networks.named import load_network
from noisegate_papers.contrib.pretraining.projected import SEEN, ProjectedDiscriminator


def discriminator(side=32, channels=3, seed=0, scales=(2.0, 1.0, 0.5)):
    network = load_network("encoder")
    layers = ChosenLayers(network.module, SEEN, ImageShape(height=side, width=side, channels=channels))
    return ProjectedDiscriminator(layers, scales, 5, seed=seed)


def test_it_sees_what_the_encoder_gives_and_the_pixels():
    images = torch.rand(2, 3, 32, 32)
    *seen, pixels = discriminator().seen(images)
    network = load_network("encoder").module
    found = {}
    for name in SEEN:
        getattr(network, name).register_forward_hook(
            lambda module, given, output, name=name: found.update({name: output})
        )
    network(images)
    for part, name, scale in zip(seen, SEEN, (2.0, 1.0, 0.5), strict=True):
        torch.testing.assert_close(part * scale, found[name])
    torch.testing.assert_close(pixels, 2 * images - 1)


def test_every_place_is_scored_and_the_images_learn_of_it():
    judge, images = discriminator(28, 1), torch.rand(3, 1, 28, 28, requires_grad=True)
    inputs = torch.randn(3, 5)
    scores = judge(judge.seen(images), inputs)
    assert [score.shape[0] for score in scores] == [3] * 4
    assert all(score.shape[1] > 1 for score in scores)
    other = judge(judge.seen(images), -inputs)
    assert all(float((one - two).detach().abs().mean()) > 1e-4 for one, two in zip(scores, other, strict=True))
    torch.stack([score.mean() for score in scores]).sum().backward()
    assert images.grad is not None
    assert float(images.grad.abs().min()) >= 0 and float(images.grad.abs().mean()) > 0
    assert not any("network" in name for name, _ in judge.named_parameters())  # the encoder is no part of it
