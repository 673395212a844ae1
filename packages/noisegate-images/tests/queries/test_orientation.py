import math

import numpy as np
import pytest
import torch

from noisegate.errors import OptionError
from noisegate.schema import EncodedTable
from noisegate.schema.pixels import ImageShape
from noisegate_images.queries.fourier import FourierOfValues, draw_points
from noisegate_images.queries.orientation import Orientations

GRAY = ImageShape(height=16, width=12)


def ramp(shape: ImageShape, down: float, right: float) -> np.ndarray:
    """One image whose intensity grows by so many steps of 1/255 a pixel downwards and to the right."""
    rows, columns = np.mgrid[: shape.height, : shape.width]
    gray = np.rint(rows * down + columns * right)
    gray -= gray.min()
    return np.repeat(gray[:, :, None], shape.channels, axis=2).reshape(1, -1) / 255


def by_direction(orientations: Orientations, image: np.ndarray) -> np.ndarray:
    return orientations(image).reshape(orientations.directions, *orientations.grid)


def literal(orientations: Orientations, image: np.ndarray) -> np.ndarray:
    """The definition, pixel by pixel: what the module's docstring says, with loops."""
    shape, cell = orientations.image, orientations.cell
    gray = np.rint(image.reshape(shape.height, shape.width, shape.channels) * 255).sum(
        axis=2
    )
    found = np.zeros((orientations.directions, *orientations.grid))
    for row in range(shape.height):
        for column in range(shape.width):
            down = (
                gray[min(row + 1, shape.height - 1), column]
                - gray[max(row - 1, 0), column]
            )
            right = (
                gray[row, min(column + 1, shape.width - 1)]
                - gray[row, max(column - 1, 0)]
            )
            for k, (first, second) in enumerate(orientations.vectors):
                strength = max(
                    0,
                    down * first + right * second - abs(down * second - right * first),
                )
                for i in range(orientations.grid[0]):
                    for j in range(orientations.grid[1]):
                        far = [
                            abs(p - (q * cell + (cell - 1) / 2))
                            for p, q in ((row, i), (column, j))
                        ]
                        weight = math.prod(
                            max(0, 2 * (cell - distance)) for distance in far
                        )
                        found[k, i, j] += strength * weight
    return found * orientations.unit


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("cell", "sides"),
    [(2, (8, 12)), (4, (8, 12)), (4, (9, 11)), (6, (7, 13)), (4, (3, 2))],
)
def test_the_values_are_the_definition(channels, cell, sides):
    shape = ImageShape(height=sides[0], width=sides[1], channels=channels)
    orientations = Orientations(image=shape, cell=cell, directions=6)
    image = np.random.default_rng(0).integers(0, 256, (1, shape.size)) / 255
    assert np.allclose(
        by_direction(orientations, image), literal(orientations, image), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("down", "right", "direction"),
    [(0, 3, 0), (3, 3, 1), (3, 0, 2), (0, -3, 4), (-3, 0, 6)],
)
def test_an_edge_counts_in_its_direction_alone(down, right, direction):
    values = by_direction(Orientations(image=GRAY), ramp(GRAY, down, right))[:, 1, 1]
    assert values.argmax() == direction
    assert values[direction] > 20 * np.delete(values, direction).max()


def test_a_flat_image_has_no_edges_and_no_image_exceeds_the_stated_size():
    orientations = Orientations(image=GRAY)
    assert not orientations(np.full((1, GRAY.size), 0.7)).any()
    stripes = np.tile([0.0, 0.0, 1.0, 1.0], GRAY.size // 4)[None]
    assert 0.1 < orientations(stripes).max() <= math.sqrt(2) * 2


def test_divided_by_their_length_a_faint_image_is_nearly_a_bold_one():
    image = np.random.default_rng(0).integers(0, 128, (1, GRAY.size)) * 2 / 255
    plain, damped = Orientations(image=GRAY), Orientations(image=GRAY, damping=0.01)
    assert np.allclose(
        damped(image), plain(image) / (np.linalg.norm(plain(image)) + 0.01), rtol=1e-4
    )
    assert np.allclose(damped(image), damped(image / 2), rtol=0.05)
    assert not np.allclose(plain(image), plain(image / 2), rtol=0.05)
    assert not damped(np.full((1, GRAY.size), 0.7)).any()


def test_the_kernel_is_gaussian_in_the_orientations():
    orientations = Orientations(image=GRAY)
    fourier = draw_points(orientations.size, count=4000, length_scale=0.5, seed=1)
    features = FourierOfValues(of=orientations, fourier=fourier)
    images = np.random.default_rng(3).integers(0, 256, (6, GRAY.size)) / 255
    vectors = features(EncodedTable(images, np.zeros((6, 0), dtype=np.int32)))
    values = orientations(images)
    squared = np.square(values[:, None] - values[None]).sum(axis=2)
    # 5 standard errors of the mean of 4000 cosines
    assert np.abs(
        vectors @ vectors.T - np.exp(-squared / (2 * 0.25))
    ).max() < 5 * math.sqrt(0.5 / 4000)


@pytest.mark.parametrize("damping", [None, 0.3])
def test_an_image_has_the_same_bits_in_whatever_piece_it_is_computed(damping):
    orientations = Orientations(image=ImageShape(height=101, width=99), damping=damping)
    images = (
        np.random.default_rng(0).integers(0, 256, (15, orientations.image.size)) / 255
    )
    together = orientations(images)  # in pieces of six
    alone = [orientations(images[place : place + 1]) for place in range(15)]
    assert together.tobytes() == np.concatenate(alone).tobytes()
    assert orientations(images[::-1])[::-1].tobytes() == together.tobytes()
    assert orientations(images[:0]).shape == (0, orientations.size)


COLOUR, ODD = (
    ImageShape(height=8, width=12, channels=3),
    ImageShape(height=9, width=11, channels=3),
)


def oriented(image, cell, damping=None):
    orientations = Orientations(image=image, cell=cell, directions=6, damping=damping)
    fourier = draw_points(orientations.size, count=30, length_scale=0.4, seed=2)
    return FourierOfValues(of=orientations, fourier=fourier)


def test_an_image_of_one_shade_has_finite_slopes():
    image = torch.full((1, COLOUR.size), 0.4, requires_grad=True)
    (slope,) = torch.autograd.grad(
        oriented(COLOUR, 4, 0.3).of_points()(image).sum(), image
    )
    assert slope.isfinite().all()


def test_slopes_are_those_of_finite_differences():
    form = oriented(COLOUR, 4, 0.3).of_points().to(torch.float64)
    images = torch.rand(
        1, COLOUR.size, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
    assert torch.autograd.gradcheck(form, images.requires_grad_(), eps=1e-7, atol=1e-5)


def brightest(image: ImageShape, cell: int) -> int:
    """The largest sum that a cell of this image may see, in whole numbers of unlimited size."""
    of = Orientations(image=image, cell=cell)
    reach = [
        int(of.pooling(side).sum(axis=1).max()) for side in (image.height, image.width)
    ]
    strengths = [
        max(down * first + right * second - abs(down * second - right * first), 0)
        for first, second in of.vectors.tolist()
        for down in (-255 * image.channels, 0, 255 * image.channels)
        for right in (-255 * image.channels, 0, 255 * image.channels)
    ]
    return max(strengths) * math.prod(reach)


@pytest.mark.parametrize(
    ("side", "channels", "cell"),
    [(32, 1, 4), (512, 3, 256), (1024, 1, 512), (64, 3, 512)],
)
def test_sums_of_cells_that_are_taken_stay_below_what_float64_holds_exactly(
    side, channels, cell
):
    assert (
        brightest(ImageShape(height=side, width=side, channels=channels), cell) < 2**53
    )


@pytest.mark.parametrize(
    ("side", "channels", "cell"), [(2048, 3, 512), (1024, 1, 600), (28, 1, 10**9)]
)
def test_cells_whose_sums_would_round_are_refused(side, channels, cell):
    with pytest.raises(OptionError, match=r"2\^53.*256 or less"):
        Orientations(
            image=ImageShape(height=side, width=side, channels=channels), cell=cell
        )


def test_values_whose_squares_would_round_are_refused():
    image = ImageShape(height=256, width=256)
    Orientations(image=image, cell=1, directions=8, damping=0.01)
    with pytest.raises(OptionError, match=r"2,097,152 values .*fewer directions"):
        Orientations(image=image, cell=1, directions=32, damping=0.01)
