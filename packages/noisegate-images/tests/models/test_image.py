import pytest
import torch

from noisegate.errors import OptionError
from noisegate.schema.pixels import ImageShape
from noisegate_images.models.image import build_image_generator, with_prior
from noisegate_images.models.image_network import ImageNetwork
from noisegate_images.networks.strokes import load_drawing

KINDS = ("convolutional", "fully-connected")


def network(kind, height=8, width=12, colours=1, **changes):
    shape = ImageShape(height=height, width=width, channels=colours)
    return ImageNetwork(
        **{
            "shape": shape,
            "kind": kind,
            "latent": 4,
            "hidden": (16,),
            "channels": (6, 3),
            **changes,
        }
    )


def images(generator, rows=10, labels=None):
    labels = torch.arange(rows) % generator.classes if labels is None else labels
    return generator(generator.noise(rows, torch.Generator().manual_seed(1)), labels)


@pytest.mark.parametrize("kind", KINDS)
def test_pixels_stand_row_by_row_with_their_channels_side_by_side(kind):
    generator = build_image_generator(network(kind, colours=3), 4, seed=0).eval()
    noise, labels = (
        generator.noise(2, torch.Generator().manual_seed(1)),
        torch.tensor([0, 3]),
    )
    logits = generator.logits(torch.cat([noise, torch.eye(4)[labels]], dim=1))
    made = generator(noise, labels).reshape(2, 8, 12, 3)
    torch.testing.assert_close(made[1, 5, 7, 2], logits[1, 2, 5, 7].sigmoid())


@pytest.mark.parametrize("kind", KINDS)
def test_the_label_changes_the_image_and_every_weight_learns(kind):
    generator = build_image_generator(network(kind), 4, seed=0)
    (images(generator) * torch.linspace(0, 1, 96)).square().sum().backward()
    assert all(
        weights.grad is not None and weights.grad.abs().sum() > 0
        for weights in generator.parameters()
    )
    first, second = (
        images(generator.eval(), labels=torch.full((10,), label)) for label in (0, 1)
    )
    assert (first - second).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"kind": "residual", "channels": (8, 8, 8), "height": 10},
            r"image=10 x 12 x 1: .* multiples of 4; pad",
        ),
        ({"kind": "convolutional", "channels": (8,)}, r"channels=\[8\]"),
        ({"kind": "table"}, "generator='table' makes no images"),
    ],
)
def test_designs_that_cannot_work_are_refused(settings, message):
    with pytest.raises(OptionError, match=message):
        network(**settings)


def test_sub_pixels_begin_alike_and_learn_apart():
    """Else some fits end in stripes, of which some pixels are always dark."""
    generator = build_image_generator(network("sub-pixel", 8, 12, colours=3), 4, seed=0)
    made = images(generator).reshape(10, 8, 12, 3)
    torch.testing.assert_close(made[:, ::2], made[:, 1::2])
    torch.testing.assert_close(made[:, :, ::2], made[:, :, 1::2])
    assert made[:, ::2].std(dim=1).min() > 0
    (images(generator) * torch.linspace(0, 1, 8 * 12 * 3)).square().sum().backward()
    slopes = generator.logits[-2].weight.grad
    assert (slopes[0] - slopes[1]).abs().max() > 0


@pytest.mark.parametrize("kind", ["fully-connected", "convolutional", "sub-pixel"])
def test_networks_take_any_size(kind):
    made = images(build_image_generator(network(kind, 5, 7), 2, seed=0))
    assert made.shape == (10, 35)
    made.sum().backward()


def test_a_network_of_drawings_begins_as_the_decoder_and_every_weight_learns():
    shape = ImageShape(height=28, width=28)
    design = ImageNetwork(
        shape=shape, kind="drawing", latent=32, hidden=(8,), channels=()
    )
    fresh, known = (build_image_generator(design, 4, seed=0) for _ in range(2))
    assert with_prior(known).pretrained == "logits.decoder."
    assert fresh.pretrained is None
    start = load_drawing()
    assert all(
        torch.equal(value, start[name])
        for name, value in known.logits.decoder.state_dict().items()
    )
    assert torch.equal(fresh.logits.mapping[0].weight, known.logits.mapping[0].weight)
    (images(known) * torch.linspace(0, 1, shape.size)).square().sum().backward()
    assert all(
        weights.grad is not None and weights.grad.abs().sum() > 0
        for weights in known.parameters()
    )
    first, second = (
        images(known.eval(), labels=torch.full((10,), label)) for label in (0, 1)
    )
    assert (first - second).abs().max() > 0.1


def test_a_drawing_is_brought_to_the_size_of_the_images():
    design = network("drawing", 16, 20, latent=32)
    generator = with_prior(build_image_generator(design, 4, seed=0)).eval()
    same = with_prior(
        build_image_generator(network("drawing", 28, 28, latent=32), 4, seed=0)
    ).eval()
    large = images(same).reshape(10, 1, 28, 28)
    small = torch.nn.functional.interpolate(
        large, (16, 20), mode="bilinear", antialias=True
    )
    torch.testing.assert_close(images(generator), small.flatten(1))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"latent": 5}, "latent=5"),
        ({"height": 36}, "36 x 28"),
        ({"colours": 3}, "28 x 28 x 3"),
    ],
)
def test_a_network_of_drawings_makes_small_grey_images_of_32_numbers_and_nothing_else(
    changes, named
):
    with pytest.raises(OptionError, match=named):
        network("drawing", **{"height": 28, "width": 28, "latent": 32, **changes})
