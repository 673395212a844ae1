import math

import numpy as np
import pytest
import torch

from noisegate.schema.pixels import ImageShape
from noisegate_images.queries.fourier import FourierOfValues, draw_points
from noisegate_images.queries.orientation import STRIDE, WAVELENGTHS, Wavelets

GRAY = ImageShape(height=20, width=14)
COLOUR, LARGE = (
    ImageShape(height=9, width=11, channels=3),
    ImageShape(height=60, width=50),
)


def noise(shape: ImageShape, rows: int = 1) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (rows, shape.size)) / 255


def stripes(
    shape: ImageShape, length: float, angle: float, phase: float = 0.0
) -> np.ndarray:
    """One image of a plane wave of such a length and direction, from 0.1 to 0.9."""
    rows, columns = np.mgrid[: shape.height, : shape.width]
    waves = 0.5 + 0.4 * np.sin(
        2 * math.pi / length * (rows * math.sin(angle) + columns * math.cos(angle))
        + phase
    ).repeat(shape.channels).reshape(1, -1)
    return np.rint(waves * 255) / 255


def energies(wavelets: Wavelets, image: np.ndarray) -> np.ndarray:
    """The mean over cells of each length and direction, (lengths, directions)."""
    return (
        wavelets(image).reshape(len(WAVELENGTHS), wavelets.directions, -1).mean(axis=2)
    )


def literal(wavelets: Wavelets, image: np.ndarray) -> np.ndarray:
    """The definition with loops: Morlet wavelets in the plane on an image whose border is repeated."""
    shape = wavelets.image
    gray = image.reshape(shape.height, shape.width, shape.channels).mean(axis=2)
    zoom = max(round(max(shape.height, shape.width) / 32), 1)
    strides = [
        max(min(zoom * STRIDE, side // wavelets.cells), 1)
        for side in (shape.height, shape.width)
    ]
    values = []
    for length in (zoom * one for one in WAVELENGTHS):
        beyond = math.ceil(1.8 * length)
        padded = np.pad(gray, beyond, mode="edge")
        rows, columns = np.mgrid[
            -beyond : shape.height + beyond, -beyond : shape.width + beyond
        ]
        tops, lefts = (
            np.arange(0, side, by)
            for side, by in zip(shape.axes, strides, strict=False)
        )
        for direction in range(wavelets.directions):
            angle = math.pi * direction / wavelets.directions
            found = np.zeros((len(tops), len(lefts)))
            for i, top in enumerate(tops):
                for j, left in enumerate(lefts):
                    down, right = (
                        rows - top - (strides[0] - 1) / 2,
                        columns - left - (strides[1] - 1) / 2,
                    )
                    wave = 1 / (2 * math.pi * (0.6 * length) ** 2)
                    for away, part in (
                        (down, math.sin(angle)),
                        (right, math.cos(angle)),
                    ):
                        under = np.exp(-(away**2) / (2 * (0.6 * length) ** 2))
                        along = under * np.exp(2j * math.pi / length * part * away)
                        wave = wave * (
                            along
                            - (
                                under * along.sum() / under.sum()
                                if part**2 > 0.499
                                else 0
                            )
                        )
                    found[i, j] = abs((padded * wave).sum())
            across = min(wavelets.cells, len(tops)), min(wavelets.cells, len(lefts))
            weights = [
                np.maximum(
                    1 - abs((np.arange(n) + 0.5) / n * c - np.arange(c)[:, None] - 0.5),
                    0,
                )
                for n, c in zip(found.shape, across, strict=True)
            ]
            down, right = (one / one.sum(axis=1, keepdims=True) for one in weights)
            values.append(down @ found @ right.T)
    flat = np.concatenate([one.ravel() for one in values])
    return flat / (np.linalg.norm(flat) + wavelets.damping)


@pytest.mark.parametrize("shape", [GRAY, COLOUR, LARGE, ImageShape(height=3, width=2)])
def test_the_values_are_the_definition(shape):
    wavelets = Wavelets(image=shape, directions=4, cells=3)
    found, expected = wavelets(noise(shape))[0], literal(wavelets, noise(shape))
    assert len(found) == wavelets.size
    # Wavelets are rounded to 1/4096 of their sum, and windows end after three standard deviations.
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


@pytest.mark.parametrize("place", range(len(WAVELENGTHS)))
@pytest.mark.parametrize("direction", [0, 3, 4])
def test_stripes_have_the_energy_of_their_length_and_direction(place, direction):
    wavelets = Wavelets(image=ImageShape(height=32, width=32))
    found = energies(
        wavelets, stripes(wavelets.image, WAVELENGTHS[place], math.pi * direction / 8)
    )
    assert np.unravel_index(found.argmax(), found.shape) == (place, direction)


def test_where_crests_lie_and_how_strong_they_are_changes_next_to_nothing():
    """Means over images that begin anywhere would be grey, of pixels; of gradients too, of both signs alike."""
    shape = ImageShape(height=28, width=28)
    wavelets, image = Wavelets(image=shape), stripes(shape, 5, 0.6)
    for phase in (1.0, 2.0, 3.0):
        assert (
            np.linalg.norm(wavelets(stripes(shape, 5, 0.6, phase)) - wavelets(image))
            < 0.1
        )
    assert np.linalg.norm(wavelets(0.5 + (image - 0.5) / 2) - wavelets(image)) < 0.1
    assert np.linalg.norm(wavelets(1 - image) - wavelets(image)) < 1e-9
    assert (
        np.linalg.norm(wavelets(stripes(shape, 5, 0.6 + math.pi / 2)) - wavelets(image))
        > 0.7
    )


@pytest.mark.parametrize("shape", [GRAY, COLOUR, LARGE])
@pytest.mark.parametrize("shade", [0.0, 0.2, 1.0])
def test_an_image_of_one_shade_has_no_energy_and_finite_slopes(shape, shade):
    assert not Wavelets(image=shape)(np.full((1, shape.size), shade)).any()
    image = torch.full((1, shape.size), shade, requires_grad=True)
    (slope,) = torch.autograd.grad(fourier(shape).of_points()(image).sum(), image)
    assert slope.isfinite().all()


def fourier(shape: ImageShape, count: int = 30) -> FourierOfValues:
    wavelets = Wavelets(image=shape, directions=4)
    return FourierOfValues(
        of=wavelets,
        fourier=draw_points(wavelets.size, count=count, length_scale=0.3, seed=2),
    )


def test_an_image_has_the_same_bits_in_whatever_piece_it_is_computed():
    wavelets = Wavelets(image=ImageShape(height=101, width=99))
    images = noise(wavelets.image, 15)
    together = wavelets(images)  # in pieces of three
    alone = [wavelets(images[place : place + 1]) for place in range(15)]
    assert together.tobytes() == np.concatenate(alone).tobytes()
    assert wavelets(images[::-1])[::-1].tobytes() == together.tobytes()
    assert wavelets(images[:0]).shape == (0, wavelets.size)


@pytest.mark.parametrize(
    "sides", [(20, 14), (256, 256), (3, 1000), (47, 7), (1000, 47)]
)
def test_no_number_that_is_added_leaves_the_whole_numbers(sides):
    """Or the order in which a matrix product adds would show in the bits."""
    shape = ImageShape(height=sides[0], width=sides[1], channels=3)
    waves = Wavelets(image=shape).waves
    assert (waves.right % 1 == 0).all()
    assert (waves.down % 1 == 0).all()
    most = (
        255
        * shape.channels
        * np.abs(waves.right).sum(axis=2).max()
        * np.abs(waves.down).sum(axis=2).max()
    )
    assert most < 2**53
    assert max(cells.shape[1] for cells in waves.cells) <= 12
    sums = math.prod(cells.sum(axis=1).max() for cells in waves.cells)
    assert sums < 2**24
    assert math.sqrt(2) * most * 2.0**-waves.bits * sums < 2**53


@pytest.mark.parametrize("shape", [GRAY, COLOUR, LARGE])
def test_sums_are_those_of_whole_numbers(shape):
    """Bit for bit what 64-bit integers give, in whatever order a matrix product of the machine adds."""
    wavelets, images = Wavelets(image=shape), noise(shape, 3)
    waves, (down, right) = (
        wavelets.waves,
        (cells.astype(np.int64) for cells in wavelets.waves.cells),
    )
    for image, found in zip(images, wavelets(images), strict=True):
        gray = np.rint(image * 255).astype(np.int64).reshape(*shape.axes).sum(axis=2)
        waved = (waves.right[0].astype(np.int64) @ gray.T).reshape(
            2, len(waves.down), right.shape[1], -1
        )
        downwards = waves.down.astype(np.int64).reshape(
            len(waves.down), 2, 2, down.shape[1], shape.height, 2
        )
        parts = np.einsum(
            "wmqdhp,pwrh->wmqdr", downwards, waved
        )  # mirrored or not, part, places
        squares = np.square(
            parts.reshape(-1, 2, *parts.shape[3:])[waves.chosen].astype(np.float64)
        )
        moduli = np.rint(
            np.sqrt(squares[:, 0] + squares[:, 1]) * 2.0**-waves.bits
        ).astype(np.int64)
        weights = np.outer(down.sum(axis=1), right.sum(axis=1)).ravel() * (
            255 * shape.channels * 4096**2
        )
        values = (down @ moduli @ right.T).ravel() * np.tile(
            2.0**waves.bits / weights, len(moduli)
        )
        length = (
            math.sqrt(np.square(np.rint(values * 65_536).astype(np.int64)).sum())
            / 65_536
        )
        assert found.tobytes() == (values / (length + 0.02)).tobytes()


def test_slopes_are_those_of_finite_differences():
    shape = ImageShape(height=5, width=6, channels=3)
    form = fourier(shape, 3).of_points().to(torch.float64)
    images = torch.rand(
        1, shape.size, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
    assert torch.autograd.gradcheck(form, images.requires_grad_(), eps=1e-7, atol=1e-5)
