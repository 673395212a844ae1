"""The table generator: noise and a label in, one distribution for each column out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from noisegate.generators.cells import numeric_cells
from noisegate.generators.generator import Generator
from noisegate.schema import Layout


class TableGenerator(Generator):
    """A network with one softmax head a column. Given its noise, the columns of a record are independent.

    So a record's expected features are products of small sums, known exactly and differentiable, without drawing a
    category (`fitting.expectation`); columns depend on each other through the shared noise.

    Args:
        sizes: Number of cells of each column, the label included.
        label: Position of the label among the columns, or None. The label is given, not made.
        latent: Length of the noise vector.
        hidden: Widths of the hidden layers.
    """

    def __init__(self, sizes: Sequence[int], label: int | None, *, latent: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.label = label
        self.classes = 1 if label is None else sizes[label]
        self.latent = latent
        self.hidden = tuple(hidden)
        self.made = [size for position, size in enumerate(sizes) if position != label]
        widths = [latent + self.classes, *hidden]
        layers: list[nn.Module] = []
        for wide, narrow in pairwise(widths):
            layers += [nn.Linear(wide, narrow), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(widths[-1], sum(self.made))
        # The marginals of each class are learnt at once through these, whatever the network does.
        self.bias = nn.Embedding(self.classes, sum(self.made))
        nn.init.zeros_(self.bias.weight)

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
        logits = self.head(self.body(torch.cat([noise, one_hot], dim=1))) + self.bias(labels)
        # Columns stand in rows from here on: features are picked by whole rows (`fitting.expectation`).
        columns = [part.softmax(dim=0) for part in logits.T.contiguous().split(self.made)]
        if self.label is not None:
            columns.insert(self.label, one_hot.T)
        return columns


def build_table_generator(layout: Layout, *, latent: int, hidden: Sequence[int], seed: int) -> TableGenerator:
    """Returns an untrained generator for the columns of `layout`; the same seed gives the same weights."""
    sizes = [numeric_cells(column).size for column in layout.numeric] + [column.size for column in layout.coded]
    label = None if layout.label is None else len(layout.numeric) + layout.label
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return TableGenerator(sizes, label, latent=latent, hidden=hidden)
