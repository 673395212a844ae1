"""What a fit needs of a generator, whatever it makes."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn


class Generator(nn.Module):
    """A network from noise and a label to what an `Embedding` takes: distributions over cells, or points."""

    @abstractmethod
    def noise(self, rows: int, random: torch.Generator) -> Tensor:
        """Returns the noise of `rows` rows from public randomness, on the CPU."""

    def set_rows(self, wanted: int) -> int:
        """Returns over how many rows a mean is taken when `wanted` would do."""
        return wanted
