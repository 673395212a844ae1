"""Shapes, sizes and seeds of every network, and what gradient matching asks of a ConvNet."""

from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from noisegate.errors import OptionError
from noisegate.schema.pixels import ImageShape
from noisegate_images.networks.classifiers import (
    build_alexnet,
    build_convnet,
    build_lenet,
    build_perceptron,
    build_resnet18,
    build_vgg11,
)

GREY, COLOUR = ImageShape(height=28, width=28), ImageShape(height=32, width=32, channels=3)
TINY, ODD = ImageShape(height=8, width=8), ImageShape(height=9, width=5, channels=2)
BUILDERS = [build_convnet, build_lenet, build_alexnet, build_vgg11, build_resnet18, build_perceptron]


def conv(entering, leaving, side, bias=True):
    return entering * leaving * side * side + leaving * bias


def norm(channels):
    return 2 * channels


def dense(entering, leaving):
    return entering * leaving + leaving


def convnet(channels, left):
    blocks = [conv(channels, 128, 3) + norm(128), 2 * (conv(128, 128, 3) + norm(128))]
    return sum(blocks) + dense(128 * left, 10)


def lenet(channels):
    # 32 pixels: 28 after a convolution of 5, 14 pooled, 10, 5 pooled.
    return conv(channels, 6, 5) + conv(6, 16, 5) + dense(16 * 5 * 5, 120) + dense(120, 84) + dense(84, 10)


def alexnet(channels):
    deep = conv(192, 256, 3) + conv(256, 192, 3) + conv(192, 192, 3)
    return conv(channels, 128, 5) + conv(128, 192, 5) + deep + dense(192 * 4 * 4, 10)


def vgg11(channels):
    widths = [channels, 64, 128, 256, 256, 512, 512, 512, 512]
    blocks = [conv(entering, leaving, 3) + norm(leaving) for entering, leaving in pairwise(widths)]
    return sum(blocks) + dense(512, 10)


def resnet18(channels):
    def block(entering, leaving):
        way_past = conv(entering, leaving, 1, bias=False) + norm(leaving) if entering != leaving else 0
        both = conv(entering, leaving, 3, bias=False) + conv(leaving, leaving, 3, bias=False)
        return both + 2 * norm(leaving) + way_past

    stages = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    body = sum(block(entering, leaving) for entering, leaving in pairwise(stages))
    return conv(channels, 64, 3, bias=False) + norm(64) + body + dense(512, 10)


def perceptron(pixels):
    return dense(pixels, 128) + dense(128, 128) + dense(128, 10)


def weights(network):
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("build", "shape", "expected"),
    [
        (build_convnet, GREY, convnet(1, 4 * 4)),
        (build_convnet, COLOUR, convnet(3, 4 * 4)),
        (build_convnet, TINY, convnet(1, 1)),
        (build_lenet, GREY, lenet(1)),
        (build_lenet, COLOUR, lenet(3)),
        (build_alexnet, GREY, alexnet(1)),
        (build_alexnet, COLOUR, alexnet(3)),
        (build_vgg11, GREY, vgg11(1)),
        (build_vgg11, COLOUR, vgg11(3)),
        (build_resnet18, GREY, resnet18(1)),
        (build_resnet18, COLOUR, resnet18(3)),
        (build_perceptron, GREY, perceptron(784)),
        (build_perceptron, COLOUR, perceptron(3072)),
    ],
)
def test_the_number_of_weights_is_that_counted_by_hand(build, shape, expected):
    with torch.device("meta"):
        network = build(shape, 10, seed=0)
    assert weights(network) == expected


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("shape", [TINY, ODD], ids=str)
def test_any_small_image_gives_logits_that_depend_on_it(build, shape):
    network = build(shape, 3, seed=0)
    images = torch.randn((2, shape.channels, shape.height, shape.width), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = network(images)
    assert logits.shape == (2, 3)
    # More than rounding: one pixel that is normalised on its own is zero whatever the image.
    assert (logits[0] - logits[1]).abs().max() > 5e-5


@pytest.mark.parametrize("build", BUILDERS)
def test_nothing_mixes_images_or_remembers_them(build):
    network = build(GREY, 2, seed=0)
    assert not list(network.buffers())
    assert not [part for part in network.modules() if isinstance(part, nn.Dropout | nn.modules.batchnorm._BatchNorm)]
    assert not [part for part in network.modules() if getattr(part, "inplace", False)]


@pytest.mark.parametrize("build", BUILDERS)
def test_a_seed_gives_the_same_weights_and_leaves_the_random_state_alone(build):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (build(TINY, 2, seed=seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    # Scales of a normalisation start at 1 whatever the seed.
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_width_and_depth_of_a_convnet():
    assert weights(build_convnet(GREY, 10, width=8, depth=1, seed=0)) == conv(1, 8, 3) + norm(8) + dense(8 * 196, 10)
    for wrong in ({"width": 0}, {"depth": 2.0}):
        with pytest.raises(OptionError, match=f"{next(iter(wrong))}="):
            build_convnet(GREY, 10, **wrong, seed=0)
    with pytest.raises(OptionError, match="hidden\\[1\\]=0"):
        build_perceptron(GREY, 10, hidden=(4, 0), seed=0)


@pytest.mark.parametrize("build", [build_convnet, build_perceptron])
def test_gradients_are_per_example_under_torch_func(build):
    options = {"width": 4} if build is build_convnet else {"hidden": (4,)}
    network = build(TINY, 3, **options, seed=0).double()
    parameters = dict(network.named_parameters())
    images = torch.rand((5, 1, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 0, 1])

    def loss(given, image, label):
        return nn.functional.cross_entropy(functional_call(network, given, image[None]), label[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, images, labels)
    nn.functional.cross_entropy(network(images), labels, reduction="sum").backward()
    for name, parameter in parameters.items():
        assert torch.allclose(each[name].sum(dim=0), parameter.grad, rtol=1e-9, atol=1e-12), name
