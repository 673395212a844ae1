"""The public half of DP-DRE: a discriminator between public references and private records, of which it sees gradients.

Equation 2 of the paper, with D = σ(s): minimise E_private softplus(−s(f)) + E_public softplus(s(f)). The gradient of
the first term comes from the gate, a noisy sum over the size that is expected; that of the second is taken at
references drawn anew in each step. At the optimum exp(s) is the density of private features over that of public ones.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import softplus

from noisegate.models.checkpoint import joined, restore, under
from noisegate_images.training.adam import gradients
from noisegate_papers.networks.discriminator import Discriminator
from noisegate_papers.training.adversarial import DiscriminatorTraining, stream


class DensityRatioTraining(DiscriminatorTraining):
    """A discriminator on its way.

    Args:
        discriminator: At its start, on the device.
        features: Of the references, (references, dim).
        labels: Of the references, (references,) int64; None where each stands for every label.
        records: Expected number of private records in a step.
        batch: References in a step.
        learning_rate: Of Adam.
        burn_in: Steps before those whose weights are averaged to what is released.
        seed: Which references are drawn; public.
    """

    def __init__(
        self,
        discriminator: Discriminator,
        features: npt.NDArray[np.float32],
        labels: npt.NDArray[np.int64] | None,
        *,
        records: float,
        batch: int,
        learning_rate: float,
        burn_in: int,
        seed: int,
    ) -> None:
        super().__init__(discriminator, learning_rate=learning_rate, records=records)
        device = next(discriminator.parameters()).device
        self._features, self._seed = torch.from_numpy(features).to(device), seed
        self._labels = None if labels is None else torch.from_numpy(labels).to(device)
        self._batch, self._burn_in = min(batch, len(features)), burn_in
        self._means = {name: value.detach().clone() for name, value in self._weights.items()}

    def result(self) -> dict[str, Tensor]:
        """Returns the mean of the weights over the last steps: most of what noise did to single ones cancels."""
        return {name: value.clone() for name, value in self._means.items()}

    def fake_gradients(self) -> dict[str, Tensor]:
        """Returns the gradient of the mean of −log(1 − D) over references that are drawn at random."""
        drawn = torch.randint(len(self._features), (self._batch,), generator=stream(self._seed, self.steps))
        drawn = drawn.to(self._features.device)
        labels = None if self._labels is None else self._labels[drawn]
        return gradients(softplus(self.discriminator.label_scores(self._features[drawn], labels)).mean(), self._weights)

    def after_step(self) -> None:
        """Averages the weights; until the averaging begins, the mean is the latest."""
        share = 1 / max(self.steps - self._burn_in, 1)
        for name, value in self._weights.items():
            self._means[name].lerp_(value.detach(), share)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns weights, their mean, the optimiser and the number of steps."""
        parts = joined(weights=self.parameters(), mean=self._means, adam=self._adam.state_dict())
        return {**parts, "steps": torch.tensor(self.steps)}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        self.discriminator.load_state_dict(under(tensors, "weights/"))
        self._adam.load_state_dict(under(tensors, "adam/"))
        restore(self._means, under(tensors, "mean/"))
        self.steps = int(tensors["steps"])
