"""Optimisers of named tensors: Adam, and two for noisy sums of gradients."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor
from torch.optim.adam import adam

from noisegate.models.checkpoint import joined, restore, under

if TYPE_CHECKING:
    from jaxtyping import Float

_KINDS = ("mean", "square")
NOTHING_SLOWER: Mapping[str, float] = MappingProxyType({})


def gradients(
    output: Float[Tensor, "..."],
    parameters: Mapping[str, Tensor],
    at: Float[Tensor, "..."] | None = None,
) -> dict[str, Tensor]:
    """Returns the gradient of an output at each parameter, pulled back from `at` unless the output is a scalar."""
    return dict(
        zip(
            parameters,
            torch.autograd.grad(output, list(parameters.values()), at),
            strict=True,
        )
    )


class Adam:
    """Adam (Kingma and Ba, ICLR 2015, https://arxiv.org/abs/1412.6980, algorithm 1), in place; a `Resumable`.

    The function behind `torch.optim.Adam`, with the same bits: an instance of that imports a compiler for seconds.
    `fused` says whether torch's fused kernel is used; None leaves it to torch. `slower` has the part of the learning
    rate at which parameters learn, by their names; others learn at all of it.
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
        slower: Mapping[str, float] = NOTHING_SLOWER,
    ) -> None:
        self._parameters = dict(parameters)
        parts = [slower.get(name, 1.0) for name in parameters]
        self._groups = {
            part: [at for at, own in enumerate(parts) if own == part]
            for part in dict.fromkeys(parts)
        }
        self._moments = {
            kind: [torch.zeros_like(value) for value in parameters.values()]
            for kind in _KINDS
        }
        device = next(iter(parameters.values())).device if fused else None
        self._taken = [torch.zeros((), device=device) for _ in parameters]
        self.steps, self._learning_rate = 0, learning_rate
        self._options: dict[str, Any] = {
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
            "fused": fused,
        }
        self._options |= {"weight_decay": 0.0, "amsgrad": False, "maximize": False}

    @torch.no_grad()
    def step(self, gradients: Mapping[str, Tensor], *, scale: float = 1.0) -> None:
        """Takes a step against gradients, one for each parameter; `scale` is of the learning rate at this step."""
        self.steps += 1
        parameters, slopes = (
            list(self._parameters.values()),
            [gradients[name] for name in self._parameters],
        )
        for part, places in self._groups.items():
            one = [
                parameters,
                slopes,
                self._moments["mean"],
                self._moments["square"],
                self._taken,
            ]
            values, of, means, squares, taken = (
                [tensors[place] for place in places] for tensors in one
            )
            adam(
                values,
                of,
                means,
                squares,
                [],
                taken,
                lr=self._learning_rate * scale * part,
                **self._options,
            )

    def descend(
        self,
        output: Float[Tensor, "..."],
        at: Float[Tensor, "..."] | None = None,
        *,
        scale: float = 1.0,
    ) -> None:
        """Takes a step against the gradient of a loss, or of an output pulled back from `at`."""
        self.step(gradients(output, self._parameters, at), scale=scale)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns both moments of each parameter, and the number of steps."""
        moments = {
            kind: dict(zip(self._parameters, each, strict=True))
            for kind, each in self._moments.items()
        }
        return {**joined(**moments), "taken": torch.tensor(self.steps)}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        restore(
            {
                name: value
                for name, value in self.state_dict().items()
                if name != "taken"
            },
            tensors,
        )
        self.steps = int(tensors["taken"])
        for taken in self._taken:
            taken.fill_(self.steps)


class Stateful(Protocol):
    """What changes in a training, such as a network or its optimiser."""

    def state_dict(self) -> Mapping[str, Tensor]:
        """Returns everything that `load_state_dict` needs."""

    def load_state_dict(self, tensors: Any, /) -> Any:
        """Resumes where `state_dict` was called."""


class Checkpointed(ABC):
    """A training that is resumed by its parts, tensors or what has a state of its own, and the steps that it took."""

    steps: int
    counter: ClassVar[str] = "steps"  # what the steps are called in a state

    @abstractmethod
    def parts(self) -> Mapping[str, Any]:
        """Returns what changes, by what it is called in a state."""

    def state_dict(self) -> dict[str, Tensor]:
        """Returns everything that `load_state_dict` needs to continue with the same bits."""
        states = {
            name: part if isinstance(part, Mapping) else part.state_dict()
            for name, part in self.parts().items()
        }
        return {**joined(**states), self.counter: torch.tensor(self.steps)}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        for name, part in self.parts().items():
            own = under(tensors, f"{name}/")
            restore(part, own) if isinstance(part, Mapping) else part.load_state_dict(
                own
            )
        self.steps = int(tensors[self.counter])


class NoisyDescent:
    """The public half of DP-SGD (Abadi et al., CCS 2016, https://arxiv.org/abs/1607.00133), with Adam for its steps.

    Noisy sums of gradients are divided by `batch`, the expected number of records of a step; `schedule` gives the
    factor of the learning rate at each step, counted from 0.
    """

    def __init__(
        self,
        start: Mapping[str, Tensor],
        *,
        learning_rate: float,
        batch: float,
        device: str,
        schedule: Callable[[int], float] = lambda step: 1.0,
    ) -> None:
        self._parameters = {
            name: value.detach().clone().to(device) for name, value in start.items()
        }
        self._adam, self._batch, self._schedule = (
            Adam(self._parameters, learning_rate=learning_rate),
            batch,
            schedule,
        )

    def parameters(self) -> dict[str, Tensor]:
        """Returns the parameters, which are what is trained."""
        return self._parameters

    result = parameters

    def step(self, noisy: Mapping[str, Tensor]) -> None:
        """Takes a step against a noisy sum of gradients."""
        scale = self._schedule(self._adam.steps)
        self._adam.step(
            {name: value / self._batch for name, value in noisy.items()}, scale=scale
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the parameters and the state of Adam."""
        return {**self._parameters, **self._adam.state_dict()}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        self._adam.load_state_dict(tensors)
        restore(self._parameters, tensors)


def one_cycle(progress: float) -> float:
    """Returns the part of the peak learning rate at `progress`, 0 to 1: a short rise, then a cosine to nearly zero."""
    return (
        min(
            progress / 0.1, 0.5 * (1 + math.cos(math.pi * max(progress - 0.1, 0) / 0.9))
        )
        + 1e-3
    )


class NoisyMomentum(Checkpointed):
    """DP-SGD with heavy-ball momentum, and the average of where it was, which takes out noise at no cost in privacy.

    De et al. (2022), https://arxiv.org/abs/2204.13650, section 3. `momentum` is what is kept of the velocity in a step,
    from 0 to 1, `ema_decay` of the average, of which the first t steps keep (1 + t)/(10 + t) at most; noisy sums are
    divided by `batch`, the expected number of records of a step.
    """

    counter = "taken"

    def __init__(
        self,
        start: Mapping[str, Tensor],
        *,
        learning_rate: float,
        momentum: float,
        ema_decay: float,
        batch: float,
        device: str,
    ) -> None:
        self._parameters = {
            name: value.detach().clone().to(device) for name, value in start.items()
        }
        self._average = {
            name: value.clone() for name, value in self._parameters.items()
        }
        self._velocity = {
            name: torch.zeros_like(value) for name, value in self._parameters.items()
        }
        self._learning_rate, self._momentum, self._ema_decay, self._batch = (
            learning_rate,
            momentum,
            ema_decay,
            batch,
        )
        self.steps = 0

    def parameters(self) -> dict[str, Tensor]:
        """Returns the parameters, where the next gradient is taken."""
        return self._parameters

    def result(self) -> dict[str, Tensor]:
        """Returns the average of the parameters, which is what was trained."""
        return self._average

    @torch.no_grad()
    def step(self, noisy: Mapping[str, Tensor]) -> None:
        """Takes a step against a noisy sum of gradients."""
        kept = min(self._ema_decay, (1 + self.steps) / (10 + self.steps))
        for name, value in self._parameters.items():
            velocity = (
                self._velocity[name]
                .mul_(self._momentum)
                .add_(noisy[name], alpha=1 / self._batch)
            )
            value.sub_(velocity, alpha=self._learning_rate)
            self._average[name].lerp_(value, 1 - kept)
        self.steps += 1

    def parts(self) -> dict[str, Any]:
        """Returns parameters, averages and velocities."""
        return {
            "parameter": self._parameters,
            "average": self._average,
            "velocity": self._velocity,
        }
