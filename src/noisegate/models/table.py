"""Generators of tables: noise and a label in, one distribution over the cells of each column out.

Given its noise, the columns of a record are independent. So a record's expected features are products of small sums,
known exactly and differentiable, without drawing a category (`of_cells` of a feature map); columns depend on each other
through the shared noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from noisegate.features.cells import numeric_cells
from noisegate.models.generator import Generator
from noisegate.schema import Layout

# Large enough to tell components apart from the first step on, small enough to start near each class's average.
_INIT_STD = 0.5


class CellGenerator(Generator):
    """Base of both kinds.

    Args:
        sizes: Number of cells of each column, the label included.
        label: Position of the label among the columns, or None. The label is given, not made.
    """

    def __init__(self, sizes: Sequence[int], label: int | None) -> None:
        super().__init__()
        self.label, self.classes = label, 1 if label is None else sizes[label]
        self.made = [size for position, size in enumerate(sizes) if position != label]

    def _class_bias(self) -> nn.Embedding:
        """Returns logits through which the marginals of each class are learnt at once."""
        bias = nn.Embedding(self.classes, sum(self.made))
        nn.init.zeros_(bias.weight)
        return bias

    def _columns(self, logits: Tensor, labels: Tensor) -> list[Tensor]:
        """Returns the cell probabilities of each column, (cells, rows), of logits (rows, cells of all columns)."""
        # Columns stand in rows from here on: features are picked by whole rows.
        parts = logits.T.contiguous().split(self.made)  # type: ignore[no-untyped-call]
        columns: list[Tensor] = [part.softmax(dim=0) for part in parts]
        if self.label is not None:
            columns.insert(self.label, nn.functional.one_hot(labels, self.classes).to(logits.dtype).T)
        return columns


class TableGenerator(CellGenerator):
    """A network with one softmax head a column.

    Args:
        sizes: See `CellGenerator`.
        label: See `CellGenerator`.
        latent: Length of the noise vector.
        hidden: Widths of the hidden layers.
    """

    def __init__(self, sizes: Sequence[int], label: int | None, *, latent: int, hidden: Sequence[int]) -> None:
        super().__init__(sizes, label)
        self.latent, self.hidden = latent, tuple(hidden)
        widths = [latent + self.classes, *hidden]
        layers: list[nn.Module] = []
        for wide, narrow in pairwise(widths):
            layers += [nn.Linear(wide, narrow), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(widths[-1], sum(self.made))
        self.bias = self._class_bias()

    def noise(self, rows: int, random: torch.Generator) -> Tensor:
        """Returns standard normal noise from public randomness, (rows, latent), on the CPU."""
        return torch.randn(rows, self.latent, generator=random)

    def forward(self, noise: Tensor, labels: Tensor) -> list[Tensor]:
        """Returns the cell probabilities of each column, (cells, rows).

        Args:
            noise: (rows, latent).
            labels: (rows,) int64; zeros without a label.
        """
        one_hot = nn.functional.one_hot(labels, self.classes).to(noise.dtype)
        return self._columns(self.head(self.body(torch.cat([noise, one_hot], dim=1))) + self.bias(labels), labels)


class ComponentGenerator(CellGenerator):
    """A mixture of products: its noise is the number of a component, and nothing lies between two.

    A network turns near noise vectors into near distributions, so it fills the space between the modes of a class. Here
    each component has a distribution over the cells of every column of its own, and all components of a class have the
    same weight. The mean over all of them is the expected embedding exactly: nothing is sampled in the fit.

    Args:
        sizes: See `CellGenerator`.
        label: See `CellGenerator`.
        components: Of each label value.
    """

    def __init__(self, sizes: Sequence[int], label: int | None, *, components: int) -> None:
        super().__init__(sizes, label)
        self.components = components
        self.logits = nn.Embedding(self.classes * components, sum(self.made))
        nn.init.normal_(self.logits.weight, std=_INIT_STD)
        self.bias = self._class_bias()

    def noise(self, rows: int, random: torch.Generator) -> Tensor:
        """Returns the component of each row, (rows, 1): all of them in turn, from a random one on."""
        start = torch.randint(self.components, (), generator=random)
        return ((torch.arange(rows) + start) % self.components)[:, None]

    def set_rows(self, wanted: int) -> int:
        """Returns how many rows a mean is taken over: every component once."""
        return self.components

    def forward(self, noise: Tensor, labels: Tensor) -> list[Tensor]:
        """Returns the cell probabilities of each column, (cells, rows); see `TableGenerator`."""
        return self._columns(self.logits(labels * self.components + noise[:, 0]) + self.bias(labels), labels)


def build_table_generator(layout: Layout, *, latent: int, hidden: Sequence[int], seed: int) -> TableGenerator:
    """Returns an untrained generator for the columns of `layout`; the same seed gives the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return TableGenerator(*_cells_of(layout), latent=latent, hidden=hidden)


def build_component_generator(layout: Layout, *, components: int, seed: int) -> ComponentGenerator:
    """Returns an untrained generator for the columns of `layout`; the same seed gives the same start."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ComponentGenerator(*_cells_of(layout), components=components)


def _cells_of(layout: Layout) -> tuple[list[int], int | None]:
    """Returns the number of cells of each column, numeric ones first, and the position of the label."""
    sizes = [numeric_cells(column).size for column in layout.numeric] + [column.size for column in layout.coded]
    return sizes, None if layout.label is None else len(layout.numeric) + layout.label
