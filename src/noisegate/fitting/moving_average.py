"""The moving average of generative feature matching networks (dos Santos et al., ICCV 2019; GFMN, section 3.3).

One batch estimates the generator's mean features badly. GFMN keeps v, an average over steps of the gap between the
released means and those of a batch, and lowers ⟨v, gap⟩ with v held fixed. The average is taken by Adam: each step is
one of Adam on the squared difference of v and the gap, so v is no exponential average.

Its gradient is twice the difference, over the number of features where their mean is taken. With 303,104 features of
norm 1 that is about 1e-8, as small as Adam's ε, which then damps every step: the mean and 1e-8, as in DP-MEPF's code,
move v much slower than the sum does. Both are settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from noisegate.errors import OptionError

Reduction = Literal["mean", "sum"]
_BETAS = (0.5, 0.999)


@dataclass(frozen=True, kw_only=True)
class AverageSettings:
    """How the gap is averaged.

    Attributes:
        rate: Learning rate of Adam.
        eps: Of Adam.
        reduction: Whether squared differences are averaged or added up over the features.
    """

    rate: float = 1e-4
    eps: float = 1e-8
    reduction: Reduction = "mean"

    def __post_init__(self) -> None:
        for name in ("rate", "eps"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 10:
                raise OptionError(f"fit option average_{name}={value!r} must be a positive number, 10 or less.")
        if self.reduction not in ("mean", "sum"):
            raise OptionError(f"fit option average_reduction={self.reduction!r} must be 'mean' or 'sum'.")


class MovingAverage:
    """The average gap of one block of features.

    Args:
        dim: Number of features.
        classes: Columns of the gap.
        settings: How it is averaged.
        random: Public randomness, of the start: uniform within ±1/√dim, as a linear layer's weights.
        device: Where to compute.
    """

    def __init__(
        self, dim: int, classes: int, settings: AverageSettings, random: torch.Generator, device: torch.device
    ) -> None:
        start = (2 * torch.rand(dim, classes, generator=random) - 1) * dim**-0.5
        self.value: Tensor = start.to(device)
        self._settings = settings
        self._optimiser = torch.optim.Adam([self.value], lr=settings.rate, betas=_BETAS, eps=settings.eps)

    def update(self, gap: Tensor) -> Tensor:
        """Takes one step towards `gap`, (dim, classes), and returns the average after it."""
        scale = 2 / self.value.numel() if self._settings.reduction == "mean" else 2.0
        self.value.grad = scale * (self.value - gap)
        self._optimiser.step()
        return self.value

    def state(self) -> dict[str, Tensor]:
        """Returns what `restore` needs, as named tensors."""
        slots = self._optimiser.state_dict()["state"].get(0, {})
        return {"value": self.value, **{f"adam/{name}": torch.as_tensor(value) for name, value in slots.items()}}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up the average where `state` was called."""
        self.value.copy_(tensors["value"])
        slots = {name.removeprefix("adam/"): value for name, value in tensors.items() if name.startswith("adam/")}
        state = {0: slots} if slots else {}
        self._optimiser.load_state_dict({**self._optimiser.state_dict(), "state": state})
