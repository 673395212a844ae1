"""Expected features of a record whose columns are independent draws from given cells, exactly and differentiably.

For a Fourier feature, E exp(iφ) = Π over its columns of E exp(iφ_column): the product of the columns' characteristic
functions. An interval [a, b] under frequency ω has exp(iω(a+b)/2)·sinc(ω(b−a)/2); an atom and a level are one complex
number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from noisegate.features.categorical import Levels
from noisegate.features.fourier import TURN, RandomFourier
from noisegate.fitting.embedding import RowEmbedding
from noisegate.generators.cells import Cells


class ExpectedFourier(RowEmbedding):
    """`RandomFourier` in expectation over the cells of each column.

    Args:
        features: The frozen features.
        cells: Cells of each numeric column.
        sizes: Number of codes of each coded column.
    """

    order: Tensor

    def __init__(self, features: RandomFourier, cells: Sequence[Cells], sizes: Sequence[int]) -> None:
        super().__init__()
        count = features.members.shape[0]
        self.scale = float(count**-0.5)
        tables = [_numeric_table(features, j, cell) for j, cell in enumerate(cells)]
        tables += [np.exp(1j * radians(features.angles[j])) for j in range(len(sizes))]
        # For each place in `members`: which columns stand there, with the table of the features that look at them.
        self.places: list[list[tuple[int, str]]] = []
        for place in range(features.members.shape[1]):
            column_of = features.members[:, place]
            parts = []
            for column in np.unique(column_of).tolist():
                chosen = np.flatnonzero(column_of == column)
                table = tables[column][:, chosen] if column >= 0 else np.ones((1, len(chosen)))
                name = f"table_{place}_{column if column >= 0 else 'none'}"
                stacked = np.hstack([table.real, table.imag]).T.astype(np.float32)
                self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(stacked)))
                parts.append((column, name))
            self.places.append(parts)
            grouped = np.concatenate([np.flatnonzero(column_of == column) for column, _ in parts])
            self.register_buffer(f"order_{place}", torch.from_numpy(np.argsort(grouped)))

    def forward(self, probabilities: Sequence[Tensor]) -> Tensor:
        """Returns expected features, (2F, rows), in the order of `RandomFourier`.

        Args:
            probabilities: For each column, numeric ones first, (cells, rows).
        """
        real, imaginary = self._place(0, probabilities)
        for place in range(1, len(self.places)):
            other_real, other_imaginary = self._place(place, probabilities)
            real, imaginary = (
                real * other_real - imaginary * other_imaginary,
                real * other_imaginary + imaginary * other_real,
            )
        features: Tensor = torch.stack([real, imaginary], dim=1).flatten(0, 1) * self.scale
        return features

    def _place(self, place: int, probabilities: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Returns the characteristic functions of the columns at one place of `members`, (F, rows) each."""
        real, imaginary = [], []
        rows = probabilities[0].shape[1]
        for column, name in self.places[place]:
            table = self.get_buffer(name)
            first, second = (table @ probabilities[column] if column >= 0 else table.expand(-1, rows)).chunk(2)
            real.append(first)
            imaginary.append(second)
        order = self.get_buffer(f"order_{place}")
        # Features stand in rows so that this picks whole rows, which is fast forward and backward.
        return torch.cat(real).index_select(0, order), torch.cat(imaginary).index_select(0, order)


def radians(angles: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Returns angles in 1/4096 turns as radians."""
    return np.asarray(angles * (2 * math.pi / TURN), dtype=np.float64)


def _numeric_table(features: RandomFourier, column: int, cells: Cells) -> npt.NDArray[np.complex128]:
    omega = features.frequencies[column] * (2 * math.pi / TURN)
    middle, half = (cells.low + cells.high) / 2, (cells.high - cells.low) / 2
    # numpy's sinc is sin(πx)/(πx)
    table = np.exp(1j * np.outer(middle, omega)) * np.sinc(np.outer(half, omega) / math.pi)
    if cells.missing:
        table = np.vstack([table, np.exp(1j * radians(features.missing_angles[column]))])
    return np.asarray(table, dtype=np.complex128)


class ExpectedLevels(RowEmbedding):
    """`Levels` in expectation over the cells of each coded column.

    Args:
        features: The frozen features.
        positions: Where each of its columns stands among the generator's columns.
    """

    def __init__(self, features: Levels, positions: Sequence[int]) -> None:
        super().__init__()
        self.positions = tuple(positions)
        self.amplitude = features.amplitude

    def forward(self, probabilities: Sequence[Tensor]) -> Tensor:
        """Returns expected features, (dim, rows)."""
        return torch.cat([probabilities[position] for position in self.positions]) * self.amplitude
