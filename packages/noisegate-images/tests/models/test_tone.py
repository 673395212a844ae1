import numpy as np
import pytest
import torch
from torch.special import ndtri

from noisegate.schema.pixels import ImageShape
from noisegate_images.models.image import (
    POSE_NUMBERS,
    TONE_NUMBERS,
    build_image_generator,
    posed,
    toned,
)
from noisegate_images.models.image_network import ImageNetwork


def noise(contrast=0.0, softness=0.0):
    return ndtri(
        (torch.tensor([[contrast, softness]], dtype=torch.float64) + 1) / 2
    ).float()


def square(ink, ground):
    image = torch.full((1, 1, 9, 9), float(ground))
    image[..., 2:7, 2:7] = ink
    return image


@pytest.mark.parametrize(("ink", "ground"), [(0.5, 0.0), (0.5, 1.0), (0.2, 0.4)])
@pytest.mark.parametrize("contrast", [-0.9, 0.4])
def test_the_ground_stays_and_things_stand_out_more_or_less(ink, ground, contrast):
    made = toned(square(ink, ground), noise(contrast=contrast), 1.0)
    assert float(made[0, 0, 0, 0]) == pytest.approx(ground, abs=1e-5)
    expected = ground + (ink - ground) * np.exp(0.5 * contrast)
    assert float(made[0, 0, 4, 4]) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("either", [-0.5, 0.5])
def test_edges_are_softened_and_flat_parts_are_not(either):
    made = toned(square(1, 0), noise(softness=either), 1.0)
    assert float(made[0, 0, 4, 4]) == pytest.approx(1, abs=1e-4)
    # Three of the nine around a pixel beside an edge are ink.
    assert float(made[0, 0, 4, 1]) == pytest.approx(0.35 * 3 / 9, abs=1e-4)


@pytest.mark.parametrize("sides", [(7, 5), (1, 6), (2, 1)])
def test_a_soft_pixel_is_the_mean_of_nine_and_the_border_goes_on_outside(sides):
    images = torch.rand(2, 3, *sides, generator=torch.Generator().manual_seed(2))
    wide = np.pad(images.numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    around = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(2, 3)).mean(
        axis=(4, 5)
    )
    expected = 0.3 * images.numpy() + 0.7 * around  # as soft as it gets
    made = toned(images, torch.tensor([[0.0, 9.0]]).expand(2, -1), 1.0)
    np.testing.assert_allclose(made.numpy(), expected, atol=1e-6)


def test_every_image_has_its_own_tone_and_is_one():
    images = square(0.6, 0.1).expand(50, -1, -1, -1)
    made = toned(
        images,
        torch.randn(50, TONE_NUMBERS, generator=torch.Generator().manual_seed(1)),
        1.0,
    )
    assert len({float(one[0, 4, 4]) for one in made}) == 50
    assert made.min() >= 0 and made.max() <= 1
    flat = torch.full((3, 3, 8, 8), 0.7)
    torch.testing.assert_close(toned(flat, torch.randn(3, TONE_NUMBERS), 1.0), flat)


def network(tone, pose):
    shape = ImageShape(height=8, width=8)
    return ImageNetwork(
        shape=shape,
        kind="sub-pixel",
        latent=3,
        hidden=(),
        channels=(4, 4),
        tone=tone,
        pose=pose,
    )


@pytest.mark.parametrize("pose", [0.0, 2.0])
def test_a_generator_tones_what_its_network_makes_before_poses(pose):
    generator = build_image_generator(network(1.0, pose), 2, seed=0).eval()
    given, labels = (
        generator.noise(5, torch.Generator().manual_seed(1)),
        torch.tensor([0, 1, 0, 1, 1]),
    )
    assert given.shape == (5, 3 + TONE_NUMBERS + (POSE_NUMBERS if pose else 0))
    plain = (
        build_image_generator(network(0.0, 0.0), 2, seed=0)
        .eval()(given[:, :3], labels)
        .reshape(5, 1, 8, 8)
    )
    expected = toned(plain, given[:, -TONE_NUMBERS:], 1.0)
    if pose:
        expected = posed(expected, given[:, 3:-TONE_NUMBERS], pose)
    torch.testing.assert_close(generator(given, labels).reshape(5, 1, 8, 8), expected)
