"""What a fit needs of a generator, whatever it makes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from noisegate.errors import OptionError
from noisegate.models.record_model import Array

if TYPE_CHECKING:
    from jaxtyping import Shaped

    from noisegate.models.record_model import RecordModel
    from noisegate.schema import Layout

PREFIX = "generator/"
"""Of the names of a network's weights in a saved model."""


class Generator(nn.Module):
    """A network from noise and a label to what an `Embedding` takes: distributions over cells, or points."""

    components: int | None = None
    """How many rows give the exact mean of a class; None where more rows give a better one."""
    pretrained: str | None = None
    """What the names of parameters begin with that were learnt from public records before; None if there are none."""

    @abstractmethod
    def noise(self, rows: int, random: torch.Generator) -> Shaped[Tensor, "rows latent"]:
        """Returns the noise of `rows` rows from public randomness, on the CPU."""

    def record_model(self, weights: npt.NDArray[np.float64], layout: Layout) -> RecordModel:
        """Returns what draws records of `layout`, once it is trained, on the CPU and in evaluation mode.

        Args:
            weights: Share of each label, (labels,); one 1 without a label.
            layout: Of the records.
        """
        raise NotImplementedError

    def total_variation(self, made: Shaped[Tensor, "rows _"]) -> Shaped[Tensor, ""]:
        """Returns how rough what it made is on average; an `OptionError` if that makes no sense."""
        raise OptionError("total_variation of a fit is of images, and this generator makes none; leave it out.")

    def load_fitted(self, tensors: Mapping[str, Array]) -> Self:
        """Returns itself with the weights of a saved model, frozen; those are named after `PREFIX`."""
        fitted = {name.removeprefix(PREFIX): value for name, value in tensors.items() if name.startswith(PREFIX)}
        self.load_state_dict({name: torch.from_numpy(value) for name, value in fitted.items()})
        return self.requires_grad_(False).eval()
