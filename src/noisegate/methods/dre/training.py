"""The public half of DP-DRE: a discriminator that is shown public references, and noisy gradients at private records.

Equation 2 of the paper, with D = σ(s) and the logistic loss written in the score s:

    minimise  −E_private log D(f) − E_public log(1 − D(f))  =  E_private softplus(−s(f)) + E_public softplus(s(f)).

The gradient of the first term comes from the gate, a noisy sum over the size that is expected; that of the second is
taken here, at references drawn anew in each step. At the optimum D = p/(p + q), so that exp(s) = D/(1 − D) = p/q, the
density of private features over that of public ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from noisegate.networks.discriminator import Discriminator


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How the discriminator is trained; none of it uses private records.

    Attributes:
        steps: How many there will be.
        batch: References in a step.
        learning_rate: Of Adam.
        averaged: Part of the steps, the last ones, whose weights are averaged to what is released.
        seed: Which references are drawn; public.
    """

    steps: int
    batch: int
    learning_rate: float
    averaged: float
    seed: int

    def random(self, step: int) -> torch.Generator:
        """Returns the randomness of a step: the same when a run is taken up again."""
        import torch

        seed = int(np.random.SeedSequence([self.seed, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))
        return torch.Generator().manual_seed(seed)


class DensityRatioTraining:
    """A discriminator on its way.

    Args:
        rules: How it is trained.
        discriminator: At its start, on the device.
        features: Of the references, (references, dim), on the device.
        labels: Of the references, (references,) int64, on the device; None where each stands for every label.
        records: Expected number of private records in a step.
    """

    def __init__(
        self, rules: Rules, discriminator: Discriminator, features: Tensor, labels: Tensor | None, *, records: float
    ) -> None:
        from noisegate.fitting.adam import Adam

        self.steps = 0
        self._rules, self._records = rules, records
        self._discriminator, self._features, self._labels = discriminator, features, labels
        self._weights = dict(discriminator.named_parameters())
        self._adam = Adam(self._weights, learning_rate=rules.learning_rate)
        self._means = {name: value.detach().clone() for name, value in self._weights.items()}
        self._from = rules.steps - max(round(rules.averaged * rules.steps), 1)

    def parameters(self) -> dict[str, Tensor]:
        """Returns the weights, where the next gradient is to be taken."""
        return {name: value.detach() for name, value in self._weights.items()}

    def result(self) -> dict[str, Tensor]:
        """Returns the mean of the weights over the last steps: most of what noise did to single ones cancels."""
        return {name: value.clone() for name, value in self._means.items()}

    def step(self, noisy: Mapping[str, Tensor]) -> None:
        """Moves the discriminator after a noisy sum of gradients at private records."""
        public = self._slopes()
        self._adam.step({name: noisy[name] / self._records + public[name] for name in self._weights})
        self.steps += 1
        # Until the averaging begins, the mean is the latest.
        share = 1 / max(self.steps - self._from, 1)
        for name, value in self._weights.items():
            self._means[name].lerp_(value.detach(), share)

    def state(self) -> dict[str, Tensor]:
        """Returns weights, their mean, the optimiser and the number of steps."""
        import torch

        parts = {"weights": self.parameters(), "mean": self._means, "adam": self._adam.state()}
        named = {f"{part}/{name}": value for part, tensors in parts.items() for name, value in tensors.items()}
        return {**named, "steps": torch.tensor(self.steps)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up the training where `state` was called."""
        parts: dict[str, dict[str, Tensor]] = {"weights": {}, "mean": {}, "adam": {}}
        for path, value in tensors.items():
            part, _, name = path.partition("/")
            if name:
                parts[part][name] = value
        self._discriminator.load_state_dict(parts["weights"])
        self._adam.restore(parts["adam"])
        for name, mean in self._means.items():
            mean.copy_(parts["mean"][name])
        self.steps = int(tensors["steps"])

    def _slopes(self) -> dict[str, Tensor]:
        """Returns the gradient of the mean of −log(1 − D) over references that are drawn at random."""
        import torch
        from torch.nn.functional import softplus

        batch = min(self._rules.batch, len(self._features))
        drawn = torch.randint(len(self._features), (batch,), generator=self._rules.random(self.steps))
        drawn = drawn.to(self._features.device)
        labels = None if self._labels is None else self._labels[drawn]
        loss = softplus(scores_of(self._discriminator, self._features[drawn], labels)).mean()
        slopes = torch.autograd.grad(loss, list(self._weights.values()))
        return dict(zip(self._weights, slopes, strict=True))


def scores_of(discriminator: Discriminator, features: Tensor, labels: Tensor | None) -> Tensor:
    """Returns scores s = log D/(1 − D) of records.

    Args:
        discriminator: Of features, and of labels where there are any.
        features: (rows, dim).
        labels: (rows,) int64; None for the scores with every label.

    Returns:
        (labels, rows): one row where each record has its own label, or there are none.
    """
    found: Tensor = discriminator.scores(discriminator.body(features)).T
    if not discriminator.classes:
        return found
    every = found[:1] + found[1:]
    return every if labels is None else every.gather(0, labels[None])
