"""Wavelet energies of images: how much of which direction and fineness a part of an image has, whatever its phase.

A Morlet wavelet of direction θ and wavelength λ is a plane wave under a Gaussian window of 0.6 λ, less so much of the
window along the axis that has most of the wave that its sum is zero. The modulus of an image's product with it at a
place is how strongly the image waves there in that direction, wherever crests lie; moduli are averaged over overlapping
cells. That is a scattering transform of first order, Bruna and Mallat (IEEE TPAMI 2013),
https://doi.org/10.1109/TPAMI.2012.230, equation 9. Pixels and gradients say where edges are: of stripes and checks,
which begin anywhere, their means over images say next to nothing, these moduli do.

All of it is sums of products of whole numbers, then roots and divisions, which IEEE 754 rounds in one way only: so a
record's vector is a function of that record alone, bit for bit, on every machine. A wave in the plane is a product of
one downwards and one to the right, so two matrix products with few columns give it. `WaveletFourier` are random Fourier
features of these numbers, in integers too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.features.feature_map import Constants, Made, RowForm
from noisegate.features.fourier import FourierOfValues, RandomFourier
from noisegate.features.orientation import INTENSITIES, damped, in_pieces
from noisegate.schema import EncodedTable
from noisegate.schema.pixels import ImageShape

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

Whole = npt.NDArray[np.float64]
"""Whole numbers below 2⁵³, whose sums and products are exact in whatever order a matrix product adds."""

WAVELENGTHS = (3.0, 4.2, 6.0, 8.5)
"""In pixels, of images of sides up to 48; of larger ones in proportion."""
STRIDE = 4
"""Pixels from one place to the next at which waves are looked at, likewise; fewer where images are small."""
_WINDOW = 0.6  # of a wavelength
_REFERENCE = 32  # pixels of a side that the wavelengths are for
_STEPS = 4096  # wavelets are rounded to this part of their sum
_BITS = 25  # of each part of a modulus, so that cells, whose weights have 24 at most, add moduli up exactly
_AT_ONCE = 2**15  # pixels whose waves a processor's cache holds
_TINY = 1e-14  # the modulus of nothing has no slope


@dataclass(frozen=True, kw_only=True, eq=False)
class Waves:
    """The wavelets of all lengths and directions as matrices.

    Attributes:
        right: From the rows of an image to real and imaginary parts along them, (width, wavelets · 2 · places).
        down: From columns of these, real over imaginary ones, to the same of the products, (wavelets, 2 · places,
            2 · height).
        cells: What adds up places down, and places to the right, in cells, (cells, places) each.
        bits: By how many bits moduli are cut, so that cells add them up exactly.
    """

    right: Whole
    down: Whole
    cells: tuple[Whole, Whole]
    bits: int


@dataclass(frozen=True, kw_only=True)
class Wavelets:
    """Moduli of wavelet coefficients in cells, divided by their length and a bit.

    Attributes:
        image: Shape of the images; channels are averaged.
        cells: Cells along each side, at most; each reaches to the middle of its neighbours.
        directions: Number of directions in half a turn.
        damping: The values of an image are divided by their length plus this number.

    Raises:
        OptionError: if there are no cells, or fewer than two directions.
    """

    image: ImageShape
    cells: int = 4
    directions: int = 8
    damping: float = 0.02

    def __post_init__(self) -> None:
        if self.cells < 1:
            raise OptionError(f"cells={self.cells!r} must be 1 or more.")
        if self.directions < 2:
            raise OptionError(f"directions={self.directions!r} must be 2 or more.")

    @property
    def size(self) -> int:
        """Number of values of an image."""
        return len(WAVELENGTHS) * self.directions * math.prod(len(cells) for cells in self.waves.cells)

    @cached_property
    def waves(self) -> Waves:
        """The wavelets, length by length."""
        sides = self.image.height, self.image.width
        zoom = max(round(max(sides) / _REFERENCE), 1)
        # So there are at most twelve places along a side of any length, or twice as many as cells.
        strides = [max(min(zoom * STRIDE, side // self.cells), 1) for side in sides]
        angles = math.pi * np.arange(self.directions) / self.directions
        down, right = (
            np.stack([_axis(side, stride, zoom * length, part) for length in WAVELENGTHS for part in parts.tolist()])
            for side, stride, parts in zip(sides, strides, (np.sin(angles), np.cos(angles)), strict=True)
        )
        # A product is at most the largest intensity times the largest sum along each axis.
        most = [(np.abs(one.real) + np.abs(one.imag)).sum(axis=2).max() for one in (down, right)]
        largest = INTENSITIES * self.image.channels * math.prod(most)
        halves = [down.real, -down.imag], [down.imag, down.real]
        return Waves(
            right=np.stack([right.real, right.imag], axis=1).transpose(3, 0, 1, 2).reshape(sides[1], -1),
            down=np.concatenate([np.concatenate(half, axis=2) for half in halves], axis=1),
            cells=(_cells(down.shape[1], self.cells), _cells(right.shape[1], self.cells)),
            bits=max(math.ceil(math.log2(largest)) - _BITS, 0),
        )

    def __call__(self, numeric: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Returns the values of images in the order of `pixel_schema`, (rows, values)."""
        return in_pieces(self._values, numeric, _AT_ONCE // (self.image.height * self.image.width))

    def _values(self, numeric: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        (height, width, channels), rows, waves = self.image.axes, len(numeric), self.waves
        whole, (down, right) = np.rint(numeric * INTENSITIES), waves.cells
        gray = whole.reshape(-1, width, channels).sum(axis=2)
        across = (gray @ waves.right).reshape(rows, height, len(waves.down), 2, right.shape[1])
        across = across.transpose(2, 3, 1, 0, 4).reshape(len(waves.down), 2 * height, rows * right.shape[1])
        parts = (waves.down @ across).reshape(len(waves.down), 2, down.shape[1], rows, right.shape[1])
        real, imaginary = np.square(parts[:, 0]), np.square(parts[:, 1])
        moduli = np.rint(np.sqrt(real + imaginary) * 2.0**-waves.bits).transpose(2, 0, 1, 3)
        means = (down @ moduli @ right.T).reshape(rows, self.size)
        weights = np.outer(down.sum(axis=1), right.sum(axis=1)).flatten() * (INTENSITIES * channels * _STEPS**2)
        return damped(means * np.tile(2.0**waves.bits / weights, len(parts)), self.damping)


def _axis(side: int, stride: int, length: float, part: float) -> npt.NDArray[np.complex128]:
    """Returns what takes an axis of an image to a wave along it at each place, whole numbers, (places, side).

    `part` is that of the wave number along this axis. The sum is zero along the axis that has most of it, so that of
    the product is. Beyond the border the last pixel is repeated.
    """
    window, number = _WINDOW * length, 2 * math.pi * part / length
    beyond = math.ceil(3 * window)
    middles = np.arange(0, side, stride)[:, None] + (stride - 1) / 2
    away = np.arange(-beyond, side + beyond)[None] - middles
    under = np.exp(-0.5 * np.square(away / window)) * (_STEPS / (window * math.sqrt(2 * math.pi)))
    wave, most = np.asarray(under * np.exp(1j * number * away), dtype=np.complex128), part**2 > 0.5 - 1e-9
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
    middles, at = (2 * np.arange(count) + 1) * places, (2 * np.arange(places) + 1) * count
    return np.asarray(np.maximum(2 * places - np.abs(at[None] - middles[:, None]), 0), dtype=np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class WaveletFourier(FourierOfValues):
    """Random Fourier features of wavelet energies.

    Attributes:
        wavelets: Of which images, in which cells and directions.
        fourier: On as many numeric columns as there are energies.
    """

    wavelets: Wavelets
    fourier: RandomFourier

    def values(self, records: EncodedTable) -> npt.NDArray[np.float64]:
        """Returns the energies, (rows, values)."""
        return self.wavelets(records.numeric)

    def of_points(self) -> RowForm:
        """Returns the features of images in the order of `pixel_schema`, (rows, pixels), up to rounding."""
        import torch

        wavelets, shape = self.wavelets, self.wavelets.image

        def features(constants: Constants, points: Made) -> Float[Tensor, "dim rows"]:
            assert isinstance(points, torch.Tensor)
            rows, (height, width, channels) = len(points), shape.axes
            right, down = constants["right"], constants["down"]
            gray = points.reshape(-1, width, channels).mean(dim=2)
            across = (gray @ right).reshape(rows, height, len(down), 2, -1).permute(2, 3, 1, 0, 4)
            parts = down @ across.reshape(len(down), 2 * height, -1)
            moduli = (parts.unflatten(1, (2, -1)).square().sum(dim=1) + _TINY).sqrt()
            # Cells down before cells to the right, so that fewer numbers are turned round.
            cells = (constants["cells down"] @ moduli).unflatten(2, (rows, -1)) @ constants["cells right"].T
            values = cells.permute(2, 0, 1, 3).flatten(1)
            lengths = (values.square().sum(dim=1, keepdim=True) + _TINY).sqrt()
            result: Tensor = constants["fourier"](values / (lengths + wavelets.damping))
            return result

        waves = wavelets.waves
        constants: dict[str, Any] = {"right": waves.right / _STEPS, "down": waves.down / _STEPS}
        for axis, cells in zip(("down", "right"), waves.cells, strict=True):
            constants[f"cells {axis}"] = cells / cells.sum(axis=1, keepdims=True)
        return RowForm(features, {**constants, "fourier": self.fourier.of_points()})
