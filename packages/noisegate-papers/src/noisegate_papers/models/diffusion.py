"""A diffusion model of images: a label, then noise, which a denoiser takes away in a few steps.

The deterministic sampler of EDM, Karras, Aittala, Aila and Laine (NeurIPS 2022), https://arxiv.org/abs/2206.00364,
algorithm 1: Heun's method on the probability flow, from σ = 80 to 0.002, at levels whose 7th roots lie evenly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from noisegate.models.record_model import Array
from noisegate.schema import EncodedTable, Schema
from noisegate.schema.pixels import ImageShape
from noisegate_papers.networks.denoiser import Denoiser, build_denoiser, coefficients

if TYPE_CHECKING:
    from jaxtyping import Float

_LARGEST, _SMALLEST, _ROOT = 80.0, 0.002, 7.0
_PREFIX = "denoiser/"
# Images made at once: some hundred megabytes of activations at most.
_BLOCK = 250


@dataclass(frozen=True, kw_only=True, eq=False)
class DiffusionImages:
    """A label, then noise, then an image.

    Attributes:
        denoiser: The trained network, on the CPU, frozen.
        weights: Share of each label, (labels,); one 1 without a label.
        channels: Of the denoiser.
        sampling_steps: Levels of noise on the way to an image; the denoiser runs twice at each but the last one.
    """

    denoiser: Denoiser
    weights: npt.NDArray[np.float64]
    channels: tuple[int, ...]
    sampling_steps: int

    kind: ClassVar[str] = "diffusion"

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` records, pixels as numeric columns; `random` is public randomness, on the CPU."""
        labels = torch.multinomial(torch.from_numpy(self.weights), rows, replacement=True, generator=random)
        classes, size = self.denoiser.classes, self.denoiser.shape.size
        coded, pixels = one_hot(labels, len(self.weights)).float()[:, :classes], np.empty((rows, size))
        for start in range(0, rows, _BLOCK):
            block = coded[start : start + _BLOCK]
            pixels[start : start + _BLOCK] = self._images(torch.randn(len(block), size, generator=random), block)
        codes = labels.numpy().astype(np.int32)[:, None]
        return EncodedTable(pixels, codes if classes else codes[:, :0])

    @torch.no_grad()
    def _images(
        self, noise: Float[Tensor, "rows pixels"], labels: Float[Tensor, "rows classes"]
    ) -> Float[Tensor, "rows pixels"]:
        """Returns intensities in [0, 1]."""
        high, low = _LARGEST ** (1 / _ROOT), _SMALLEST ** (1 / _ROOT)
        levels = torch.linspace(high, low, self.sampling_steps, dtype=torch.float64).pow(_ROOT)
        sigmas = [*levels.tolist(), 0.0]
        images = sigmas[0] * noise
        for sigma, after in pairwise(sigmas):
            slope = (images - self._denoised(images, labels, sigma)) / sigma
            moved = images + (after - sigma) * slope
            if after:
                again = (moved - self._denoised(moved, labels, after)) / after
                moved = images + (after - sigma) * (slope + again) / 2
            images = moved
        made: Tensor = ((images + 1) / 2).clamp(0, 1)
        return made

    def _denoised(
        self, images: Float[Tensor, "rows pixels"], labels: Float[Tensor, "rows classes"], sigma: float
    ) -> Float[Tensor, "rows pixels"]:
        at = coefficients(images.new_full((len(images), 1), sigma))
        said: Tensor = self.denoiser(torch.cat([at.into * images, at.level, labels], dim=1))
        return at.skip * images + at.out * said

    def tensors(self) -> dict[str, Array]:
        """Returns the weights of the denoiser and the shares of the labels."""
        fitted = {f"{_PREFIX}{name}": value.numpy() for name, value in self.denoiser.state_dict().items()}
        return {**fitted, "weights": self.weights}

    def to_json(self) -> dict[str, Any]:
        """Returns the shape of the images, the design of the denoiser, and how it is sampled."""
        design = {"channels": list(self.channels), "patch": self.denoiser.patch}
        return {"image": list(astuple(self.denoiser.shape)), **design, "sampling_steps": self.sampling_steps}

    @classmethod
    def from_saved(cls, schema: Schema, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> Self:
        """Returns the model that `tensors` and `to_json` describe."""
        height, width, colours = description["image"]
        shape, weights = ImageShape(height=height, width=width, channels=colours), tensors["weights"].astype(np.float64)
        layout, channels = schema.layout, tuple(description["channels"])
        if shape.size != len(layout.numeric) or len(weights) != max(layout.classes, 1):
            raise ValueError(f"images of {shape} with {len(weights)} labels do not fit the schema")
        denoiser = build_denoiser(shape, layout.classes, channels=channels, patch=description["patch"], seed=0)
        fitted = {name.removeprefix(_PREFIX): torch.from_numpy(value) for name, value in tensors.items()}
        denoiser.load_state_dict({name: value for name, value in fitted.items() if name != "weights"})
        denoiser.requires_grad_(False).eval()
        steps = int(description["sampling_steps"])
        return cls(denoiser=denoiser, weights=weights, channels=channels, sampling_steps=steps)
