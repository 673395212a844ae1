"""Private Evolution of images: RANDOM_API and VARIATION_API of the paper are operations on pixels.

What the paper calls RANDOM_API and VARIATION_API are operations on pixels here.
Everything follows from public images, from a public seed and from what was released
(`noisegate_papers.methods.pe`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.records import Images, Rows
from noisegate_papers.models.record_sets import WeightedReference
from noisegate_papers.queries.votes import ImageVotes, check_votes

if TYPE_CHECKING:
    from jaxtyping import Float, Float64, Int64, UInt8

    from noisegate.queries.feature_map import FeatureMap
    from noisegate_images.networks.decoder import LoadedDecoder

    Array = npt.NDArray[Any]
    Pixels = UInt8[Array, "images height width channels"]
    Places = Float64[Array, "images pixels 2"]

STEPS = 16  # points on a stroke

# Of a variation of degree 1: radians, logarithms, and parts of the side of an image.
_TURN, _SHEAR, _SIZE, _SHIFT, _BEND = 0.25, 0.25, 0.25, 0.08, 0.06
# Points on each side of the coarse field that bends an image, and the width of what is around each, in their distance.
_COARSE, _AROUND = 4, 0.7
_CONTRAST, _BRIGHTNESS, _NOISE = 0.5, 0.12, 0.05
_BLOCK = 256  # images that are worked on at once


@dataclass(frozen=True, eq=False)
class Beginning:
    """What there is to begin with (RANDOM_API): public images, of any label where none has one, or simulated shapes."""

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


def simulated_shapes(
    count: int, shape: tuple[int, int, int], random: np.random.Generator
) -> Pixels:
    """Returns images of one to three strokes, curves of Bézier, of random width, softness and colours."""
    height, width, channels = shape
    along = np.linspace(0, 1, STEPS)[:, None]
    weights = np.hstack(
        [
            (1 - along) ** 3,
            3 * along * (1 - along) ** 2,
            3 * along**2 * (1 - along),
            along**3,
        ]
    )
    pixels = _grid(height, width) / max(height, width)
    images = np.empty((count, *shape), dtype=np.uint8)
    for image in images:
        ends = (
            (random.random((random.integers(1, 4), 4, 2)) - 0.5)
            * 0.9
            * [height, width]
            / max(height, width)
        )
        points = (weights @ ends).reshape(-1, 2)
        apart = (
            np.sqrt(np.square(pixels[:, None] - points).sum(axis=2)).min(axis=1) * 28
        )
        ink = np.clip(
            0.5 + (random.uniform(0.5, 2.5) - apart) / random.uniform(0.8, 2.0), 0, 1
        )[:, None]
        ground, stroke = np.zeros(channels), np.ones(channels)
        if random.random() < 0.5:
            ground, stroke = random.random((2, channels))
        image[...] = np.rint(255 * (ground * (1 - ink) + stroke * ink)).reshape(shape)
    return images


def varied(
    images: Pixels, mates: Pixels, degree: float, random: np.random.Generator
) -> Pixels:
    """Returns a variation of each image: turned, sheared, resized, shifted, bent, blended, of other contrast, noisy."""
    # Each operation is done to half of the images, noise to a quarter; the rest is for selection. A part of each of
    # `mates` is blended in, and `degree` goes from 0, which changes nothing, to 1.
    parts = [
        _varied(
            images[start : start + _BLOCK],
            mates[start : start + _BLOCK],
            degree,
            random,
        )
        for start in range(0, len(images), _BLOCK)
    ]
    return np.concatenate(parts) if parts else images


def _varied(
    images: Pixels, mates: Pixels, degree: float, random: np.random.Generator
) -> Pixels:
    count, height, width, _ = images.shape

    def amount(spread: float, *shape: int, chance: float = 0.5) -> Array:
        chosen = random.random((count, *(1 for _ in shape))) < chance
        return random.normal(0, spread * degree, (count, *shape)) * chosen

    turn, shear, sizes = amount(_TURN), amount(_SHEAR), np.exp(amount(_SIZE, 2))
    matrices = np.stack(
        [np.cos(turn), -np.sin(turn), np.sin(turn) + shear, np.cos(turn)], axis=1
    ).reshape(-1, 2, 2)
    places = _grid(height, width) @ (matrices * sizes[:, None]).transpose(0, 2, 1)
    places += amount(_SHIFT, 1, 2) * [height, width]
    places += _bent(
        amount(_BEND * max(height, width), 2, _COARSE, _COARSE), height, width
    )
    pixels = _looked_up(images, places + np.array([(height - 1) / 2, (width - 1) / 2]))
    blended = np.minimum(np.abs(amount(0.25, 1, 1, 1)), 0.5)
    pixels = pixels * (1 - blended) + mates * blended
    pixels = (
        (pixels - 127.5) * np.exp(amount(_CONTRAST, 1, 1, 1))
        + 127.5
        + 255 * amount(_BRIGHTNESS, 1, 1, 1)
    )
    pixels += 255 * amount(_NOISE, *images.shape[1:], chance=0.25)
    return np.asarray(np.rint(np.clip(pixels, 0, 255)).astype(np.uint8))


def _grid(height: int, width: int) -> Float64[Array, "pixels 2"]:
    """Returns the place of each pixel, row and column, from the middle."""
    axes = [np.arange(side) - (side - 1) / 2 for side in (height, width)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)


def _bent(
    field: Float64[Array, "images 2 rows columns"], height: int, width: int
) -> Places:
    """Returns the displacement of each pixel by a coarse field, smoothed by a Gaussian."""

    def near(side: int) -> Array:
        place = np.arange(side)[:, None] / max(side - 1, 1) * (_COARSE - 1)
        weights = np.exp(-0.5 * ((place - np.arange(_COARSE)) / _AROUND) ** 2)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    moved = near(height) @ field @ near(width).T
    return np.asarray(moved.reshape(len(field), 2, -1).transpose(0, 2, 1))


def _looked_up(
    images: Pixels, places: Places
) -> Float64[Array, "images height width channels"]:
    """Returns intensities at places, rows before columns, by bilinear interpolation; the border continues for ever."""
    _, height, width, _ = images.shape
    inside = np.clip(places, 0, [height - 1, width - 1])
    low = np.minimum(inside.astype(np.int64), [height - 2, width - 2])
    down, right = np.moveaxis(inside - low, 2, 0)[..., None]
    each, row, column = np.arange(len(images))[:, None], low[..., 0], low[..., 1]
    above = (
        images[each, row, column] * (1 - right) + images[each, row, column + 1] * right
    )
    below = (
        images[each, row + 1, column] * (1 - right)
        + images[each, row + 1, column + 1] * right
    )
    return np.asarray(above * (1 - down) + below * down).reshape(images.shape)


FEWEST = 20  # candidates that there are at least, where so many are allowed


Variations: TypeAlias = "Callable[[Pixels, Pixels, float, np.random.Generator], Pixels]"
"""VARIATION_API of the paper: varies images, given what may be mixed in, a degree from 0 to 1 and public randomness."""


class DecodedVariations:
    """Variations by a public decoder: what it draws for a feature near that of an image; mates are not used."""

    def __init__(self, encoding: FeatureMap, decoder: LoadedDecoder) -> None:
        self._encoding, self._decoder = encoding, decoder

    def __call__(
        self, images: Pixels, mates: Pixels, degree: float, random: np.random.Generator
    ) -> Pixels:
        """See `Variations`; at degree 1 a feature is moved by its own length."""
        import torch

        parts = []
        for start in range(0, len(images), _BLOCK):
            features = self._encoding(Images(images[start : start + _BLOCK]))
            moved = features + degree * random.normal(
                0, self._encoding.dim**-0.5, features.shape
            )
            moved /= np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-12)
            noise = random.normal(size=(len(moved), self._decoder.latent))
            with torch.no_grad():
                decoded = self._decoder(
                    *(
                        torch.from_numpy(one.astype(np.float32))
                        for one in (moved, noise)
                    )
                )
            parts.append(np.rint(np.clip(decoded.numpy(), 0, 1) * 255).astype(np.uint8))
        return np.concatenate(parts).reshape(images.shape) if parts else images


class ImageEvolution:
    """The candidates of one round after the other, `images`, and the label of each, ascending, `labels`.

    `counts` are noisy numbers of images of each label, one where there are none; for the settings see
    `PrivateEvolution`.
    """

    def __init__(
        self,
        counts: Float[Array, " labels"],
        beginning: Beginning,
        vary: Variations,
        *,
        candidates: int,
        noise_std: float,
        rounds: int,
        variation: float,
        random: np.random.Generator,
    ) -> None:
        self._counts, self._vary, self._noise_std, self._random = (
            np.maximum(counts, 1.0),
            vary,
            noise_std,
            random,
        )
        self._rounds, self._variation, self._round = rounds, variation, 0
        # As many as may have more votes each than the noise.
        least = min(max(FEWEST, len(counts)), candidates)
        numbers = self._shared(
            int(np.clip(self._counts.sum() / noise_std, least, candidates))
        )
        self.labels = np.repeat(np.arange(len(counts), dtype=np.int32), numbers)
        self.images = np.concatenate(
            [
                beginning.images(label, number, random)
                for label, number in enumerate(numbers.tolist())
            ]
        )

    def votes(self, encoding: FeatureMap, label: int | None) -> ImageVotes:
        """Returns the map that asks for the votes of this round, by what `encoding` gives; see `ImageVotes`."""
        blocks = range(0, len(self.images), _BLOCK)
        candidates = np.concatenate(
            [encoding(Images(self.images[start : start + _BLOCK])) for start in blocks]
        )
        return ImageVotes(
            encoding=encoding, candidates=candidates, labels=self.labels, label=label
        )

    def select(self, votes: Float64[Array, " candidates"]) -> None:
        """Makes the candidates of the next round: those with votes above the noise, and variations of them."""
        weights = self._weights(votes)
        self._round += 1
        self.images = self._drawn(
            weights, np.bincount(self.labels, minlength=len(self._counts))
        )

    def model(
        self, votes: Float64[Array, " candidates"], images: int, label: int | None
    ) -> WeightedReference:
        """Returns images to draw from, in the labels' noisy shares: by votes of the last round, and variations."""
        weights = self._weights(votes)
        self._round += 1
        numbers = self._shared(images)
        drawn, labels = (
            self._drawn(weights, numbers),
            np.repeat(np.arange(len(numbers), dtype=np.int32), numbers),
        )
        shares = (self._counts / numbers)[labels]
        records = Images(drawn, None if label is None else labels)
        return WeightedReference(records=records, weights=shares[None], label=label)

    def _shared(self, total: int) -> Int64[Array, " labels"]:
        """Returns how many of `total` each label has: its share, rounded down, and one at least."""
        spare = max(total - len(self._counts), 0)
        return np.asarray(
            1 + (spare * self._counts / self._counts.sum()).astype(np.int64)
        )

    def _weights(
        self, votes: Float64[Array, " candidates"]
    ) -> Float64[Array, " candidates"]:
        """Returns how far votes exceed the noise; of a label without such votes, all candidates weigh the same."""
        check_votes(votes, len(self.labels), self._round)
        weights = np.maximum(votes - self._noise_std, 0.0)
        none = np.bincount(self.labels, weights, len(self._counts)) == 0
        return np.where(none[self.labels], 1.0, weights)

    def _drawn(
        self, weights: Float64[Array, " candidates"], numbers: Int64[Array, " labels"]
    ) -> Pixels:
        """Returns images by weight, so many a label: a candidate as it is once, and variations when it repeats."""
        degree = self._variation * (1 - self._round / (self._rounds + 1))
        parts = []
        for label, number in enumerate(numbers.tolist()):
            mine = np.flatnonzero(self.labels == label)
            ends = np.cumsum(weights[mine])
            comb = (np.arange(number) + self._random.random()) / number * ends[-1]
            chosen = mine[
                np.minimum(
                    np.searchsorted(ends, comb, side="right"),
                    np.flatnonzero(weights[mine])[-1],
                )
            ]
            images = self.images[chosen]
            again = np.flatnonzero(np.diff(chosen, prepend=-1) == 0)
            mates = self.images[self._random.choice(chosen, len(again))]
            images[again] = self._vary(images[again], mates, degree, self._random)
            parts.append(images)
        return np.concatenate(parts)
