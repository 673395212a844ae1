"""What a diffusion model learns from: images under noise of many levels, by the loss of EDM.

Karras, Aittala, Aila and Laine (NeurIPS 2022), https://arxiv.org/abs/2206.00364. DPDM, Dockhorn, Cao, Vahdat and Kreis
(TMLR 2023), https://arxiv.org/abs/2210.09929, section 3.2, takes the mean over several draws (n, σ) as the loss of a
record, which is clipped after the mean. A loss that the gate differentiates draws no randomness, so `NoiseDraws` reads
draws off tables, at places that follow from the number of the step and from the image, in integers: what a record adds
is a function of it and of public values alone, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from noisegate_papers.networks.denoiser import Coefficients

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

_POOL, _LEVELS = 2**20, 2**12
# The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), whose constants are written as signed numbers.
_STRIDE, _FIRST, _SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685


def denoising_loss(
    network: Callable[[Tensor], Tensor],
    images: Float[Tensor, "#rows pixels"],
    labels: Float[Tensor, "#rows classes"],
    noise: Float[Tensor, "rows pixels"],
    at: Coefficients,
) -> Float[Tensor, ""]:
    """Returns the mean squared error of what the network says of noisy images; EDM, equation 8 with its weights.

    Args:
        network: From rows of an image, its noise level and its label to what F says.
        images: In [−1, 1]; one, or one for each draw.
        labels: One-hot codes of them, (…, 0) without labels.
        noise: Standard normal.
        at: The level of each draw, (rows, 1).
    """
    seen = images + at.sigma * noise
    rows = torch.cat([at.into * seen, at.level, labels.expand(len(noise), -1)], dim=1)
    error: Tensor = network(rows) - (images - at.skip * seen) / at.out
    return error.square().mean()


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseDraws:
    """Noise and its levels by public tables; the levels of a record's draws lie evenly, one in each part of them.

    Attributes:
        noise: Standard normal numbers; noise of an image is a piece of them.
        sigmas: Quantiles of the levels, ascending.
        factors: Odd numbers that tell images apart, one for each pixel.
        multiplicity: Draws for each record (K).
    """

    noise: Float[Tensor, " pool"]
    sigmas: Float[Tensor, " levels"]
    factors: Int64[Tensor, " pixels"]
    multiplicity: int

    @classmethod
    def of(cls, pixels: int, *, multiplicity: int, p_mean: float, p_std: float, seed: int) -> NoiseDraws:
        """Returns draws for images of so many pixels, whose log σ is normal with a mean and standard deviation."""
        random, normal = torch.Generator().manual_seed(seed), NormalDist(p_mean, p_std)
        quantiles = [normal.inv_cdf((place + 0.5) / _LEVELS) for place in range(_LEVELS)]
        return cls(
            noise=torch.randn(_POOL, generator=random),
            sigmas=torch.tensor(quantiles).exp(),
            factors=torch.randint(2**62, (pixels,), generator=random) | 1,
            multiplicity=multiplicity,
        )

    def __call__(
        self, step: Float[Tensor, " 1"], intensities: Float[Tensor, " pixels"]
    ) -> tuple[Float[Tensor, "draws pixels"], Float[Tensor, "draws 1"]]:
        """Returns the noise of one record in a step, and σ of each draw.

        `step` is its number, and `intensities` are the record's, in [0, 1]; whether there are fractions of 1/255 does
        not matter.
        """
        device, draws = intensities.device, self.multiplicity
        whole = (intensities * 255).round().long()
        key = (whole * self.factors.to(device)).sum() + step.detach().round().long()[0] * _STRIDE
        number = torch.arange(draws, device=device)
        first = _mixed(_mixed(key) + number * _STRIDE)
        start, level = first & (_POOL - 1), (_mixed(first) & (_LEVELS - 1)) + number * _LEVELS
        places = (start[:, None] + torch.arange(len(self.factors), device=device)) & (_POOL - 1)
        return self.noise.to(device)[places], self.sigmas.to(device)[level.div(draws, rounding_mode="floor")][:, None]


def _mixed(values: Int64[Tensor, "*shape"]) -> Int64[Tensor, "*shape"]:
    """Returns numbers whose bits each depend on all bits of `values`; integers wrap around."""
    values = (values ^ (values >> 30)) * _FIRST
    values = (values ^ (values >> 27)) * _SECOND
    return values ^ (values >> 31)
