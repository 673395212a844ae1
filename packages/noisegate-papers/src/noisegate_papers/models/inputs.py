"""Records as what a network sees: real ones by a fixed public map of the schema, and generated ones alike.

Generated cells are drawn: the straight-through Gumbel-softmax, Jang, Gu and Poole (2017), arxiv.org/abs/1611.01144.

A real record has one level of each column. Shown probabilities, a discriminator would distinguish
the two at once, so one cell of each column is drawn, and gradients go
back through a softened draw: the straight-through Gumbel-softmax (Jang, Gu and Poole,
ICLR 2017, https://arxiv.org/abs/1611.01144).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.errors import SchemaError
from noisegate.schema import CodedColumn, EncodedTable, Layout, Schema
from noisegate.schema.layout import Cells, numeric_cells

if TYPE_CHECKING:
    import torch
    from jaxtyping import Float, Shaped
    from torch import Tensor

    from noisegate_images.models.generator import Generator

# Of the softened draw. At 1 it is as soft as the probabilities.
_TEMPERATURE = 1.0
_TINY = 1e-20


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Maps an encoded record to its inputs, a vector about as long as 1 at most.

    A numeric column gives twice its distance from `centre` in [0, 1], 0 where it is missing; one that may be missing,
    of which `absent` has the places, gives one more input that says so. A column with levels, the label left out, gives
    one input for each of its `coded` levels. All are divided by the square root of the number of columns. `names` say
    what each input is: the column, ``column is missing``, or ``column = level``.
    """

    names: tuple[str, ...]
    numeric: int
    absent: tuple[int, ...]
    coded: tuple[int, ...]
    centre: float

    @property
    def scale(self) -> float:
        """What all inputs are multiplied by."""
        return 1 / math.sqrt(self.numeric + len(self.coded))

    @property
    def gradients(self) -> npt.NDArray[np.float32]:
        """How much each input grows while its column goes from its lower to its upper bound, or the level comes up."""
        gradients = np.full(len(self.names), self.scale, dtype=np.float32)
        gradients[: self.numeric] *= 2
        return gradients

    def __call__(
        self, numeric: Float[Tensor, "... columns"], codes: Shaped[Tensor, "... coded"]
    ) -> Float[Tensor, "... inputs"]:
        """Returns the inputs, (…, inputs), of positions, NaN where missing, and codes but the label's."""
        import torch

        missing = torch.isnan(numeric)
        parts = [torch.where(missing, 0.0, 2 * (numeric - self.centre))]
        parts += [
            missing[..., column : column + 1].to(numeric.dtype)
            for column in self.absent
        ]
        levels = [torch.arange(size, device=codes.device) for size in self.coded]
        parts += [
            (codes[..., column, None] == level).to(numeric.dtype)
            for column, level in enumerate(levels)
        ]
        return torch.cat(parts, dim=-1) * self.scale


@dataclass(frozen=True, kw_only=True, eq=False)
class InputFeatures:
    """The inputs of a row, by itself, as a feature map of norm 1: nothing is added up over columns (G-06)."""

    inputs: Inputs
    coded: tuple[int, ...]  # places of the coded columns that are no label

    norm: float = 1.0
    nonnegative: bool = False

    @property
    def dim(self) -> int:
        """Length of the vector."""
        return len(self.inputs.names)

    def __call__(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Returns vectors, float32 (rows, dim)."""
        import torch

        numeric = torch.from_numpy(records.numeric.astype(np.float32))
        codes = torch.from_numpy(records.codes[:, list(self.coded)].astype(np.int64))
        return np.asarray(self.inputs(numeric, codes).numpy())


def inputs_of(schema: Schema, *, centre: float, otherwise: str = "") -> Inputs:
    """Returns the inputs of records, the label left out; a SchemaError that says `otherwise`, if given, without any."""
    layout = schema.layout
    coded = [layout.coded[j] for j in layout.others]
    absent = tuple(j for j, column in enumerate(layout.numeric) if column.missing)
    names = [column.name for column in layout.numeric]
    names += [f"{layout.numeric[j].name} is missing" for j in absent]
    for column in coded:
        names += [f"{column.name} = {level}" for level in column.levels]
        names += [f"{column.name} is missing"] * column.missing
    if otherwise and not names:
        raise SchemaError(f"the schema has no column besides the label; {otherwise}.")
    return Inputs(
        names=tuple(names),
        numeric=len(layout.numeric),
        absent=absent,
        coded=tuple(column.size for column in coded),
        centre=centre,
    )


def scaled_inputs(inputs: Inputs, schema: Schema) -> Callable[[Tensor, Tensor], Tensor]:
    """Returns the map from one record to its inputs over their scale: entries of size 1."""
    others = list(schema.layout.others)
    return lambda numeric, codes: inputs(numeric, codes[..., others]) / inputs.scale


def class_label(schema: Schema, missing: str) -> CodedColumn:
    """Returns the label of a schema that has classes to tell apart; a SchemaError, `missing` if it has no label."""
    layout = schema.layout
    if layout.label is None:
        raise SchemaError(missing)
    label = layout.coded[layout.label]
    if label.missing or len(label.levels) < 2:
        raise SchemaError(
            f"the label {label.name!r} must have two levels or more, and may not be missing."
        )
    return label


def decode_inputs(
    values: npt.NDArray[np.float64],
    inputs: Inputs,
    schema: Schema,
    labels: npt.NDArray[np.integer[Any]],
) -> EncodedTable:
    """Returns the most probable records behind inputs over their scale, (records, inputs): the inverse of `Inputs`."""
    layout, gaps = schema.layout, len(inputs.absent)
    numeric = values[:, : inputs.numeric]
    absent = values[:, inputs.numeric : inputs.numeric + gaps]
    # What stands for a column is its number times the chance that it is there.
    there = np.ones_like(numeric)
    there[:, list(inputs.absent)] = 1 - np.minimum(absent, 0.5)
    positions = np.clip(inputs.centre + numeric / there / 2, 0.0, 1.0)
    positions[:, list(inputs.absent)] = np.where(
        absent > 0.5, np.nan, positions[:, list(inputs.absent)]
    )
    codes = np.empty((len(values), len(layout.coded)), dtype=np.int32)
    start = inputs.numeric + gaps
    if layout.label is not None:
        codes[:, layout.label] = labels
    for place, size in zip(layout.others, inputs.coded, strict=True):
        codes[:, place] = values[:, start : start + size].argmax(axis=1)
        start += size
    return EncodedTable(positions, codes)


DiscriminatorInput: TypeAlias = (
    "Callable[[Generator, Tensor, Tensor, torch.Generator], Tensor]"
)
"""Draws from a generator by noise, (rows, latent), labels, (rows,), and public randomness, on the CPU, and encodes what
it makes without labels, (rows, inputs), differentiably."""


def encode_images(
    generator: Generator,
    noise: Shaped[Tensor, "rows latent"],
    labels: Shaped[Tensor, " rows"],
    random: torch.Generator,
) -> Float[Tensor, "rows pixels"]:
    """Returns intensities as twice their distance from the middle, (rows, pixels); a `DiscriminatorInput`."""
    images: Tensor = generator(noise, labels)
    return 2 * images - 1


def encode_features(
    generator: Generator,
    noise: Shaped[Tensor, "rows latent"],
    labels: Shaped[Tensor, " rows"],
    random: torch.Generator,
) -> Float[Tensor, "rows features"]:
    """Returns features of length 1 with entries of size 1 or so, (rows, features); a `DiscriminatorInput`."""
    made: Tensor = generator(noise, labels)
    return made * feature_scale(made.shape[1])


def feature_scale(features: int) -> float:
    """Returns what a feature of length 1 is multiplied with before a discriminator sees it."""
    return float(features**0.5)


class TableInput:
    """Encodes table rows: numeric columns as twice the distance from the middle, then what is missing, then levels."""

    def __init__(self, layout: Layout) -> None:
        self._cells = [numeric_cells(column) for column in layout.numeric]
        self._coded = [len(self._cells) + j for j in layout.others]

    def __call__(
        self,
        generator: Generator,
        noise: Shaped[Tensor, "rows latent"],
        labels: Shaped[Tensor, " rows"],
        random: torch.Generator,
    ) -> Float[Tensor, "... inputs"]:
        """Returns generated rows; see `DiscriminatorInput`."""
        import torch

        probabilities: list[Tensor] = generator(noise, labels)
        drawn = {
            j: _draw(probabilities[j], random)
            for j in (*range(len(self._cells)), *self._coded)
        }
        places = [
            _place(drawn[j], cells, random)[None] for j, cells in enumerate(self._cells)
        ]
        missing = [
            drawn[j][-1:] for j, cells in enumerate(self._cells) if cells.missing
        ]
        return torch.cat([*places, *missing, *(drawn[j] for j in self._coded)]).T


def _draw(
    probabilities: Float[Tensor, "cells rows"], random: torch.Generator
) -> Float[Tensor, "cells rows"]:
    """Returns one cell for each row as a one-hot code, (cells, rows), with the gradients of a softened draw."""
    import torch

    uniform = torch.rand(probabilities.shape, generator=random).to(probabilities.device)
    gumbel = -torch.log(-torch.log(uniform.clamp(_TINY, 1 - 1e-7)))
    soft = ((probabilities.clamp_min(_TINY).log() + gumbel) / _TEMPERATURE).softmax(
        dim=0
    )
    hard = torch.nn.functional.one_hot(soft.argmax(dim=0), len(soft)).T.to(soft.dtype)
    return hard + soft - soft.detach()


def _place(
    drawn: Float[Tensor, "cells rows"], cells: Cells, random: torch.Generator
) -> Float[Tensor, " rows"]:
    """Returns twice the distance from the middle of a place in the cell that was drawn, (rows,); 0 where missing."""
    import torch

    ends = np.stack([cells.low, cells.high]).astype(np.float32)[:, :, None]
    low, high = torch.from_numpy(ends).to(drawn.device)
    uniform = torch.rand(drawn.shape[1], generator=random).to(drawn.device)
    placed: Tensor = (drawn[: len(low)] * (2 * (low + uniform * (high - low)) - 1)).sum(
        dim=0
    )
    return placed
