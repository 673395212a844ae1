"""Adam (Kingma and Ba, ICLR 2015, https://arxiv.org/abs/1412.6980, algorithm 1) on named tensors.

The function behind `torch.optim.Adam`, with the same bits: making an instance of that imports a compiler for seconds,
which is longer than many a training.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim.adam import adam

_KINDS = {"mean": "exp_avg", "square": "exp_avg_sq"}
"""Moments by our name, to torch's, which checkpoints of earlier versions have."""


class Adam:
    """Moves parameters in place; a `noisegate.training.checkpoint.Resumable`.

    Args:
        parameters: By name; changed by `step`.
        learning_rate: Size of a step.
        beta1: Decay of the mean gradient.
        beta2: Decay of the mean squared gradient.
        eps: Added to the root of the mean squared gradient.
        fused: Whether torch's fused kernel is used; None leaves it to torch.
    """

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        *,
        learning_rate: float,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        fused: bool | None = None,
    ) -> None:
        self._parameters = dict(parameters)
        self._moments = {kind: [torch.zeros_like(value) for value in parameters.values()] for kind in _KINDS}
        device = next(iter(parameters.values())).device if fused else None
        self._taken = [torch.zeros((), device=device) for _ in parameters]
        self.steps, self._learning_rate, self._fused = 0, learning_rate, fused
        self._beta1, self._beta2, self._eps = beta1, beta2, eps

    @torch.no_grad()
    def step(self, gradients: Mapping[str, Tensor], *, scale: float = 1.0) -> None:
        """Takes a step against gradients, one for each parameter; `scale` is of the learning rate at this step."""
        self.steps += 1
        adam(
            list(self._parameters.values()),
            [gradients[name] for name in self._parameters],
            self._moments["mean"],
            self._moments["square"],
            [],
            self._taken,
            lr=self._learning_rate * scale,
            beta1=self._beta1,
            beta2=self._beta2,
            eps=self._eps,
            weight_decay=0.0,
            amsgrad=False,
            maximize=False,
            fused=self._fused,
        )

    def descend(self, loss: Tensor, *, scale: float = 1.0) -> None:
        """Takes a step against the gradient of a loss."""
        gradients = torch.autograd.grad(loss, list(self._parameters.values()))
        self.step(dict(zip(self._parameters, gradients, strict=True)), scale=scale)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns both moments of each parameter, and the number of steps."""
        named = {
            f"{kind}/{name}": moment
            for kind, moments in self._moments.items()
            for name, moment in zip(self._parameters, moments, strict=True)
        }
        return {**named, "taken": torch.tensor(self.steps)}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of other parameters.
        """
        first = next(iter(self._parameters))
        for kind, moments in self._moments.items():
            for name, moment in zip(self._parameters, moments, strict=True):
                old = f"{name}/{_KINDS[kind]}"
                stored = tensors[old if old in tensors else f"{kind}/{name}"]
                if stored.shape != moment.shape:
                    raise ValueError(f"{name} of another shape")
                moment.copy_(stored)
        names = ("taken", f"{first}/step", f"steps/{first}")
        self.steps = int(next(tensors[name] for name in names if name in tensors))
        for taken in self._taken:
            taken.fill_(self.steps)
