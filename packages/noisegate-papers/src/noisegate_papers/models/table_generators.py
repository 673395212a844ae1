"""Generators of tables, as networks and as record models: a perceptron with a softmax for each column, and a mixture.

Given its noise, the columns of a record are independent, so its expected features are
products of small sums, exact and differentiable (`of_cells` of a feature map); columns
depend on each other through the shared noise.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from noisegate.devices import seeded
from noisegate.models.record_model import Array
from noisegate.schema import EncodedTable, Layout, Schema
from noisegate.schema.layout import numeric_cells
from noisegate_images.models.generator import PREFIX, Generator

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

_INIT_STD = 0.5  # distinguishes components from the first step on, and starts near each class's average


class CellGenerator(Generator):
    """Base of both kinds. Columns are numbered with numeric ones first; the label, if any, is given and not made."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        sizes = [numeric_cells(column).size for column in layout.numeric] + [
            column.size for column in layout.coded
        ]
        self.label = (
            None if layout.label is None else len(layout.numeric) + layout.label
        )
        self.classes = 1 if self.label is None else sizes[self.label]
        self.made = [
            size for position, size in enumerate(sizes) if position != self.label
        ]

    def record_model(
        self, weights: npt.NDArray[np.float64], layout: Layout
    ) -> NeuralTable:
        """Returns the table that it draws."""
        return NeuralTable(generator=self, weights=weights, layout=layout)

    @abstractmethod
    def shape(self) -> dict[str, Any]:
        """Returns what else it is built from, as a JSON object."""

    def _class_bias(self) -> nn.Embedding:
        """Returns logits through which the marginals of each class are learnt at once."""
        bias = nn.Embedding(self.classes, sum(self.made))
        nn.init.zeros_(bias.weight)
        return bias

    def _columns(
        self, logits: Float[Tensor, "rows cells"], labels: Int64[Tensor, " rows"]
    ) -> list[Tensor]:
        """Returns the cell probabilities of each column, (cells, rows), in rows: features are picked by whole rows."""
        parts = logits.T.contiguous().split(self.made)  # type: ignore[no-untyped-call]
        columns: list[Tensor] = [part.softmax(dim=0) for part in parts]
        if self.label is not None:
            columns.insert(
                self.label,
                nn.functional.one_hot(labels, self.classes).to(logits.dtype).T,
            )
        return columns


class TableGenerator(CellGenerator):
    """A network with one softmax head a column; `latent` is the length of its noise, `hidden` the widths of layers."""

    def __init__(self, layout: Layout, *, latent: int, hidden: Sequence[int]) -> None:
        super().__init__(layout)
        self.latent, self.hidden = latent, tuple(hidden)
        widths = [latent + self.classes, *hidden]
        layers = (
            (nn.Linear(wide, narrow), nn.ReLU()) for wide, narrow in pairwise(widths)
        )
        self.body = nn.Sequential(*chain.from_iterable(layers))
        self.head = nn.Linear(widths[-1], sum(self.made))
        self.bias = self._class_bias()

    def noise(self, rows: int, random: torch.Generator) -> Float[Tensor, "rows latent"]:
        """Returns standard normal noise."""
        return torch.randn(rows, self.latent, generator=random)

    def shape(self) -> dict[str, Any]:
        """Returns the length of the noise and the widths."""
        return {"latent": self.latent, "hidden": list(self.hidden)}

    def forward(
        self, noise: Float[Tensor, "rows latent"], labels: Int64[Tensor, " rows"]
    ) -> list[Tensor]:
        """Returns the cell probabilities of each column, (cells, rows); labels are 0 without one."""
        one_hot = nn.functional.one_hot(labels, self.classes).to(noise.dtype)
        return self._columns(
            self.head(self.body(torch.cat([noise, one_hot], dim=1)))
            + self.bias(labels),
            labels,
        )


class ComponentGenerator(CellGenerator):
    """A mixture of products: its noise is the number of a component, of which each label value has `components`.

    The mean over all of them is the expected embedding exactly: nothing is sampled in the fit.
    """

    components: int

    def __init__(self, layout: Layout, *, components: int) -> None:
        super().__init__(layout)
        self.components = components
        self.logits = nn.Embedding(self.classes * components, sum(self.made))
        nn.init.normal_(self.logits.weight, std=_INIT_STD)
        self.bias = self._class_bias()

    def noise(self, rows: int, random: torch.Generator) -> Int64[Tensor, "rows 1"]:
        """Returns the component of each row: all of them in turn, from a random one on."""
        start = torch.randint(self.components, (), generator=random)
        return ((torch.arange(rows) + start) % self.components)[:, None]

    def shape(self) -> dict[str, Any]:
        """Returns the number of components."""
        return {"components": self.components}

    def forward(
        self, noise: Int64[Tensor, "rows 1"], labels: Int64[Tensor, " rows"]
    ) -> list[Tensor]:
        """Returns the cell probabilities of each column, (cells, rows); see `TableGenerator`."""
        return self._columns(
            self.logits(labels * self.components + noise[:, 0]) + self.bias(labels),
            labels,
        )


def build_table_generator(
    layout: Layout, *, latent: int, hidden: Sequence[int], seed: int
) -> TableGenerator:
    """Returns an untrained generator for the columns of `layout`; the same seed gives the same weights."""
    with seeded(seed):
        return TableGenerator(layout, latent=latent, hidden=hidden)


def build_component_generator(
    layout: Layout, *, components: int, seed: int
) -> ComponentGenerator:
    """Returns an untrained generator for the columns of `layout`; the same seed gives the same start."""
    with seeded(seed):
        return ComponentGenerator(layout, components=components)


@dataclass(frozen=True, kw_only=True, eq=False)
class NeuralTable:
    """A label, then noise, then one cell of each column."""

    generator: CellGenerator
    """The fitted network, on the CPU, in evaluation mode; columns as in the layout, numeric ones first."""
    weights: npt.NDArray[
        np.float64
    ]  # share of each label, (labels,); one 1 without a label
    layout: Layout  # the columns

    kind: ClassVar[str] = "table-generator"

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` records; `random` is public randomness, on the CPU."""
        labels = torch.multinomial(
            torch.from_numpy(self.weights), rows, replacement=True, generator=random
        )
        with torch.no_grad():
            columns = self.generator(self.generator.noise(rows, random), labels)
        chosen = [_draw(column, random).numpy() for column in columns]
        cells = [numeric_cells(column) for column in self.layout.numeric]
        numeric, codes = (
            np.empty((rows, len(cells))),
            np.empty((rows, len(self.layout.coded)), dtype=np.int32),
        )
        for place, cell in enumerate(cells):
            low, high = (
                np.append(ends, np.nan)[chosen[place]] for ends in (cell.low, cell.high)
            )
            numeric[:, place] = low + torch.rand(rows, generator=random).numpy() * (
                high - low
            )
        for place, found in enumerate(chosen[len(cells) :]):
            codes[:, place] = found
        return EncodedTable(numeric, codes)

    def tensors(self) -> dict[str, Array]:
        """Returns the weights of the network and the shares of the labels."""
        fitted = {
            f"{PREFIX}{name}": value.numpy()
            for name, value in self.generator.state_dict().items()
        }
        return {**fitted, "weights": self.weights}

    def to_json(self) -> dict[str, Any]:
        """Returns the shape of the network."""
        return self.generator.shape()

    @classmethod
    def from_saved(
        cls,
        schema: Schema,
        tensors: Mapping[str, Array],
        description: Mapping[str, Any],
    ) -> Self:
        """Returns the model that `tensors` and `to_json` describe."""
        layout, weights = schema.layout, tensors["weights"].astype(np.float64)
        generator: CellGenerator
        if "components" in description:
            generator = build_component_generator(
                layout, components=description["components"], seed=0
            )
        else:
            latent, hidden = description["latent"], description["hidden"]
            generator = build_table_generator(
                layout, latent=latent, hidden=hidden, seed=0
            )
        return cls(
            generator=generator.load_fitted(tensors), weights=weights, layout=layout
        )


def _draw(
    probabilities: Float[Tensor, "cells rows"], random: torch.Generator
) -> Int64[Tensor, " rows"]:
    cumulative = probabilities.double().cumsum(dim=0)
    level = (
        torch.rand(probabilities.shape[1], generator=random, dtype=torch.float64)
        * cumulative[-1]
    )
    return (cumulative <= level).sum(dim=0).clamp_(max=len(probabilities) - 1)
