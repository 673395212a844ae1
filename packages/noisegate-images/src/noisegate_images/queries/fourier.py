"""Random Fourier features of mixed records, computed in integers, so that every machine gets the same bits.

A feature pair is (cos φ, sin φ)/√F of a phase φ that adds up over the columns it looks
at:

* a numeric column with value x in [0, 1] adds ω·x, ω ~ N(0, 1/ℓ²): the Gaussian kernel
  of length scale ℓ;
* a coded column adds a random angle for its level, and a missing numeric value one of
  its own.

With F frequencies the vector has norm 1 exactly, up to rounding: Rahimi and Recht
(NeurIPS 2007), and DP-MERF, Harder, Adamczewski and Park (AISTATS 2021),
https://arxiv.org/abs/2002.11603, section 3.

Phases are whole numbers, and (cos φ, sin φ) comes from a table of 4096 angles (G-06).
The torch forms round nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.privacy.grid import BLOCK_LIMIT, Grid
from noisegate.queries.feature_map import Constants, ExactSum, GeneratorOutput, RowForm
from noisegate.schema import EncodedTable, Layout
from noisegate.schema.layout import Cells, numeric_cells

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

Kernel = Literal["pairs", "numeric"]

VALUE_STEPS, TURN = 65_536, 4_096
_WHOLE = (
    1.5 * 2.0**52
)  # between 2⁵² and 2⁵³ float64 has the whole numbers only; a multiple of TURN
_LARGEST_PHASE = 2**26
TABLE_ROWS = 128  # looked-up vectors have the same bits in blocks of any size; this one stays in the cache of a core
assert TABLE_ROWS <= BLOCK_LIMIT
_LARGEST_FREQUENCY = (
    2**19
)  # in 1/4096 turns per unit: 128 turns over the range of a column


@dataclass(frozen=True, kw_only=True)
class RandomFourier:
    """Frozen random Fourier features."""

    frequencies: npt.NDArray[np.int64]
    """(numeric columns, F) integers, in 1/4096 turns over the column's range; 0 where not examined."""
    angles: tuple[npt.NDArray[np.int64], ...]
    """For each coded column of the layout, (codes, F) integers in [0, 4096); all 0 where not examined."""
    missing_angles: npt.NDArray[
        np.int64
    ]  # (numeric columns, F) integers in [0, 4096): the angle of a missing value
    members: npt.NDArray[np.int64]
    """(F, width) positions of the columns that a frequency looks at: numeric ones first, then coded ones counted on
    from the number of numeric columns; −1 for none."""
    norm: float = 1.0
    nonnegative: bool = False

    def __post_init__(self) -> None:
        # Phases stay below 2²⁷ in steps of 2⁻¹⁶, 43 bits: every sum of them is exact in float64.
        if np.abs(self.frequencies).sum(axis=0).max(initial=0) >= _LARGEST_PHASE:
            raise OptionError(
                "frequencies are too high for exact phases; use larger length scales."
            )

    @cached_property
    def _weights(self) -> npt.NDArray[np.float64]:
        return self.frequencies / VALUE_STEPS

    @cached_property
    def _table(self) -> npt.NDArray[np.complex64]:
        amplitude = self.frequencies.shape[1] ** -0.5
        return np.asarray(
            amplitude * np.exp(1j * (np.arange(TURN) * (2 * math.pi / TURN))),
            dtype=np.complex64,
        )

    @cached_property
    def _coded(self) -> list[tuple[int, npt.NDArray[np.float64]]]:
        return [
            (j, table.astype(np.float64))
            for j, table in enumerate(self.angles)
            if table.any()
        ]

    @property
    def dim(self) -> int:
        """Twice the number of frequencies."""
        return 2 * len(self.members)

    @property
    def pairs(self) -> npt.NDArray[np.float32]:
        """The pair of coordinates (cos, sin)/√F of each angle, (4096, 2): every vector is made of F of these."""
        return self._table.view(np.float32).reshape(TURN, 2)

    def __call__(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Returns pairs (cos, sin) over √F, one after the other, (rows, 2F)."""
        rows = max(len(records), 1)
        angles = next(
            self.angle_blocks(records, rows),
            np.empty((0, len(self.members)), dtype=np.int64),
        )
        return self._table.take(angles, mode="clip").view(np.float32)

    def angle_blocks(
        self, records: EncodedTable, rows: int
    ) -> Iterator[npt.NDArray[np.int64]]:
        """Yields each pair's position in `pairs`, for blocks of at most `rows` records, all in the same memory."""
        values = np.rint(records.numeric * VALUE_STEPS)
        missing = np.isnan(values)
        absent = [
            (place, missing[:, place]) for place in np.flatnonzero(missing.any(axis=0))
        ]
        values[missing] = 0
        work = np.empty((min(rows, len(records)), len(self.members)))
        more = np.empty_like(work) if self._coded else work
        for start in range(0, len(records), rows):
            block = slice(start, start + rows)
            size = len(values[block])
            phase = np.matmul(values[block], self._weights, out=work[:size])
            for place, where in absent:
                phase[where[block]] += self.missing_angles[place]
            for column, table in self._coded:
                phase += table.take(
                    records.codes[block, column], axis=0, out=more[:size], mode="clip"
                )
            phase += _WHOLE
            angles = phase.view(np.int64)
            angles &= TURN - 1
            yield angles

    def exact_sum(self, grid: Grid) -> ExactSum | None:
        """Returns the sum of pairs out of a table that is quantised once; see `ExactMap`."""
        # The grid rounds each coordinate on its own, and F times the largest squared norm of a rounded pair bounds
        # every vector, whatever angles are looked up; inside the ball `Grid.quantise` gives the same integers (G-02).
        if grid.centre is not None:
            return None
        table = grid.quantise(self.pairs)
        pairs = np.ascontiguousarray(table).view(np.int64)[
            :, 0
        ]  # a pair of int32 moves as one int64

        def add(sums: npt.NDArray[np.int64], records: EncodedTable) -> None:
            # Memory is taken once: fresh pages for each block would cost more than sums.
            work = np.empty(
                (min(TABLE_ROWS, len(records)), len(self.members)), dtype=np.int64
            )
            for angles in self.angle_blocks(records, TABLE_ROWS):
                vectors = pairs.take(angles, out=work[: len(angles)], mode="clip").view(
                    np.int32
                )
                sums += vectors.sum(axis=0, dtype=np.int32)

        largest = int(np.square(table, dtype=np.int64).sum(axis=1).max())
        return ExactSum(squared_norm=len(self.members) * largest, add=add)

    def of_points(self) -> RowForm:
        """Returns the features of points, (rows, numeric columns); coded columns are not examined."""
        import torch

        scale = float(len(self.members) ** -0.5)

        def features(
            constants: Constants, points: GeneratorOutput
        ) -> Float[Tensor, "dim rows"]:
            assert isinstance(points, torch.Tensor)
            phase = constants["frequencies"] @ points.T
            return torch.stack([phase.cos(), phase.sin()], dim=1).flatten(0, 1) * scale

        return RowForm(features, {"frequencies": _radians(self.frequencies.T)})

    def of_cells(self, layout: Layout) -> RowForm:
        """Returns the expected features over cells: products of the columns' characteristic functions."""
        import torch

        tables = [
            self._characteristic(j, numeric_cells(column))
            for j, column in enumerate(layout.numeric)
        ]
        tables += [
            np.exp(1j * _radians(self.angles[j])) for j in range(len(layout.coded))
        ]
        constants: dict[str, npt.NDArray[np.generic]] = {}
        # For each place in `members`: which columns stand there, with the table of the features that look at them.
        places = []
        for place, column_of in enumerate(self.members.T):
            columns = np.unique(column_of).tolist()
            chosen = {column: np.flatnonzero(column_of == column) for column in columns}
            for column, pairs in chosen.items():
                table = (
                    tables[column][:, pairs]
                    if column >= 0
                    else np.ones((1, len(pairs)))
                )
                constants[f"{place}/{column}"] = np.hstack([table.real, table.imag]).T
            constants[f"{place}/order"] = np.argsort(
                np.concatenate(list(chosen.values()))
            )
            places.append(columns)
        scale = float(len(self.members) ** -0.5)

        def characteristic(
            constants: Constants, place: int, probabilities: GeneratorOutput
        ) -> tuple[Float[Tensor, "freqs rows"], Float[Tensor, "freqs rows"]]:
            """Returns the characteristic functions of the columns at one place of `members`, (F, rows) each."""
            halves, rows = [], probabilities[0].shape[1]
            for column in places[place]:
                table = constants[f"{place}/{column}"]
                halves.append(
                    (
                        table @ probabilities[column]
                        if column >= 0
                        else table.expand(-1, rows)
                    ).chunk(2)
                )
            # Features stand in rows so that this picks whole rows, which is fast forward and backward.
            order = constants[f"{place}/order"]
            real, imaginary = (
                torch.cat(parts).index_select(0, order)
                for parts in zip(*halves, strict=True)
            )
            return real, imaginary

        def features(
            constants: Constants, probabilities: GeneratorOutput
        ) -> Float[Tensor, "dim rows"]:
            real, imaginary = characteristic(constants, 0, probabilities)
            for place in range(1, len(places)):
                other_real, other_imaginary = characteristic(
                    constants, place, probabilities
                )
                product = real * other_real - imaginary * other_imaginary
                real, imaginary = (
                    product,
                    real * other_imaginary + imaginary * other_real,
                )
            return torch.stack([real, imaginary], dim=1).flatten(0, 1) * scale

        return RowForm(features, constants)

    def _characteristic(self, column: int, cells: Cells) -> npt.NDArray[np.complex128]:
        omega = _radians(self.frequencies[column])
        middle, half = (cells.low + cells.high) / 2, (cells.high - cells.low) / 2
        # Of an interval [a, b] exp(iω(a+b)/2)·sinc(ω(b−a)/2); numpy's sinc is sin(πx)/(πx).
        table = np.exp(1j * np.outer(middle, omega)) * np.sinc(
            np.outer(half, omega) / math.pi
        )
        if cells.missing:
            table = np.vstack(
                [table, np.exp(1j * _radians(self.missing_angles[column]))]
            )
        return np.asarray(table, dtype=np.complex128)


def _radians(angles: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    return np.asarray(angles * (2 * math.pi / TURN), dtype=np.float64)


def draw(
    layout: Layout,
    *,
    count: int,
    kernel: Kernel = "pairs",
    length_scales: Sequence[tuple[float, float]],
    exclude_label: bool,
    seed: int,
) -> RandomFourier:
    """Returns random features with `count` frequencies, drawn from public randomness.

    Which columns a frequency looks at is random: with ``kernel="numeric"`` all numeric ones, the paper's kernel; with
    "pairs" one or two, which keeps its signal in tables with many columns. Length scales are drawn log-uniformly from
    an interval for each numeric column, in units of its range. The label is excluded where the embedding is class-wise.
    """
    for column, (low, high) in zip(layout.numeric, length_scales, strict=True):
        if not 0 < low <= high <= 1000:
            found = f"length scale of column {column.name!r}: ({low}, {high})"
            raise OptionError(f"{found} must lie in (0, 1000], low first.")
    random = np.random.Generator(np.random.Philox(seed))
    numeric, coded = len(layout.numeric), len(layout.coded)
    skipped = {layout.label} if exclude_label else set()
    usable = [*range(numeric), *(numeric + j for j in range(coded) if j not in skipped)]
    members = _members(usable, numeric, count, kernel, random)
    lows, highs = (
        np.asarray(length_scales, dtype=np.float64)
        .reshape(numeric, 2, 1)
        .transpose(1, 0, 2)
    )
    scales = np.exp(
        random.uniform(size=(numeric, count)) * np.log(highs / lows) + np.log(lows)
    )
    omega = random.standard_normal((numeric, count)) / np.maximum(scales, 1e-9)
    looked = np.zeros((numeric + coded, count), dtype=bool)
    for place in range(members.shape[1]):
        real = members[:, place] >= 0
        looked[members[real, place], np.flatnonzero(real)] = True
    steps = np.clip(
        np.rint(omega * TURN / (2 * math.pi)), -_LARGEST_FREQUENCY, _LARGEST_FREQUENCY
    )
    frequencies = np.where(looked[:numeric], steps, 0).astype(np.int64)
    sizes = enumerate([column.size for column in layout.coded], numeric)
    angles = tuple(
        random.integers(0, TURN, (size, count)) * looked[place] for place, size in sizes
    )
    missing = random.integers(0, TURN, (numeric, count)) * looked[:numeric]
    return RandomFourier(
        frequencies=frequencies, angles=angles, missing_angles=missing, members=members
    )


def draw_points(
    columns: int, *, count: int, length_scale: float, seed: int
) -> RandomFourier:
    """Returns random features of numbers without names: a Gaussian kernel on all `columns`, in their units."""
    if not 0 < length_scale <= 1000:
        raise OptionError(f"length scale {length_scale} must lie in (0, 1000].")
    random = np.random.Generator(np.random.Philox(seed))
    steps = np.rint(
        random.standard_normal((columns, count)) * (TURN / (2 * math.pi * length_scale))
    )
    frequencies = np.clip(steps, -_LARGEST_FREQUENCY, _LARGEST_FREQUENCY).astype(
        np.int64
    )
    missing, members = (
        np.zeros_like(frequencies),
        np.tile(np.arange(columns, dtype=np.int64), (count, 1)),
    )
    return RandomFourier(
        frequencies=frequencies, angles=(), missing_angles=missing, members=members
    )


def _members(
    usable: list[int],
    numeric: int,
    count: int,
    kernel: Kernel,
    random: np.random.Generator,
) -> npt.NDArray[np.int64]:
    if kernel == "numeric":
        if not numeric:
            raise OptionError(
                "kernel='numeric' needs a numeric column; use kernel='pairs'."
            )
        return np.tile(np.arange(numeric, dtype=np.int64), (count, 1))
    if not usable:
        raise OptionError(
            "the schema has no column besides the label; there is nothing to learn."
        )
    # Coded columns alone are told exactly by `Levels`, so single looks go to numeric columns only.
    groups = [(column, -1) for column in usable if column < numeric]
    groups += [(a, b) for place, a in enumerate(usable) for b in usable[place + 1 :]]
    groups = groups or [(usable[0], -1)]
    # Every group gets its fair share; the remainder goes to groups drawn at random.
    repeats, rest = divmod(count, len(groups))
    chosen = list(range(len(groups))) * repeats + sorted(
        random.permutation(len(groups))[:rest].tolist()
    )
    return np.asarray([groups[index] for index in sorted(chosen)], dtype=np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class FourierFeatures(ABC):
    """Random Fourier features of numbers that follow from each image."""

    of: Any
    """From intensities in the order of `pixel_schema`, (rows, pixels), to these numbers, (rows, numbers); for an
    `EncodedFourier` a feature map, from records to them."""
    fourier: RandomFourier
    """On as many numeric columns as there are numbers."""
    norm, nonnegative = 1.0, False

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.fourier.dim

    def __call__(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Returns the vectors, (rows, dim)."""
        values = self._values(records)
        return self.fourier(
            EncodedTable(values, np.zeros((len(values), 0), dtype=np.int32))
        )

    @abstractmethod
    def _values(self, records: EncodedTable) -> npt.NDArray[np.float64]:
        """Returns the numbers, (rows, numbers)."""

    def of_points(self) -> RowForm:
        """Returns the features of intensities in the order of `pixel_schema`, (rows, pixels), up to rounding."""

        def features(
            constants: Constants, points: GeneratorOutput
        ) -> Float[Tensor, "dim rows"]:
            result: Tensor = constants["fourier"](constants["of"](points).T)
            return result

        return RowForm(
            features, {"of": self.of.of_points(), "fourier": self.fourier.of_points()}
        )


class FourierOfValues(FourierFeatures):
    """Random Fourier features of numbers that a function of intensities gives."""

    def _values(self, records: EncodedTable) -> npt.NDArray[np.float64]:
        return np.asarray(self.of(records.numeric))
