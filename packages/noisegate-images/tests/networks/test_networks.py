"""Shapes, sizes and seeds of every network, and what gradient matching asks of a ConvNet."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from noisegate.errors import OptionError
from noisegate.schema.pixels import ImageShape
from noisegate_images.networks import classifiers

GREY, COLOUR = (
    ImageShape(height=28, width=28),
    ImageShape(height=32, width=32, channels=3),
)
TINY, ODD = ImageShape(height=8, width=8), ImageShape(height=9, width=5, channels=2)
COUNTED = [
    # Weights of grey images of 28 pixels a side and of colour ones of 32, with 10 outputs.
    (classifiers.build_convnet, 317_706, 320_010),
    (classifiers.build_lenet, 61_706, 62_006),
    (classifiers.build_alexnet, 1_865_802, 1_872_202),
    (classifiers.build_vgg11, 9_229_962, 9_231_114),
    (classifiers.build_resnet18, 11_172_810, 11_173_962),
    (classifiers.build_perceptron, 118_282, 411_146),
]
BUILDERS = [build for build, *_ in COUNTED]


def weights(network):
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(("build", "grey", "colour"), COUNTED)
def test_the_number_of_weights_is_that_counted_by_hand(build, grey, colour):
    with torch.device("meta"):
        networks = [build(shape, 10, seed=0) for shape in (GREY, COLOUR)]
    assert [weights(network) for network in networks] == [grey, colour]


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("shape", [TINY, ODD], ids=str)
def test_any_small_image_gives_logits_that_depend_on_it(build, shape):
    network = build(shape, 3, seed=0)
    images = torch.randn(
        (2, shape.channels, shape.height, shape.width),
        generator=torch.Generator().manual_seed(1),
    )
    with torch.no_grad():
        logits = network(images)
    assert logits.shape == (2, 3)
    # More than rounding: one pixel that is normalised on its own is zero whatever the image.
    assert (logits[0] - logits[1]).abs().max() > 5e-5


@pytest.mark.parametrize("build", BUILDERS)
def test_nothing_mixes_images_or_remembers_them(build):
    network = build(GREY, 2, seed=0)
    assert not list(network.buffers())
    assert not [
        part
        for part in network.modules()
        if isinstance(part, nn.Dropout | nn.modules.batchnorm._BatchNorm)
    ]
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
    # A convolution of 3 x 3, a normalisation of 8 channels, and 10 outputs of 14 x 14 places each.
    assert weights(
        classifiers.build_convnet(GREY, 10, width=8, depth=1, seed=0)
    ) == 8 * 10 + 16 + 10 * (8 * 196 + 1)
    for wrong in ({"width": 0}, {"depth": 2.0}):
        with pytest.raises(OptionError, match=f"{next(iter(wrong))}="):
            classifiers.build_convnet(GREY, 10, **wrong, seed=0)
    with pytest.raises(OptionError, match="hidden\\[1\\]=0"):
        classifiers.build_perceptron(GREY, 10, hidden=(4, 0), seed=0)


@pytest.mark.parametrize(
    "build", [classifiers.build_convnet, classifiers.build_perceptron]
)
def test_gradients_are_per_example_under_torch_func(build):
    options = {"width": 4} if build is classifiers.build_convnet else {"hidden": (4,)}
    network = build(TINY, 3, **options, seed=0).double()
    parameters = dict(network.named_parameters())
    images = torch.rand(
        (5, 1, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    labels = torch.tensor([0, 1, 2, 0, 1])

    def loss(given, image, label):
        return nn.functional.cross_entropy(
            functional_call(network, given, image[None]), label[None]
        )

    each = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, images, labels)
    nn.functional.cross_entropy(network(images), labels, reduction="sum").backward()
    for name, parameter in parameters.items():
        assert torch.allclose(
            each[name].sum(dim=0), parameter.grad, rtol=1e-9, atol=1e-12
        ), name
