"""A diffusion model of images: a label, then noise, which a denoiser takes away in a few steps.

As in EDM, Karras, Aittala, Aila and Laine (NeurIPS 2022), https://arxiv.org/abs/2206.00364. With images x in [−1, 1],
noise n and its standard deviation σ, the network F sees c_in·(x + σn) and is to say (x − c_skip·(x + σn))/c_out:
`coefficients`. The sampler is algorithm 1, deterministic.

As in EDM, Karras, Aittala, Aila and Laine (NeurIPS 2022),
https://arxiv.org/abs/2206.00364. The denoiser is a small U-Net: one block at each size
on either side, halves meet by addition, no attention. Convolutions do not know where
they are, so that a label that shifts and scales whole channels cannot say what is
where: without more, labels meant nothing. Each label therefore adds a fixed pattern of
signs at the smallest of several sizes: public, no weights, so that nothing more is
asked of records. With images x in [−1, 1], noise n and its standard deviation σ, the
network F sees c_in·(x + σn) and is to say (x − c_skip·(x + σn))/c_out: `coefficients`.
Every row is treated on its own and nothing is drawn, so gradients are per example. The
sampler is algorithm 1, deterministic, from σ = 80 to 0.002, at levels whose 7th roots
lie evenly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, pixel_shuffle, pixel_unshuffle, silu

from noisegate.devices import seeded
from noisegate.models.checkpoint import under
from noisegate.models.record_model import Array
from noisegate.schema import EncodedTable, Schema
from noisegate.schema.pixels import ImageShape
from noisegate_images.networks.classifiers import RowsToImages

if TYPE_CHECKING:
    from jaxtyping import Float

_DATA_STD = 0.5  # σ_data: of images in [−1, 1], for which the coefficients are made

_GROUPS = 8
_FREQUENCIES = 16


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions behind a normalisation each, the second one shifted and scaled by an embedding."""

    def __init__(self, channels: int, embedding: int) -> None:
        super().__init__()
        groups = math.gcd(channels, _GROUPS)
        self.first_norm, self.second_norm = (
            nn.GroupNorm(groups, channels) for _ in range(2)
        )
        self.first, self.second = (
            nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2)
        )
        self.modulation = nn.Linear(embedding, 2 * channels)

    def forward(
        self,
        images: Float[Tensor, "rows channels h w"],
        embedding: Float[Tensor, "rows embedding"],
    ) -> Float[Tensor, "rows channels h w"]:
        """Returns activations of the shape of `images`."""
        scale, shift = self.modulation(embedding)[:, :, None, None].chunk(2, dim=1)
        found = self.first(silu(self.first_norm(images)))
        found = self.second(silu(self.second_norm(found) * (1 + scale) + shift))
        added: Tensor = images + found
        return added


class Denoiser(nn.Module):
    """The network F of EDM; see `build_denoiser`. A row is an image, its level (log σ over 4), its one-hot label."""

    patterns: Tensor

    def __init__(
        self, shape: ImageShape, classes: int, *, channels: Sequence[int], patch: int
    ) -> None:
        super().__init__()
        width, pixels = 2 * channels[0], shape.channels * patch**2
        self.shape, self.classes, self.patch = shape, classes, patch
        self.images = RowsToImages(shape)
        self.level, self.label = (
            nn.Linear(2 * _FREQUENCIES, width),
            nn.Linear(max(classes, 1), width, bias=False),
        )
        self.entry = nn.Conv2d(pixels, channels[0], 3, padding=1)
        self.down = nn.ModuleList(
            nn.Conv2d(4 * wide, narrow, 1) for wide, narrow in pairwise(channels)
        )
        self.up = nn.ModuleList(
            nn.Conv2d(narrow, 4 * wide, 1) for wide, narrow in pairwise(channels)
        )
        self.before = nn.ModuleList(ResidualBlock(size, width) for size in channels)
        self.after = nn.ModuleList(ResidualBlock(size, width) for size in channels[:-1])
        self.norm = nn.GroupNorm(math.gcd(channels[0], _GROUPS), channels[0])
        self.exit = nn.Conv2d(channels[0], pixels, 3, padding=1)
        nn.init.zeros_(self.exit.weight)
        # Convolutions do not know where they are: for a label to say what is where, it adds fixed signs at the smallest
        # of several sizes, of a stream that NumPy promises never to change.
        sides = (side // (patch << len(self.after)) for side in shape.axes[:2])
        signs = 1 - 2.0 * (
            np.random.Philox(0).random_raw(
                (classes * bool(self.after), channels[-1], *sides)
            )
            % 2
        )
        self.register_buffer(
            "patterns", torch.from_numpy(signs).float(), persistent=False
        )

    def forward(
        self, rows: Float[Tensor, "rows inputs"]
    ) -> Float[Tensor, "rows pixels"]:
        """Returns images in the order of `pixel_schema`, (rows, pixels), of rows (rows, pixels + 1 + classes)."""
        size = self.shape.size
        level, labels = rows[:, size : size + 1], rows[:, size + 1 :]
        angles = level * 2.0 ** torch.arange(
            _FREQUENCIES, device=level.device, dtype=level.dtype
        ).div(2).sub(2)
        known = self.level(torch.cat([angles.cos(), angles.sin()], dim=1))
        embedding = silu(known + self.label(labels) if self.classes else known)
        found, passed = (
            self.entry(pixel_unshuffle(self.images(rows[:, :size]), self.patch)),
            list[Tensor](),
        )
        for place, block in enumerate(self.before):
            if place:
                passed.append(found)
                found = self.down[place - 1](pixel_unshuffle(found, 2))
            if len(self.patterns) and place == len(self.after):
                found = found + torch.tensordot(labels, self.patterns, dims=1)
            found = block(found, embedding)
        for place in reversed(range(len(self.after))):
            found = self.after[place](
                passed[place] + pixel_shuffle(self.up[place](found), 2), embedding
            )
        made: Tensor = pixel_shuffle(self.exit(silu(self.norm(found))), self.patch)
        return made.permute(0, 2, 3, 1).flatten(1)


def build_denoiser(
    shape: ImageShape, classes: int, *, channels: Sequence[int], patch: int, seed: int
) -> Denoiser:
    """Returns a denoiser with fresh weights by a public seed, in float32 on the CPU, of some classes or 0."""
    # Sides are multiples of patch · 2^(sizes − 1): `channels` are of the activations at each size, half of the one
    # before.
    with seeded(seed):
        denoiser = Denoiser(shape, classes, channels=channels, patch=patch)
    if not classes:
        del denoiser.label
    return denoiser


class Coefficients(NamedTuple):
    """Of one noise level or of many, of one shape."""

    sigma: Tensor
    skip: Tensor
    out: Tensor
    into: Tensor
    level: Tensor
    """What the network is told: log σ over 4."""


def coefficients(sigma: Float[Tensor, "*shape"]) -> Coefficients:
    """Returns the preconditioning of EDM, table 1, at noise of standard deviation `sigma`."""
    square = sigma.square() + _DATA_STD**2
    return Coefficients(
        sigma,
        _DATA_STD**2 / square,
        sigma * _DATA_STD / square.sqrt(),
        square.rsqrt(),
        sigma.log() / 4,
    )


_LARGEST, _SMALLEST, _ROOT = 80.0, 0.002, 7.0
_PREFIX = "denoiser/"
_BLOCK = 250  # images made at once: some hundred megabytes of activations at most


@dataclass(frozen=True, kw_only=True, eq=False)
class DiffusionImages:
    """A label, then noise, then an image."""

    denoiser: Denoiser  # on the CPU, frozen
    weights: npt.NDArray[
        np.float64
    ]  # share of each label, (labels,); one 1 without a label
    channels: tuple[int, ...]  # of the denoiser
    sampling_steps: int  # levels, at each of which but the last it runs twice

    kind: ClassVar[str] = "diffusion"

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` records, pixels as numeric columns; `random` is public randomness, on the CPU."""
        labels = torch.multinomial(
            torch.from_numpy(self.weights), rows, replacement=True, generator=random
        )
        classes, size = self.denoiser.classes, self.denoiser.shape.size
        coded, pixels = (
            one_hot(labels, len(self.weights)).float()[:, :classes],
            np.empty((rows, size)),
        )
        for start in range(0, rows, _BLOCK):
            block = coded[start : start + _BLOCK]
            pixels[start : start + _BLOCK] = self._images(
                torch.randn(len(block), size, generator=random), block
            )
        codes = labels.numpy().astype(np.int32)[:, None]
        return EncodedTable(pixels, codes if classes else codes[:, :0])

    @torch.no_grad()
    def _images(
        self, noise: Float[Tensor, "rows pixels"], labels: Float[Tensor, "rows classes"]
    ) -> Float[Tensor, "rows pixels"]:
        """Returns intensities in [0, 1]."""
        high, low = _LARGEST ** (1 / _ROOT), _SMALLEST ** (1 / _ROOT)
        levels = torch.linspace(
            high, low, self.sampling_steps, dtype=torch.float64
        ).pow(_ROOT)
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
        self,
        images: Float[Tensor, "rows pixels"],
        labels: Float[Tensor, "rows classes"],
        sigma: float,
    ) -> Float[Tensor, "rows pixels"]:
        at = coefficients(images.new_full((len(images), 1), sigma))
        said: Tensor = self.denoiser(
            torch.cat([at.into * images, at.level, labels], dim=1)
        )
        return at.skip * images + at.out * said

    def tensors(self) -> dict[str, Array]:
        """Returns the weights of the denoiser and the shares of the labels."""
        fitted = {
            f"{_PREFIX}{name}": value.numpy()
            for name, value in self.denoiser.state_dict().items()
        }
        return {**fitted, "weights": self.weights}

    def to_json(self) -> dict[str, Any]:
        """Returns the shape of the images, the design of the denoiser, and how it is sampled."""
        design = {"channels": list(self.channels), "patch": self.denoiser.patch}
        design |= {
            "sampling_steps": self.sampling_steps,
            "patterned": len(self.denoiser.patterns) > 0,
        }
        return {"image": list(astuple(self.denoiser.shape)), **design}

    @classmethod
    def from_saved(
        cls,
        schema: Schema,
        tensors: Mapping[str, Array],
        description: Mapping[str, Any],
    ) -> Self:
        """Returns the model that `tensors` and `to_json` describe."""
        height, width, colours = description["image"]
        shape, weights = (
            ImageShape(height=height, width=width, channels=colours),
            tensors["weights"].astype(np.float64),
        )
        layout, channels = schema.layout, tuple(description["channels"])
        if shape.size != len(layout.numeric) or len(weights) != max(layout.classes, 1):
            raise ValueError(
                f"images of {shape} with {len(weights)} labels do not fit the schema"
            )
        denoiser = build_denoiser(
            shape, layout.classes, channels=channels, patch=description["patch"], seed=0
        )
        if not description.get("patterned"):  # stored before there were any
            denoiser.patterns = denoiser.patterns[:0]
        denoiser.load_state_dict(
            {
                name: torch.from_numpy(value)
                for name, value in under(tensors, _PREFIX).items()
            }
        )
        sampled: dict[str, Any] = {
            "channels": channels,
            "sampling_steps": int(description["sampling_steps"]),
        }
        return cls(
            denoiser=denoiser.requires_grad_(False).eval(), weights=weights, **sampled
        )
