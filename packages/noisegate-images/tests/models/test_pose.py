import math

import pytest
import torch
from torch.special import ndtri

from noisegate_images.models.image import POSE_NUMBERS, posed

SIDE = 21


def spot(row, column):
    image = torch.zeros(1, 1, SIDE, SIDE)
    image[0, 0, row, column] = 1
    return image


def noise(**at):
    """The noise of a pose whose numbers are 0 but for those given, as parts of the farthest."""
    place = {"turn": 0, "slant": 1, "across": 2, "down": 3, "right": 4, "low": 5}
    uniform = torch.zeros(1, POSE_NUMBERS, dtype=torch.float64)
    for name, value in at.items():
        uniform[0, place[name]] = value
    return ndtri((uniform + 1) / 2).float()


def centre(image):
    """Where the intensity lies, in pixels from the middle, down and across."""
    places = torch.arange(SIDE) - (SIDE - 1) / 2
    total = image.sum()
    return float((image[0, 0].sum(1) * places).sum() / total), float(
        (image[0, 0].sum(0) * places).sum() / total
    )


def test_a_pose_turns_about_the_middle():
    down, across = centre(posed(spot(10, 17), noise(turn=0.8), 2.0))
    assert math.hypot(down, across) == pytest.approx(7, abs=0.1)
    assert abs(math.atan2(down, across)) == pytest.approx(0.24, abs=0.02)


@pytest.mark.parametrize(
    ("at", "moved"), [({"right": 0.8}, (0, -0.84)), ({"low": -0.8}, (0.84, 0))]
)
def test_a_pose_moves_by_parts_of_half_a_side(at, moved):
    assert centre(posed(spot(10, 10), noise(**at), 2.0)) == pytest.approx(
        moved, abs=0.01
    )


def test_a_pose_stretches_and_slants():
    assert centre(posed(spot(10, 16), noise(across=0.5), 2.0))[1] == pytest.approx(
        6 / 1.1, abs=0.1
    )
    assert centre(posed(spot(16, 10), noise(slant=0.5), 2.0))[1] == pytest.approx(
        -0.15 * 6, abs=0.1
    )


def test_every_image_has_its_own_pose_and_the_border_continues():
    images = torch.ones(50, 3, 12, 16)
    random = torch.Generator().manual_seed(1)
    torch.testing.assert_close(
        posed(images, torch.randn(50, POSE_NUMBERS, generator=random), 2.0), images
    )
    spots = spot(10, 14).expand(50, -1, -1, -1)
    made = posed(spots, torch.randn(50, POSE_NUMBERS, generator=random), 1.0)
    assert len({centre(one[None]) for one in made}) == 50
