"""Optimisers as named tensors, so that a fit can be stopped, saved and taken up again with the same bits."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

_PREFIX = "optimiser/"


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Returns what an optimiser remembers of its steps, under names of their own."""
    slots = optimiser.state_dict()["state"].items()
    return {f"{_PREFIX}{index}/{name}": torch.as_tensor(value) for index, slot in slots for name, value in slot.items()}


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Gives an optimiser of the same parameters what `optimiser_tensors` gave; other tensors are passed over."""
    slots: dict[int, dict[str, Tensor]] = {}
    for key, value in under(tensors, _PREFIX).items():
        index, name = key.split("/")
        slots.setdefault(int(index), {})[name] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": slots})


def under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Returns the tensors whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
