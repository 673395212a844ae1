"""Encodes generated records as discriminator inputs: the same numbers, in the same order, as of real ones.

A real record has one level of each column, so a generated one must too: given probabilities, a discriminator would tell
the two apart at a glance and teach nothing else. So one cell of each column is drawn, as in the synthetic table, and
gradients go back through a softened draw: the straight-through Gumbel-softmax (Jang, Gu and Poole, ICLR 2017,
https://arxiv.org/abs/1611.01144).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from noisegate.models.generator import Generator
from noisegate.schema import Layout
from noisegate.schema.layout import Cells, numeric_cells

# Of the softened draw. At 1 it is as soft as the probabilities.
_TEMPERATURE = 1.0
_TINY = 1e-20


class DiscriminatorInput(Protocol):
    """Draws from a generator and encodes what it makes, differentiably."""

    def __call__(self, generator: Generator, noise: Tensor, labels: Tensor, random: torch.Generator) -> Tensor:
        """Returns generated records without their labels, (rows, inputs); `random` is public randomness, on the CPU."""
        ...


def encode_images(generator: Generator, noise: Tensor, labels: Tensor, random: torch.Generator) -> Tensor:
    """Returns intensities as twice their distance from the middle, (rows, pixels); a `DiscriminatorInput`."""
    images: Tensor = generator(noise, labels)
    return 2 * images - 1


def encode_features(generator: Generator, noise: Tensor, labels: Tensor, random: torch.Generator) -> Tensor:
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

    def __call__(self, generator: Generator, noise: Tensor, labels: Tensor, random: torch.Generator) -> Tensor:
        """Returns generated rows; see `DiscriminatorInput`."""
        probabilities: list[Tensor] = generator(noise, labels)
        drawn = {j: _draw(probabilities[j], random) for j in (*range(len(self._cells)), *self._coded)}
        places = [_place(drawn[j], cells, random)[None] for j, cells in enumerate(self._cells)]
        missing = [drawn[j][-1:] for j, cells in enumerate(self._cells) if cells.missing]
        return torch.cat([*places, *missing, *(drawn[j] for j in self._coded)]).T


def _draw(probabilities: Tensor, random: torch.Generator) -> Tensor:
    """Returns one cell for each row as a one-hot code, (cells, rows), with the gradients of a softened draw."""
    uniform = torch.rand(probabilities.shape, generator=random).to(probabilities.device)
    gumbel = -torch.log(-torch.log(uniform.clamp(_TINY, 1 - 1e-7)))
    soft = ((probabilities.clamp_min(_TINY).log() + gumbel) / _TEMPERATURE).softmax(dim=0)
    hard = nn.functional.one_hot(soft.argmax(dim=0), len(soft)).T.to(soft.dtype)
    return hard + soft - soft.detach()


def _place(drawn: Tensor, cells: Cells, random: torch.Generator) -> Tensor:
    """Returns twice the distance from the middle of a place in the cell that was drawn, (rows,); 0 where missing."""
    ends = np.stack([cells.low, cells.high]).astype(np.float32)[:, :, None]
    low, high = torch.from_numpy(ends).to(drawn.device)
    uniform = torch.rand(drawn.shape[1], generator=random).to(drawn.device)
    placed: Tensor = (drawn[: len(low)] * (2 * (low + uniform * (high - low)) - 1)).sum(dim=0)
    return placed
