"""What edges and stripes say of images, bit for bit (G-06): gradient orientations and wavelet energies, by the part.

All of it is sums of products of whole numbers, then roots and divisions, which IEEE 754
rounds in one way only: so a record's vector is a function of that record alone, bit for
bit, on every machine (G-06).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.queries.feature_map import Constants, GeneratorOutput, RowForm
from noisegate.schema.pixels import ImageShape
from noisegate_images.queries.fourier import VALUE_STEPS

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

Values = npt.NDArray[np.float64]
INTENSITIES = 255
_TURNS = 64  # directions are rounded to 1/64
_AT_ONCE = (
    2**16
)  # pixels whose strengths a processor's cache holds: three to eight times as fast as whole blocks
_TINY = 1e-12  # an image of one shade has no slope of its length


@dataclass(frozen=True, kw_only=True)
class Orientations:
    """Gradient orientations in cells: how much ink edges have, in which direction.

    Intensities differ from their neighbours by a gradient g at each pixel. In each of K directions u it counts
    max(0, ⟨g, u⟩ − |⟨g, u⟂⟩|): for K = 8 linear interpolation of directions, as in histograms of oriented gradients,
    Dalal and Triggs (CVPR 2005), https://doi.org/10.1109/CVPR.2005.177, but without an angle, whose slope has no bound.

    Raises:
        OptionError: if `cell` is below one, the number of directions is odd or below four, or sums would not be exact.
    """

    image: ImageShape  # shape of the images; channels are averaged
    cell: int = 4  # distance of the centres of two cells in pixels, with weights that fall off linearly to all sides
    directions: int = 8  # number of directions K
    damping: float | None = None
    """Values are divided by their length plus this number, so that faint and bold drawings are alike, or not."""

    def __post_init__(self) -> None:
        if self.cell < 1:
            raise OptionError(
                f"cell={self.cell!r} must be a number of pixels, 1 or more."
            )
        if self.directions < 4 or self.directions % 2:
            raise OptionError(
                f"directions={self.directions!r} must be an even number, 4 or more."
            )
        self._check_exact()

    def _check_exact(self) -> None:
        """Refuses images and cells whose sums of whole numbers could reach 2⁵³, beyond which float64 rounds."""
        shape, cell = self.image, self.cell
        # What a direction of length 64, rounded, takes of a gradient of at most √2·255 a channel is below 3/2·255·64.
        # The weights of a cell along an axis add up to 2 · cell², those inside the image to less.
        down, right = (
            min(2 * cell**2, side * (2 * cell - 1))
            for side in (shape.height, shape.width)
        )
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
        return 1 / (
            INTENSITIES * self.image.channels * _TURNS * int(self.weights.sum()) ** 2
        )

    @property
    def weights(self) -> npt.NDArray[np.int64]:
        """Weights of pixels along one axis of a cell, (2 · cell,), falling off from its middle."""
        side = 2 * self.cell
        return np.minimum(2 * np.arange(side) + 1, 2 * np.arange(side)[::-1] + 1)

    @property
    def vectors(self) -> npt.NDArray[np.int64]:
        """The directions as (down, right) times 64, (directions, 2); the second half is opposite to the first."""
        angles = 2 * math.pi * np.arange(self.directions // 2) / self.directions
        half = np.rint(
            _TURNS * np.stack([np.sin(angles), np.cos(angles)], axis=1)
        ).astype(np.int64)
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
        return in_pieces(
            self._values, numeric, _AT_ONCE // (self.image.height * self.image.width)
        )

    def _values(self, numeric: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        shape = self.image
        whole = np.rint(numeric * INTENSITIES)
        gray = whole.reshape(-1, shape.height, shape.width, shape.channels).sum(axis=3)
        wide = np.pad(gray, ((0, 0), (1, 1), (1, 1)), mode="edge")
        down, right = (
            wide[:, 2:, 1:-1] - wide[:, :-2, 1:-1],
            wide[:, 1:-1, 2:] - wide[:, 1:-1, :-2],
        )
        strength = np.empty((len(gray), self.directions, *gray.shape[1:]))
        half = self.directions // 2
        for place, (first, second) in enumerate(self.vectors[:half].tolist()):
            along, across = (
                down * first + right * second,
                np.abs(down * second - right * first),
            )
            np.maximum(along - across, 0, out=strength[:, place])
            np.maximum(-along - across, 0, out=strength[:, place + half])
        # Whole numbers below 2⁵³, as was checked: exact in whatever order a matrix product adds.
        pooled = self.pooling(shape.height) @ strength @ self.pooling(shape.width).T
        values = pooled.reshape(len(whole), self.size) * self.unit
        return values if self.damping is None else damped(values, self.damping)

    def of_points(self) -> RowForm:
        """Returns the values of images, (rows, pixels), up to rounding."""
        import torch

        shape, scale = self.image, self.unit * INTENSITIES

        def features(
            constants: Constants, points: GeneratorOutput
        ) -> Float[Tensor, "values rows"]:
            assert isinstance(points, torch.Tensor)
            gray = points.reshape(-1, 1, shape.height, shape.width, shape.channels).sum(
                dim=4
            )
            # Products with matrices of differences: padded pictures cost half as much again, most of it backwards.
            down, right = (
                constants["down differences"] @ gray,
                gray @ constants["right differences"].T,
            )
            first, second = constants["vectors"][:, 0], constants["vectors"][:, 1]
            along, across = (
                down * first + right * second,
                (down * second - right * first).abs(),
            )
            strength = torch.cat([along - across, -along - across], dim=1).relu()
            values: Tensor = (
                constants["down"] @ strength @ constants["right"].T
            ).flatten(1) * scale
            if self.damping is not None:
                squares = values.square().sum(dim=1, keepdim=True)
                values = values / (squares.clamp_min(_TINY).sqrt() + self.damping)
            return values.T

        constants: dict[str, Any] = {}
        for name, side in (("down", shape.height), ("right", shape.width)):
            places, differences = np.arange(side), np.zeros((side, side))
            differences[places, np.minimum(places + 1, side - 1)] += 1
            differences[places, np.maximum(places - 1, 0)] -= 1
            constants |= {name: self.pooling(side), f"{name} differences": differences}
        vectors = self.vectors[: self.directions // 2, :, None, None].astype(np.float64)
        return RowForm(features, {**constants, "vectors": vectors})


def in_pieces(values: Callable[[Values], Values], numeric: Values, step: int) -> Values:
    """Returns the values of images, (rows, values), computed for `step` of them at a time, or one."""
    step = max(step, 1)
    # One piece at least, which of no image is empty.
    return np.concatenate(
        [values(numeric[at : at + step]) for at in range(0, len(numeric) or 1, step)]
    )


def damped(values: Values, damping: float) -> Values:
    """Returns each row divided by its length plus `damping`, bit for bit a function of that row."""
    # Whole numbers, whose squares add up to less than 2⁵³, as was checked: exact in any order.
    squares = np.square(np.rint(values * VALUE_STEPS)).sum(axis=1, keepdims=True)
    return np.asarray(values / (np.sqrt(squares) / VALUE_STEPS + damping))


Whole = npt.NDArray[np.float64]
"""Whole numbers below 2⁵³, whose sums and products are exact in whatever order a matrix product adds."""

WAVELENGTHS = (
    3.0,
    4.2,
    6.0,
    8.5,
)  # in pixels, of images of sides up to 48; of larger ones in proportion
STRIDE = 4  # pixels from one place to the next at which waves are examined, likewise; fewer where images are small
_WINDOW = 0.6  # of a wavelength
_REFERENCE = 32  # pixels of a side that the wavelengths are for
_STEPS = 4096  # wavelets are rounded to this part of their sum
_BITS = 25  # of each part of a modulus, so that cells, whose weights have 24 at most, add moduli up exactly
_WAVES_AT_ONCE = 2**15  # pixels whose waves a processor's cache holds
_TINY_MODULUS = 1e-14  # the modulus of nothing has no slope


@dataclass(frozen=True, kw_only=True, eq=False)
class Waves:
    """The wavelets of all lengths and directions as matrices, products of one downwards and one to the right.

    Directions θ and π − θ share the one to the right: a modulus does not mind if the one downwards bears its sign.
    """

    right: Whole
    """From columns of an image to real and imaginary parts of waves to the right, (1, 2 · waves · places, width)."""
    down: Whole
    """From lines of these, real beside imaginary ones, to the same of the products of each with its wave downwards and
    with the mirrored one, (waves, 2 · 2 · places, 2 · height)."""
    chosen: npt.NDArray[
        np.int64
    ]  # which of these products stands for each length and direction
    cells: tuple[
        Whole, Whole
    ]  # what adds up places down, and places to the right, in cells, (cells, places) each
    bits: int  # by how many bits moduli are cut, so that cells add them up exactly

    def parts(self, image: Any, right: Any, down: Any) -> Any:
        """Returns real and imaginary parts of products, (2 · waves, 2, places, places · rows), of numpy or of torch."""
        # Of the image, (height, width, rows); rows come last, so that no product needs its numbers in another order.
        height, rows = len(image), image.shape[2]
        lines, columns = (cells.shape[1] for cells in self.cells)
        across = (
            (right @ image)
            .reshape(2 * height, len(down), columns * rows)
            .swapaxes(0, 1)
        )
        return (down @ across).reshape(2 * len(down), 2, lines, columns * rows)


@dataclass(frozen=True, kw_only=True)
class Wavelets:
    """Moduli of wavelet coefficients in cells: how much of which direction and fineness, whatever its phase.

    A Morlet wavelet of direction θ and wavelength λ is a plane wave under a Gaussian window of 0.6 λ, less so much of
    the window along the axis that has most of the wave that its sum is zero. Moduli of products with it are averaged
    over overlapping cells: a scattering transform of first order, Bruna and Mallat (IEEE TPAMI 2013),
    https://doi.org/10.1109/TPAMI.2012.230, equation 9. Of stripes, which begin anywhere, means of pixels say nothing.

    Raises:
        OptionError: if there are no cells, or fewer than two directions.
    """

    image: ImageShape  # shape of the images; channels are averaged
    cells: int = 4  # cells along each side, at most; each reaches to the middle of its neighbours
    directions: int = 8  # number of directions in half a turn
    damping: float = (
        0.02  # the values of an image are divided by their length plus this number
    )

    def __post_init__(self) -> None:
        if self.cells < 1:
            raise OptionError(f"cells={self.cells!r} must be 1 or more.")
        if self.directions < 2:
            raise OptionError(f"directions={self.directions!r} must be 2 or more.")

    @property
    def size(self) -> int:
        """Number of values of an image."""
        return (
            len(WAVELENGTHS)
            * self.directions
            * math.prod(len(cells) for cells in self.waves.cells)
        )

    @cached_property
    def waves(self) -> Waves:
        """The wavelets, length by length."""
        sides = self.image.height, self.image.width
        zoom = max(round(max(sides) / _REFERENCE), 1)
        # So there are at most twelve places along a side of any length, or twice as many as cells.
        strides = [max(min(zoom * STRIDE, side // self.cells), 1) for side in sides]
        turns, directions = self.directions // 2 + 1, np.arange(self.directions)
        angles = math.pi * np.arange(turns) / self.directions
        down, right = (
            np.stack(
                [
                    _axis(side, stride, zoom * length, part)
                    for length in WAVELENGTHS
                    for part in parts.tolist()
                ]
            )
            for side, stride, parts in zip(
                sides, strides, (np.sin(angles), np.cos(angles)), strict=True
            )
        )
        # A product is at most the largest intensity times the largest sum along each axis.
        most = [
            (np.abs(one.real) + np.abs(one.imag)).sum(axis=2).max()
            for one in (down, right)
        ]
        largest = INTENSITIES * self.image.channels * math.prod(most)
        both = np.stack(
            [down, down.conj()], axis=1
        )  # (waves, mirrored or not, places, side)
        halves = (
            np.stack([both.real, -both.imag], axis=4),
            np.stack([both.imag, both.real], axis=4),
        )
        turned = np.minimum(directions, self.directions - directions)
        chosen = 2 * (turns * np.arange(len(WAVELENGTHS))[:, None] + turned) + (
            turned < directions
        )
        return Waves(
            right=np.stack([right.real, right.imag]).reshape(1, -1, sides[1]),
            down=np.stack(halves, axis=2).reshape(len(down), -1, 2 * sides[0]),
            chosen=chosen.flatten(),
            cells=(
                _cells(down.shape[1], self.cells),
                _cells(right.shape[1], self.cells),
            ),
            bits=max(math.ceil(math.log2(largest)) - _BITS, 0),
        )

    def __call__(self, numeric: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Returns the values of images in the order of `pixel_schema`, (rows, values)."""
        return in_pieces(
            self._values,
            numeric,
            _WAVES_AT_ONCE // (self.image.height * self.image.width),
        )

    def _values(self, numeric: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        (height, width, channels), rows, waves = (
            self.image.axes,
            len(numeric),
            self.waves,
        )
        whole, (down, right) = np.rint(numeric * INTENSITIES), waves.cells
        gray = whole.reshape(rows, height, width, channels).sum(axis=3)
        parts = waves.parts(gray.transpose(1, 2, 0), waves.right, waves.down)
        moduli = np.rint(
            np.sqrt(np.square(parts[:, 0]) + np.square(parts[:, 1])) * 2.0**-waves.bits
        )
        means = right @ (down @ moduli).reshape(
            len(moduli), len(down), right.shape[1], rows
        )
        weights = np.outer(down.sum(axis=1), right.sum(axis=1)) * (
            INTENSITIES * channels * _STEPS**2
        )
        values = means[waves.chosen] * (2.0**waves.bits / weights)[:, :, None]
        return damped(values.reshape(self.size, rows).T, self.damping)

    def of_points(self) -> RowForm:
        """Returns the values of images, (rows, pixels), up to rounding."""
        import torch

        waves = self.waves

        def features(
            constants: Constants, points: GeneratorOutput
        ) -> Float[Tensor, "values rows"]:
            assert isinstance(points, torch.Tensor)
            rows, (height, width, channels) = len(points), self.image.axes
            image = (
                points.reshape(rows, height, width, channels)
                .mean(dim=3)
                .permute(1, 2, 0)
            )
            parts = waves.parts(image, constants["right"], constants["down"])
            moduli = (parts.square().sum(dim=1) + _TINY_MODULUS).sqrt()
            summed = (constants["cells down"] @ moduli).unflatten(2, (-1, rows))
            values: Tensor = (constants["cells right"] @ summed)[waves.chosen].reshape(
                -1, rows
            )
            lengths = (values.square().sum(dim=0) + _TINY_MODULUS).sqrt()
            return values / (lengths + self.damping)

        constants: dict[str, Any] = {
            "right": waves.right / _STEPS,
            "down": waves.down / _STEPS,
        }
        for axis, cells in zip(("down", "right"), waves.cells, strict=True):
            constants[f"cells {axis}"] = cells / cells.sum(axis=1, keepdims=True)
        return RowForm(features, constants)


def _axis(
    side: int, stride: int, length: float, part: float
) -> npt.NDArray[np.complex128]:
    """Returns what takes an axis of an image to a wave along it at each place, whole numbers, (places, side)."""
    # `part` is that of the wave number along this axis. Beyond the border the last pixel is repeated.
    window, number = _WINDOW * length, 2 * math.pi * part / length
    beyond = math.ceil(3 * window)
    middles = np.arange(0, side, stride)[:, None] + (stride - 1) / 2
    away = np.arange(-beyond, side + beyond)[None] - middles
    under = np.exp(-0.5 * np.square(away / window)) * (
        _STEPS / (window * math.sqrt(2 * math.pi))
    )
    wave, most = (
        np.asarray(under * np.exp(1j * number * away), dtype=np.complex128),
        part**2 > 0.5 - 1e-9,
    )
    if most:
        wave -= under * (wave.sum(axis=1) / under.sum(axis=1))[:, None]
    wave = np.rint(wave.real) + 1j * np.rint(wave.imag)
    if most:  # what rounding left
        wave[np.arange(len(wave)), under.argmax(axis=1)] -= wave.sum(axis=1)
    inside = wave[:, beyond : beyond + side].copy()
    inside[:, 0] += wave[:, :beyond].sum(axis=1)
    inside[:, -1] += wave[:, beyond + side :].sum(axis=1)
    return np.asarray(inside)


def _cells(places: int, most: int) -> Whole:
    """Returns whole weights of places along an axis, which fall off from the middle of each cell, (cells, places)."""
    count = min(most, places)
    middles, at = (
        (2 * np.arange(count) + 1) * places,
        (2 * np.arange(places) + 1) * count,
    )
    return np.asarray(
        np.maximum(2 * places - np.abs(at[None] - middles[:, None]), 0),
        dtype=np.float64,
    )
