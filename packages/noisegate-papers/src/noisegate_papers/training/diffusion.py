"""The public half of a private diffusion model: noisy sums of gradients move a denoiser, whose running mean is kept.

DPDM, Dockhorn, Cao, Vahdat and Kreis (TMLR 2023), https://arxiv.org/abs/2210.09929, algorithm 1. Before the first step
the denoiser may learn from public images, such as the means of DP-FETA (`DiffusionTraining.warm_up`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, interpolate, one_hot

from noisegate.models.checkpoint import joined, restore, under
from noisegate.schema.pixels import ImageShape
from noisegate_images.training.adam import Adam, NoisyDescent
from noisegate_papers.networks.denoiser import Denoiser, coefficients
from noisegate_papers.training.denoising import NoiseDraws, denoising_loss

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

STEP = "step"
"""What the number of the step is called among the parameters of a gradient: it chooses noise, and its own is zero."""

Change: TypeAlias = Callable[[Tensor, torch.Generator], Tensor]
"""From images, (rows, pixels), and public randomness to images."""


class DiffusionTraining:
    """A denoiser on its way; a `noisegate.methods.gradient.Trainer`.

    Args:
        denoiser: At its start; it is moved to `device`, and its weights are the first that gradients are taken at.
        learning_rate: Of Adam.
        batch: Expected number of records of a step.
        ema_decay: Of the running mean of the weights, which is what is released; at the beginning it forgets faster,
            (1 + t)/(10 + t) at step t.
        device: Where to train.
    """

    def __init__(
        self, denoiser: Denoiser, *, learning_rate: float, batch: float, ema_decay: float, device: str
    ) -> None:
        self._denoiser, self._learning_rate, self._batch = denoiser.to(device), learning_rate, batch
        self._decay, self._device, self.steps = ema_decay, device, 0
        self._begin()

    def parameters(self) -> dict[str, Tensor]:
        """Returns the weights, and the number of the step."""
        return {**self._descent.parameters(), STEP: torch.tensor([float(self.steps)], device=self._device)}

    def result(self) -> dict[str, Tensor]:
        """Returns the running mean of the weights."""
        return self._mean

    @torch.no_grad()
    def step(self, noisy: Mapping[str, Tensor]) -> None:
        """Takes a step against a noisy sum of gradients."""
        self._descent.step({name: value for name, value in noisy.items() if name != STEP})
        self.steps += 1
        kept = min(self._decay, (1 + self.steps) / (10 + self.steps))
        for name, value in self._descent.parameters().items():
            self._mean[name].lerp_(value, 1 - kept)

    def warm_up(
        self,
        images: Float[Tensor, "images pixels"],
        labels: Int64[Tensor, " images"],
        draws: NoiseDraws,
        *,
        steps: int,
        batch: int,
        learning_rate: float,
        change: Change,
        seed: int,
    ) -> None:
        """Trains the denoiser on public images before its first private step; nothing is clipped, nothing noised.

        Args:
            images: Intensities in [0, 1].
            labels: Of the images, whose classes are those of the denoiser.
            draws: The levels of the noise.
            steps: Of Adam.
            batch: Images in a step.
            learning_rate: Of Adam.
            change: What is done to images whenever they are seen.
            seed: Of the public randomness.
        """
        random, classes = torch.Generator().manual_seed(seed), self._denoiser.classes
        codes = one_hot(labels, classes).float() if classes else torch.zeros(len(images), 0)
        adam = Adam(dict(self._denoiser.named_parameters()), learning_rate=learning_rate)
        for _ in range(steps):
            chosen = torch.randint(len(images), (batch,), generator=random)
            sigma = draws.sigmas[torch.randint(len(draws.sigmas), (batch, 1), generator=random)]
            noise = torch.randn(batch, images.shape[1], generator=random)
            rows = 2 * change(images[chosen], random) - 1, codes[chosen], noise, sigma
            clean, coded, noise, sigma = (one.to(self._device) for one in rows)
            adam.descend(denoising_loss(self._denoiser, clean, coded, noise, coefficients(sigma)))
        self._begin()

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the weights, Adam's moments, the running mean, and the number of steps."""
        return {**joined(descent=self._descent.state_dict(), mean=self._mean), STEP: torch.tensor(self.steps)}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        self._descent.load_state_dict(under(tensors, "descent/"))
        restore(self._mean, under(tensors, "mean/"))
        self.steps = int(tensors[STEP])

    def _begin(self) -> None:
        start = dict(self._denoiser.named_parameters())
        options: dict[str, Any] = {"learning_rate": self._learning_rate, "batch": self._batch, "device": self._device}
        self._descent = NoisyDescent(start, **options)
        self._mean = {name: value.detach().clone() for name, value in start.items()}


def enlarged(images: Float[Tensor, "rows pixels"], shape: ImageShape, times: int) -> Float[Tensor, "rows _"]:
    """Returns images of `shape` with sides so many times as long, smooth between their pixels."""
    found = interpolate(_pictures(images, shape), scale_factor=times, mode="bilinear") if times > 1 else None
    return images if found is None else found.permute(0, 2, 3, 1).flatten(1)


def jittered(shape: ImageShape, spread: float) -> Change:
    """Returns what turns, shears, stretches and moves each image a little, by normal numbers of this spread.

    The numbers are the six of an affine map of [−1, 1]², in which a picture is; what comes in from outside is its edge.
    """
    still = torch.eye(2, 3)

    def change(images: Float[Tensor, "rows pixels"], random: torch.Generator) -> Float[Tensor, "rows pixels"]:
        maps = still + spread * torch.randn(len(images), 2, 3, generator=random)
        grid = affine_grid(maps, [len(images), shape.channels, shape.height, shape.width], align_corners=False)
        moved = grid_sample(_pictures(images, shape), grid, padding_mode="border", align_corners=False)
        return moved.permute(0, 2, 3, 1).flatten(1)

    return change


def _pictures(images: Float[Tensor, "rows pixels"], shape: ImageShape) -> Float[Tensor, "rows c h w"]:
    return images.reshape(-1, *shape.axes).permute(0, 3, 1, 2)
