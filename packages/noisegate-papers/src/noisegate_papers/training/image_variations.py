"""Public images to begin with and variations of images, by operations on pixels: no network is needed for either.

What Private Evolution calls RANDOM_API and VARIATION_API (Lin et al., ICLR 2024, https://arxiv.org/abs/2305.15560,
section 3), of which its program has diffusion models. Everything follows from public randomness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.records import Images, Rows

if TYPE_CHECKING:
    from jaxtyping import Float64, UInt8

    Array = npt.NDArray[Any]

    Pixels = UInt8[Array, "images height width channels"]
    Places = Float64[Array, "images pixels 2"]
else:
    Pixels = Places = npt.NDArray[Any]

STEPS = 16
"""Points on a stroke."""

# Of a variation of degree 1: radians, logarithms, and parts of the side of an image.
_TURN, _SHEAR, _SIZE, _SHIFT, _BEND = 0.25, 0.25, 0.25, 0.08, 0.06
# Points on each side of the coarse field that bends an image, and the width of what is around each, in their distance.
_COARSE, _AROUND = 4, 0.7
_CONTRAST, _BRIGHTNESS, _NOISE = 0.5, 0.12, 0.05
# Images that are worked on at once.
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class Beginning:
    """What there is to begin with, RANDOM_API of the paper.

    Attributes:
        shape: Height, width and channels.
        records: Public images; None for simulated shapes.
        labelled: Whether the public images have labels. A label that none of them has begins with any of them.
    """

    shape: tuple[int, int, int]
    records: Rows | None
    labelled: bool

    def images(self, label: int, count: int, random: np.random.Generator) -> Pixels:
        """Returns so many images for a label: different public ones, and variations of them where these are too few."""
        if self.records is None:
            return simulated_shapes(count, self.shape, random)
        assert isinstance(self.records, Images)
        images = self.records.pixels
        if self.labelled and (own := self.records.codes[:, 0] == label).any():
            images = images[own]
        chosen = images[random.permutation(len(images))[:count]]
        more, mates = images[random.integers(0, len(images), (2, count - len(chosen)))]
        return np.concatenate([chosen, varied(more, mates, 0.5, random)])


def simulated_shapes(count: int, shape: tuple[int, int, int], random: np.random.Generator) -> Pixels:
    """Returns images of one to three strokes, curves of Bézier, of random width, softness and colours.

    Args:
        count: How many.
        shape: Height, width and channels.
        random: Public randomness.
    """
    height, width, channels = shape
    along = np.linspace(0, 1, STEPS)[:, None]
    weights = np.hstack([(1 - along) ** 3, 3 * along * (1 - along) ** 2, 3 * along**2 * (1 - along), along**3])
    pixels = _grid(height, width) / max(height, width)
    images = np.empty((count, *shape), dtype=np.uint8)
    for image in images:
        ends = (random.random((random.integers(1, 4), 4, 2)) - 0.5) * 0.9 * [height, width] / max(height, width)
        points = (weights @ ends).reshape(-1, 2)
        apart = np.sqrt(np.square(pixels[:, None] - points).sum(axis=2)).min(axis=1) * 28
        ink = np.clip(0.5 + (random.uniform(0.5, 2.5) - apart) / random.uniform(0.8, 2.0), 0, 1)[:, None]
        ground, stroke = np.zeros(channels), np.ones(channels)
        if random.random() < 0.5:
            ground, stroke = random.random((2, channels))
        image[...] = np.rint(255 * (ground * (1 - ink) + stroke * ink)).reshape(shape)
    return images


def varied(images: Pixels, mates: Pixels, degree: float, random: np.random.Generator) -> Pixels:
    """Returns a variation of each image: turned, sheared, resized, shifted, bent, blended, of other contrast, noisy.

    Each operation is done to half of the images, noise to a quarter; the rest is for selection.

    Args:
        images: What is varied.
        mates: As many images, of which a part of each is blended in.
        degree: From 0, which changes nothing, to 1.
        random: Public randomness.
    """
    parts = [
        _varied(images[start : start + _BLOCK], mates[start : start + _BLOCK], degree, random)
        for start in range(0, len(images), _BLOCK)
    ]
    return np.concatenate(parts) if parts else images


def _varied(images: Pixels, mates: Pixels, degree: float, random: np.random.Generator) -> Pixels:
    count, height, width, _ = images.shape

    def amount(spread: float, *shape: int, chance: float = 0.5) -> Array:
        chosen = random.random((count, *(1 for _ in shape))) < chance
        return random.normal(0, spread * degree, (count, *shape)) * chosen

    turn, shear, sizes = amount(_TURN), amount(_SHEAR), np.exp(amount(_SIZE, 2))
    matrices = np.stack([np.cos(turn), -np.sin(turn), np.sin(turn) + shear, np.cos(turn)], axis=1).reshape(-1, 2, 2)
    places = _grid(height, width) @ (matrices * sizes[:, None]).transpose(0, 2, 1)
    places += amount(_SHIFT, 1, 2) * [height, width]
    places += _bent(amount(_BEND * max(height, width), 2, _COARSE, _COARSE), height, width)
    pixels = _looked_up(images, places + np.array([(height - 1) / 2, (width - 1) / 2]))
    blended = np.minimum(np.abs(amount(0.25, 1, 1, 1)), 0.5)
    pixels = pixels * (1 - blended) + mates * blended
    pixels = (pixels - 127.5) * np.exp(amount(_CONTRAST, 1, 1, 1)) + 127.5 + 255 * amount(_BRIGHTNESS, 1, 1, 1)
    pixels += 255 * amount(_NOISE, *images.shape[1:], chance=0.25)
    return np.asarray(np.rint(np.clip(pixels, 0, 255)).astype(np.uint8))


def _grid(height: int, width: int) -> Float64[Array, "pixels 2"]:
    """Returns the place of each pixel, row and column, from the middle."""
    axes = [np.arange(side) - (side - 1) / 2 for side in (height, width)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)


def _bent(field: Float64[Array, "images 2 rows columns"], height: int, width: int) -> Places:
    """Returns the displacement of each pixel by a coarse field, smoothed by a Gaussian."""

    def near(side: int) -> Array:
        place = np.arange(side)[:, None] / max(side - 1, 1) * (_COARSE - 1)
        weights = np.exp(-0.5 * ((place - np.arange(_COARSE)) / _AROUND) ** 2)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    moved = near(height) @ field @ near(width).T
    return np.asarray(moved.reshape(len(field), 2, -1).transpose(0, 2, 1))


def _looked_up(images: Pixels, places: Places) -> Float64[Array, "images height width channels"]:
    """Returns intensities at places, rows before columns, by bilinear interpolation; the border goes on for ever."""
    _, height, width, _ = images.shape
    inside = np.clip(places, 0, [height - 1, width - 1])
    low = np.minimum(inside.astype(np.int64), [height - 2, width - 2])
    down, right = np.moveaxis(inside - low, 2, 0)[..., None]
    each, row, column = np.arange(len(images))[:, None], low[..., 0], low[..., 1]
    above = images[each, row, column] * (1 - right) + images[each, row, column + 1] * right
    below = images[each, row + 1, column] * (1 - right) + images[each, row + 1, column + 1] * right
    return np.asarray(above * (1 - down) + below * down).reshape(images.shape)
