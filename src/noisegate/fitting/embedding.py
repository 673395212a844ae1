"""What a generator is matched through: the mean features of what it gave, set by set."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from torch import Tensor, nn


class Embedding(nn.Module):
    """A module that knows the mean features of what a generator gives."""

    @abstractmethod
    def means(self, made: Tensor | Sequence[Tensor], sets: int) -> Tensor:
        """Returns mean features, (dim, sets), in the order of the feature map.

        Args:
            made: What the generator gave: cell probabilities of each column, (cells, rows), or points, (rows, columns).
            sets: The rows stand in this many sets of equal size, one after the other; each has a mean of its own.
        """


class RowEmbedding(Embedding):
    """An embedding that computes the features of every row, (dim, rows), in `forward`."""

    def means(self, made: Tensor | Sequence[Tensor], sets: int) -> Tensor:
        """Returns mean features, (dim, sets); see `Embedding`."""
        features: Tensor = self(made)
        return features.reshape(len(features), sets, -1).mean(dim=2)
