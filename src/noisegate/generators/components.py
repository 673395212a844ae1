"""A mixture of products as a table generator: its noise is the number of a component, and nothing lies between two.

A network turns near noise vectors into near distributions, so it fills the space between the modes of a class. Here
each component has a distribution over the cells of every column of its own, and all components of a class have the same
weight. The mean over all of them is the expected embedding exactly: nothing is sampled in the fit.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from noisegate.generators.cells import numeric_cells
from noisegate.generators.generator import Generator
from noisegate.schema import Layout

# Large enough to tell components apart from the first step on, small enough to start near each class's average.
_SPREAD = 0.5


class ComponentGenerator(Generator):
    """Equally likely components for each label, each with one softmax a column.

    Args:
        sizes: Number of cells of each column, the label included.
        label: Position of the label among the columns, or None. The label is given, not made.
        components: Of each label value.
    """

    def __init__(self, sizes: Sequence[int], label: int | None, *, components: int) -> None:
        super().__init__()
        self.label = label
        self.classes = 1 if label is None else sizes[label]
        self.components = components
        self.made = [size for position, size in enumerate(sizes) if position != label]
        self.logits = nn.Embedding(self.classes * components, sum(self.made))
        nn.init.normal_(self.logits.weight, std=_SPREAD)
        # The marginals of each class are learnt at once through these.
        self.bias = nn.Embedding(self.classes, sum(self.made))
        nn.init.zeros_(self.bias.weight)

    def noise(self, rows: int, random: torch.Generator) -> Tensor:
        """Returns the component of each row, (rows, 1): all of them in turn, from a random one on."""
        start = torch.randint(self.components, (), generator=random)
        return ((torch.arange(rows) + start) % self.components)[:, None]

    def set_rows(self, wanted: int) -> int:
        """Returns how many rows a mean is taken over: every component once."""
        return self.components

    def forward(self, noise: Tensor, labels: Tensor) -> list[Tensor]:
        """Returns the cell probabilities of each column, (cells, rows); see `TableGenerator`."""
        logits = self.logits(labels * self.components + noise[:, 0]) + self.bias(labels)
        columns = [part.softmax(dim=0) for part in logits.T.contiguous().split(self.made)]
        if self.label is not None:
            columns.insert(self.label, nn.functional.one_hot(labels, self.classes).to(logits.dtype).T)
        return columns


def build_component_generator(layout: Layout, *, components: int, seed: int) -> ComponentGenerator:
    """Returns an untrained generator for the columns of `layout`; the same seed gives the same start."""
    sizes = [numeric_cells(column).size for column in layout.numeric] + [column.size for column in layout.coded]
    label = None if layout.label is None else len(layout.numeric) + layout.label
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ComponentGenerator(sizes, label, components=components)
