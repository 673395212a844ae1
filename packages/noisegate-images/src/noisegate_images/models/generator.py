"""What a fit needs of a generator, whatever it makes.

Given its noise, the columns of a record are independent, so its expected features are
products of small sums, exact and differentiable (`of_cells` of a feature map); columns
depend on each other through the shared noise.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from noisegate.models.record_model import Array, RecordModel
from noisegate.schema import Layout

if TYPE_CHECKING:
    from jaxtyping import Shaped
    from torch import Tensor


PREFIX = "generator/"  # of the names of a network's weights in a saved model


class Generator(nn.Module):
    """A network from noise and a label to what an `Embedding` takes: distributions over cells, or points."""

    components: int | None = None
    """How many rows give the exact mean of a class; None where more rows give a better one."""
    pretrained: str | None = None
    """What the names of parameters begin with that were learnt from public records before; None if there are none."""

    @abstractmethod
    def noise(
        self, rows: int, random: torch.Generator
    ) -> Shaped[Tensor, "rows latent"]:
        """Returns the noise of `rows` rows from public randomness, on the CPU."""

    def load_fitted(self, tensors: Mapping[str, Array]) -> Self:
        """Returns itself with the weights of a saved model, frozen; those are named after `PREFIX`."""
        fitted = {
            name.removeprefix(PREFIX): value
            for name, value in tensors.items()
            if name.startswith(PREFIX)
        }
        self.load_state_dict(
            {name: torch.from_numpy(value) for name, value in fitted.items()}
        )
        return self.requires_grad_(False).eval()


class DrawsRecords(Protocol):
    """A generator that makes records by itself, and no features of them."""

    def record_model(
        self, weights: npt.NDArray[np.float64], layout: Layout
    ) -> RecordModel:
        """Returns what draws records, once trained.

        Args:
            weights: Share of each label, (labels,); one 1 without any.
            layout: Columns of the records.
        """
