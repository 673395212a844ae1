"""Gradient orientations of images: how much ink edges have, in which direction, in which part of the image.

Intensities differ from their neighbours by a gradient g at each pixel. In each of K directions u it counts
max(0, ⟨g, u⟩ − |⟨g, u⟂⟩|): for K = 8 linear interpolation between directions, as in histograms of oriented gradients,
Dalal and Triggs (CVPR 2005), https://doi.org/10.1109/CVPR.2005.177, but without an angle, whose slope has no bound. The
values of a direction are added up over overlapping cells with weights that fall off linearly, and left as they are, or
divided by their length and a bit (`damping`), so that faint and bold drawings of a thing are alike.

All of it is sums of products of whole numbers, then one root and one division, which IEEE 754 rounds in one way only:
so a record's vector is a function of that record alone, bit for bit, on every machine (G-06).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.features.feature_map import Constants, Made, RowForm
from noisegate.schema import EncodedTable
from noisegate.schema.pixels import ImageShape
from noisegate_images.features.fourier import VALUE_STEPS, FourierOfValues, RandomFourier

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

Values = npt.NDArray[np.float64]
INTENSITIES = 255
_TURNS = 64  # directions are rounded to 1/64
_AT_ONCE = 2**16  # pixels whose strengths a processor's cache holds: three to eight times as fast as whole blocks
_TINY = 1e-12  # an image of one shade has no slope of its length


@dataclass(frozen=True, kw_only=True)
class Orientations:
    """Gradient orientations in cells.

    Attributes:
        image: Shape of the images; channels are averaged.
        cell: Distance of the centres of two cells in pixels; a cell reaches this far to all sides of its own. The last
            ones may hang over the image.
        directions: Number of directions K.
        damping: Values are divided by their length plus this number; None leaves them as they are.

    Raises:
        OptionError: if `cell` is below one, the number of directions is odd or below four, or sums would not be exact.
    """

    image: ImageShape
    cell: int = 4
    directions: int = 8
    damping: float | None = None

    def __post_init__(self) -> None:
        if self.cell < 1:
            raise OptionError(f"cell={self.cell!r} must be a number of pixels, 1 or more.")
        if self.directions < 4 or self.directions % 2:
            raise OptionError(f"directions={self.directions!r} must be an even number, 4 or more.")
        self._check_exact()

    def _check_exact(self) -> None:
        """Refuses images and cells whose sums of whole numbers could reach 2⁵³, beyond which float64 rounds.

        What a direction of length 64, rounded, takes of a gradient of at most √2·255 a channel is below 3/2·255·64.
        """
        shape, cell = self.image, self.cell
        # The weights of a cell along an axis add up to 2 · cell², those inside the image to less.
        down, right = (min(2 * cell**2, side * (2 * cell - 1)) for side in (shape.height, shape.width))
        if 3 * INTENSITIES * shape.channels * _TURNS * down * right >= 2 * 2**53:
            raise OptionError(
                f"cell={cell!r}: sums over its pixels in images of {shape.height} x {shape.width} could reach 2^53 and "
                "would not be exact; give 256 or less."
            )
        if self.damping is not None and 9 * self.size * VALUE_STEPS**2 >= 4 * 2**53:
            raise OptionError(
                f"directions={self.directions!r} with cell={cell!r}: {self.size:,} values of an image are too many for "
                "their length to be exact; give fewer directions, larger cells or smaller images."
            )

    @property
    def grid(self) -> tuple[int, int]:
        """Number of cells from top to bottom and from left to right."""
        return -(-self.image.height // self.cell), -(-self.image.width // self.cell)

    @property
    def size(self) -> int:
        """Number of values of an image."""
        return self.directions * math.prod(self.grid)

    @property
    def unit(self) -> float:
        """What a whole number stands for: values are at most about √2, that of an image of nothing but edges."""
        return 1 / (INTENSITIES * self.image.channels * _TURNS * int(self.weights.sum()) ** 2)

    @property
    def weights(self) -> npt.NDArray[np.int64]:
        """Weights of pixels along one axis of a cell, (2 · cell,), falling off from its middle."""
        side = 2 * self.cell
        return np.minimum(2 * np.arange(side) + 1, 2 * np.arange(side)[::-1] + 1)

    @property
    def vectors(self) -> npt.NDArray[np.int64]:
        """The directions as (down, right) times 64, (directions, 2); the second half is opposite to the first."""
        angles = 2 * math.pi * np.arange(self.directions // 2) / self.directions
        half = np.rint(_TURNS * np.stack([np.sin(angles), np.cos(angles)], axis=1)).astype(np.int64)
        return np.concatenate([half, -half])

    def pooling(self, side: int) -> npt.NDArray[np.float64]:
        """Returns the weights of so many pixels along one axis in its cells, (cells, side)."""
        cells = -(-side // self.cell)
        matrix = np.zeros((cells, (cells + 1) * self.cell))
        for place in range(cells):
            matrix[place, place * self.cell :][: 2 * self.cell] = self.weights
        # A cell reaches half its width over its own sides, and at the border over the image's.
        return matrix[:, self.cell // 2 :][:, :side]

    def __call__(self, numeric: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Returns the values of images in the order of `pixel_schema`, (rows, directions · cells)."""
        return in_pieces(self._values, numeric, _AT_ONCE // (self.image.height * self.image.width))

    def _values(self, numeric: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        shape = self.image
        whole = np.rint(numeric * INTENSITIES)
        gray = whole.reshape(-1, shape.height, shape.width, shape.channels).sum(axis=3)
        wide = np.pad(gray, ((0, 0), (1, 1), (1, 1)), mode="edge")
        down, right = wide[:, 2:, 1:-1] - wide[:, :-2, 1:-1], wide[:, 1:-1, 2:] - wide[:, 1:-1, :-2]
        strength = np.empty((len(gray), self.directions, *gray.shape[1:]))
        half = self.directions // 2
        for place, (first, second) in enumerate(self.vectors[:half].tolist()):
            along, across = down * first + right * second, np.abs(down * second - right * first)
            np.maximum(along - across, 0, out=strength[:, place])
            np.maximum(-along - across, 0, out=strength[:, place + half])
        # Whole numbers below 2⁵³ (`_check_exact`): exact in whatever order a matrix product adds.
        pooled = self.pooling(shape.height) @ strength @ self.pooling(shape.width).T
        values = pooled.reshape(len(whole), self.size) * self.unit
        return values if self.damping is None else damped(values, self.damping)


def in_pieces(values: Callable[[Values], Values], numeric: Values, step: int) -> Values:
    """Returns the values of images, (rows, values), computed for `step` of them at a time, or one."""
    step = max(step, 1)
    # One piece at least, which of no image is empty.
    return np.concatenate([values(numeric[at : at + step]) for at in range(0, len(numeric) or 1, step)])


def damped(values: Values, damping: float) -> Values:
    """Returns each row divided by its length plus `damping`, bit for bit a function of that row."""
    # Whole numbers, whose squares add up to less than 2⁵³ (`_check_exact`): exact in any order.
    squares = np.square(np.rint(values * VALUE_STEPS)).sum(axis=1, keepdims=True)
    return np.asarray(values / (np.sqrt(squares) / VALUE_STEPS + damping))


@dataclass(frozen=True, kw_only=True, eq=False)
class OrientedFourier(FourierOfValues):
    """Random Fourier features of gradient orientations.

    Attributes:
        orientations: Of which images, in which cells and directions.
        fourier: On as many numeric columns as there are orientations.
    """

    orientations: Orientations
    fourier: RandomFourier

    def values(self, records: EncodedTable) -> npt.NDArray[np.float64]:
        """Returns the orientations, (rows, directions · cells)."""
        return self.orientations(records.numeric)

    def of_points(self) -> RowForm:
        """Returns the features of images in the order of `pixel_schema`, (rows, pixels), up to rounding."""
        import torch

        orientations, shape = self.orientations, self.orientations.image
        scale = orientations.unit * INTENSITIES

        def features(constants: Constants, points: Made) -> Float[Tensor, "dim rows"]:
            assert isinstance(points, torch.Tensor)
            gray = points.reshape(-1, 1, shape.height, shape.width, shape.channels).sum(dim=4)
            # Products with matrices of differences: padded pictures cost half as much again, most of it backwards.
            down, right = constants["down differences"] @ gray, gray @ constants["right differences"].T
            first, second = constants["vectors"][:, 0], constants["vectors"][:, 1]
            along, across = down * first + right * second, (down * second - right * first).abs()
            strength = torch.cat([along - across, -along - across], dim=1).relu()
            values = (constants["down"] @ strength @ constants["right"].T).flatten(1) * scale
            if orientations.damping is not None:
                squares = values.square().sum(dim=1, keepdim=True)
                values = values / (squares.clamp_min(_TINY).sqrt() + orientations.damping)
            result: Tensor = constants["fourier"](values)
            return result

        constants: dict[str, Any] = {}
        for name, side in (("down", shape.height), ("right", shape.width)):
            constants |= {name: orientations.pooling(side), f"{name} differences": _differences(side)}
        vectors = orientations.vectors[: orientations.directions // 2, :, None, None].astype(np.float64)
        return RowForm(features, {**constants, "vectors": vectors, "fourier": self.fourier.of_points()})


def _differences(side: int) -> npt.NDArray[np.float64]:
    """Returns what takes pixels to the difference of their two neighbours along an axis, (side, side)."""
    places, matrix = np.arange(side), np.zeros((side, side))
    matrix[places, np.minimum(places + 1, side - 1)] += 1
    matrix[places, np.maximum(places - 1, 0)] -= 1
    return matrix
