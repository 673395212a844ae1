import pytest
import torch

from noisegate_evaluate.utility.training import _turns, altered

ROWS = 600


def random(seed=0):
    return torch.Generator().manual_seed(seed)


def dot(height=16, width=16):
    """A blob in the middle of each image."""
    images = torch.zeros((ROWS, 1, height, width))
    images[:, :, height // 2 - 2 : height // 2 + 2, width // 2 - 2 : width // 2 + 2] = 1
    return images


def centres(images):
    """Where the mass of each image is, in pixels from its middle, (rows, 2)."""
    mass = images.sum(dim=(1, 2, 3))
    along = [torch.arange(size) - (size - 1) / 2 for size in images.shape[2:]]
    down = (images.sum(dim=(1, 3)) * along[0]).sum(dim=1) / mass
    return torch.stack(
        [down, (images.sum(dim=(1, 2)) * along[1]).sum(dim=1) / mass], dim=1
    )


def test_shifts_are_whole_pixels_up_to_an_eighth_of_the_side_and_the_rest_stays_in_the_middle():
    moved = centres(altered(dot(), random()))
    assert torch.allclose(moved, moved.round(), atol=1e-3)
    assert moved.abs().max().round() == 2
    # A third is shifted, of which one in twenty-five by nothing.
    assert 0.25 < (moved.abs() > 0.5).any(dim=1).float().mean() < 0.4


@pytest.mark.parametrize(("height", "width"), [(16, 16), (16, 32), (20, 10)])
def test_a_turn_is_no_shear_whatever_the_sides(height, width):
    maps = _turns(torch.rand((ROWS, 2), generator=random()), height / width)
    sides = torch.tensor([width, height], dtype=torch.float32)
    in_pixels = maps[:, :, :2] * sides[:, None] / sides[None, :]
    assert torch.allclose(
        in_pixels @ in_pixels.transpose(1, 2),
        torch.eye(2).expand(ROWS, 2, 2),
        atol=1e-5,
    )
    angles = torch.atan2(in_pixels[:, 1, 0], in_pixels[:, 0, 0]) * 180 / torch.pi
    assert 40 < angles.max() <= 45
    assert -45 <= angles.min() < -40
    assert not maps[:, :, 2].any()
