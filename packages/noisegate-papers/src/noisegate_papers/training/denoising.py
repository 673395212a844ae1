"""The public half of a private diffusion model: a denoiser that noisy sums of gradients move, by the loss of EDM.

DPDM, algorithm 1 and section 3.2: the loss of a record is the mean over several draws, which `NoiseDraws` looks up.

EDM is that of `noisegate_papers.models.diffusion`. DPDM
(`noisegate_papers.methods.dpdm`), algorithm 1 and section 3.2, takes the mean over
several draws (n, σ) as the loss of a record, which is clipped after the mean.
`NoiseDraws` reads draws off tables, at places that follow from the step and the image:
a loss that the gate differentiates draws nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, interpolate, one_hot

from noisegate.schema.pixels import ImageShape
from noisegate_images.training.adam import Adam, Checkpointed, NoisyDescent
from noisegate_papers.models.diffusion import Coefficients, Denoiser, coefficients

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

_POOL, _LEVELS = 2**20, 2**12
# The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), whose constants are written as signed numbers.
_STRIDE, _FIRST, _SECOND = (
    -7046029254386353131,
    -4658895280553007687,
    -7723592293110705685,
)


def denoising_loss(
    network: Callable[[Tensor], Tensor],
    images: Float[Tensor, "#rows pixels"],
    labels: Float[Tensor, "#rows classes"],
    noise: Float[Tensor, "rows pixels"],
    at: Coefficients,
) -> Float[Tensor, ""]:
    """Returns the mean squared error of what F says of noisy images; EDM, equation 8 with its weights."""
    # Images in [−1, 1] and one-hot labels, (…, 0) without any, are one, or one for each draw of standard normal noise.
    seen = images + at.sigma * noise
    rows = torch.cat([at.into * seen, at.level, labels.expand(len(noise), -1)], dim=1)
    error: Tensor = network(rows) - (images - at.skip * seen) / at.out
    return error.square().mean()


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseDraws:
    """Noise and its levels by public tables; the levels of a record's draws lie evenly, one in each part of them."""

    noise: Float[Tensor, " pool"]  # standard normal; that of an image is a piece of it
    sigmas: Float[Tensor, " levels"]  # quantiles of the levels, ascending
    factors: Int64[Tensor, " pixels"]  # odd numbers, which distinguish images
    multiplicity: int  # K, how many draws a record has

    @classmethod
    def of(
        cls, pixels: int, *, multiplicity: int, p_mean: float, p_std: float, seed: int
    ) -> NoiseDraws:
        """Returns draws for images of so many pixels, whose log σ is normal with a mean and standard deviation."""
        random, normal = torch.Generator().manual_seed(seed), NormalDist(p_mean, p_std)
        quantiles = [
            normal.inv_cdf((place + 0.5) / _LEVELS) for place in range(_LEVELS)
        ]
        noise, factors = (
            torch.randn(_POOL, generator=random),
            torch.randint(2**62, (pixels,), generator=random) | 1,
        )
        return cls(
            noise=noise,
            sigmas=torch.tensor(quantiles).exp(),
            factors=factors,
            multiplicity=multiplicity,
        )

    def __call__(
        self, step: Float[Tensor, " 1"], intensities: Float[Tensor, " pixels"]
    ) -> tuple[Float[Tensor, "draws pixels"], Float[Tensor, "draws 1"]]:
        """Returns the noise of one record, intensities in [0, 1] up to 1/255, in a step, and σ of each draw."""
        device, draws = intensities.device, self.multiplicity
        whole = (intensities * 255).round().long()
        key = (whole * self.factors.to(device)).sum() + step.detach().round().long()[
            0
        ] * _STRIDE
        number = torch.arange(draws, device=device)
        first = _mixed(_mixed(key) + number * _STRIDE)
        start, level = (
            first & (_POOL - 1),
            (_mixed(first) & (_LEVELS - 1)) + number * _LEVELS,
        )
        places = (start[:, None] + torch.arange(len(self.factors), device=device)) & (
            _POOL - 1
        )
        return self.noise.to(device)[places], self.sigmas.to(device)[
            level.div(draws, rounding_mode="floor")
        ][:, None]


def _mixed(values: Int64[Tensor, "*shape"]) -> Int64[Tensor, "*shape"]:
    """Returns numbers whose bits each depend on all bits of `values`; integers wrap around."""
    values = (values ^ (values >> 30)) * _FIRST
    values = (values ^ (values >> 27)) * _SECOND
    return values ^ (values >> 31)


STEP = "step"
"""What the number of the step is called among the parameters of a gradient: it chooses noise, and its own is zero."""


class DiffusionTraining(Checkpointed):
    """A denoiser, `batch` records a step, expected; its running mean forgets faster at first, (1 + t)/(10 + t)."""

    counter = STEP

    def __init__(
        self,
        denoiser: Denoiser,
        *,
        learning_rate: float,
        batch: float,
        ema_decay: float,
        device: str,
    ) -> None:
        self._denoiser, self._learning_rate, self._batch = (
            denoiser.to(device),
            learning_rate,
            batch,
        )
        self._decay, self._device, self.steps = ema_decay, device, 0
        self._begin()

    def parameters(self) -> dict[str, Tensor]:
        """Returns the weights, and the number of the step."""
        return {
            **self._descent.parameters(),
            STEP: torch.tensor([float(self.steps)], device=self._device),
        }

    def result(self) -> dict[str, Tensor]:
        """Returns the running mean of the weights."""
        return self._mean

    @torch.no_grad()
    def step(self, noisy: Mapping[str, Tensor]) -> None:
        """Takes a step against a noisy sum of gradients."""
        self._descent.step(
            {name: value for name, value in noisy.items() if name != STEP}
        )
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
        change: Callable[[Tensor, torch.Generator], Tensor],
        seed: int,
    ) -> None:
        """Trains the denoiser on public images before its first private step; nothing is clipped, nothing noised."""
        # Images, intensities in [0, 1], are changed whenever they are seen, and stand under noise of the levels of
        # `draws`.
        random, classes = torch.Generator().manual_seed(seed), self._denoiser.classes
        codes = (
            one_hot(labels, classes).float() if classes else torch.zeros(len(images), 0)
        )
        adam = Adam(
            dict(self._denoiser.named_parameters()), learning_rate=learning_rate
        )
        for _ in range(steps):
            chosen = torch.randint(len(images), (batch,), generator=random)
            sigma = draws.sigmas[
                torch.randint(len(draws.sigmas), (batch, 1), generator=random)
            ]
            noise = torch.randn(batch, images.shape[1], generator=random)
            rows = 2 * change(images[chosen], random) - 1, codes[chosen], noise, sigma
            clean, coded, noise, sigma = (one.to(self._device) for one in rows)
            adam.descend(
                denoising_loss(self._denoiser, clean, coded, noise, coefficients(sigma))
            )
        self._begin()

    def parts(self) -> dict[str, Any]:
        """Returns the weights with Adam's moments, and the running mean."""
        return {"descent": self._descent, "mean": self._mean}

    def _begin(self) -> None:
        start = dict(self._denoiser.named_parameters())
        self._descent = NoisyDescent(
            start,
            learning_rate=self._learning_rate,
            batch=self._batch,
            device=self._device,
        )
        self._mean = {name: value.detach().clone() for name, value in start.items()}


def enlarged(
    images: Float[Tensor, "rows pixels"], shape: ImageShape, times: int
) -> Float[Tensor, "rows _"]:
    """Returns images of `shape` with sides so many times as long, smooth between their pixels."""
    found = interpolate(
        images.reshape(-1, *shape.axes).movedim(3, 1),
        scale_factor=times,
        mode="bilinear",
    )
    return found.movedim(1, 3).flatten(1) if times > 1 else images


def jittered(
    shape: ImageShape, spread: float
) -> Callable[[Tensor, torch.Generator], Tensor]:
    """Returns what turns, shears, stretches and moves images a little: affine maps of [−1, 1]², normal, by `spread`."""
    still = torch.eye(2, 3)

    def change(
        images: Float[Tensor, "rows pixels"], random: torch.Generator
    ) -> Float[Tensor, "rows pixels"]:
        maps = still + spread * torch.randn(len(images), 2, 3, generator=random)
        pictures = images.reshape(-1, *shape.axes).movedim(3, 1)
        grid = affine_grid(maps, list(pictures.shape), align_corners=False)
        moved = grid_sample(pictures, grid, padding_mode="border", align_corners=False)
        return moved.movedim(1, 3).flatten(1)

    return change
