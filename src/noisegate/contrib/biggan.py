"""The generator of BigGAN (Brock, Donahue and Simonyan, ICLR 2019), as IC-GAN's public code has it.

It is conditioned on a feature of ResNet-50 alone (Casanova et al., NeurIPS 2021), for 32 to 256 pixels. Parameters have
the names and shapes of the public code (facebookresearch/ic_gan, BigGAN_PyTorch), so that its checkpoints load
strictly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from jaxtyping import Float

Statistics: TypeAlias = Literal["plain", "module", "own"]
"""Where the code keeps the mean and variance of a normalisation: beside it, in torch's module, or in one of its own."""

_TINY = 1e-12


class _Spectral(nn.Module):
    """A weight divided by its largest singular value, which is found by one power iteration from a kept vector."""

    weight: nn.Parameter
    bias: nn.Parameter | None
    u0: Tensor

    def __init__(self, shape: tuple[int, ...], *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.orthogonal_(torch.empty(shape)))
        self.bias = nn.Parameter(torch.zeros(shape[0])) if bias else None
        self.register_buffer("u0", torch.randn(1, shape[0]))
        self.register_buffer("sv0", torch.ones(1))  # written while training, never read

    def scaled(self) -> Float[Tensor, "leaving ..."]:
        """Returns the weight as it is used."""
        matrix = self.weight.flatten(1)
        right = functional.normalize(self.u0 @ matrix, eps=_TINY)
        left = functional.normalize(right @ matrix.T, eps=_TINY)
        return self.weight / (right @ matrix.T @ left.T).squeeze()


class SpectralLinear(_Spectral):
    """A linear layer."""

    def __init__(self, entering: int, leaving: int, *, bias: bool = True) -> None:
        super().__init__((leaving, entering), bias=bias)

    def forward(self, rows: Float[Tensor, "rows entering"]) -> Float[Tensor, "rows leaving"]:
        """Returns (rows, leaving)."""
        return functional.linear(rows, self.scaled(), self.bias)


class SpectralConvolution(_Spectral):
    """A convolution that keeps height and width; the kernel's size is odd."""

    def __init__(self, entering: int, leaving: int, *, kernel: int = 3, bias: bool = True) -> None:
        super().__init__((leaving, entering, kernel, kernel), bias=bias)
        self._padding = kernel // 2

    def forward(self, images: Float[Tensor, "rows entering h w"]) -> Float[Tensor, "rows leaving h w"]:
        """Returns (rows, leaving, height, width)."""
        return functional.conv2d(images, self.scaled(), self.bias, padding=self._padding)


class _Measured(nn.Module):
    """The statistics of a normalisation where the code has a module of its own for them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("stored_mean", torch.zeros(channels))
        self.register_buffer("stored_var", torch.ones(channels))
        self.register_buffer("accumulation_counter", torch.zeros(1))


class Normalisation(nn.Module):
    """Batch normalisation with what was measured while training; a gain and a bias follow elsewhere.

    Torch's module, if it keeps the statistics, may have its own: `affine`.
    """

    def __init__(self, channels: int, statistics: Statistics, *, affine: bool = False) -> None:
        super().__init__()
        self._statistics = statistics
        if statistics == "plain":
            self.register_buffer("stored_mean", torch.zeros(channels))
            self.register_buffer("stored_var", torch.ones(channels))
        else:
            self.bn = _Measured(channels) if statistics == "own" else nn.BatchNorm2d(channels, affine=affine)

    def normalised(self, images: Float[Tensor, "rows channels h w"]) -> Float[Tensor, "rows channels h w"]:
        """Returns activations of the same shape."""
        if self._statistics == "module":
            result: Tensor = self.bn(images)
            return result
        kept: Any = self if self._statistics == "plain" else self.bn
        return functional.batch_norm(images, kept.stored_mean, kept.stored_var)


class ConditionalNormalisation(Normalisation):
    """With a gain and a bias from the feature, `inputs` numbers."""

    def __init__(self, channels: int, inputs: int, statistics: Statistics) -> None:
        super().__init__(channels, statistics)
        self.gain, self.bias = (SpectralLinear(inputs, channels, bias=False) for _ in range(2))

    def forward(
        self, images: Float[Tensor, "rows channels h w"], inputs: Float[Tensor, "rows inputs"]
    ) -> Float[Tensor, "rows channels h w"]:
        """Returns activations of the same shape."""
        gain, bias = (layer(inputs)[:, :, None, None] for layer in (self.gain, self.bias))
        shown: Tensor = self.normalised(images) * (1 + gain) + bias
        return shown


class LastNormalisation(Normalisation):
    """With a gain and a bias of its own."""

    def __init__(self, channels: int, statistics: Statistics) -> None:
        super().__init__(channels, statistics, affine=True)
        self._own = statistics != "module"
        if self._own:
            self.gain, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, images: Float[Tensor, "rows channels h w"]) -> Float[Tensor, "rows channels h w"]:
        """Returns activations of the same shape."""
        shown = self.normalised(images)
        return shown * self.gain[:, None, None] + self.bias[:, None, None] if self._own else shown


@dataclass(frozen=True, kw_only=True)
class BigGANDesign:
    """What a generator is made of.

    Attributes:
        widths: Channels that enter and leave each block.
        attention: Blocks that are followed by attention.
        side: Height and width of the smallest picture.
        chunk: Length of the noise that enters at each place.
        hierarchical: Whether noise enters at every block, and not only at the start.
        features: Length of a feature.
        embedded: Length that features are brought to.
        classes: Number and length of the embeddings of labels, which IC-GAN's checkpoints have and do not use; or None.
        statistics: Where normalisations keep what they have measured.
    """

    widths: tuple[tuple[int, int], ...]
    attention: frozenset[int]
    side: int
    chunk: int
    hierarchical: bool
    features: int
    embedded: int
    classes: tuple[int, int] | None
    statistics: Statistics

    @property
    def resolution(self) -> int:
        """Height and width of an image."""
        return self.side << len(self.widths)

    @property
    def latent(self) -> int:
        """Length of the noise."""
        return self.chunk * (len(self.widths) + 1) if self.hierarchical else self.chunk

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> Self:
        """Returns the design of a checkpoint.

        Raises:
            KeyError, ValueError: if it is none of a generator with spectral normalisation on features alone.
        """
        count = 0
        while f"blocks.{count}.0.conv1.weight" in state:
            count += 1
        shapes = [tuple(state[f"blocks.{place}.0.conv1.weight"].shape) for place in range(count)]
        if not shapes:
            raise KeyError("blocks.0.0.conv1.weight")
        embedded, features = state["shared_feat.weight"].shape
        rows, chunk = state["linear.weight"].shape
        more = state["blocks.0.0.bn1.gain.weight"].shape[1] - embedded
        if more not in (0, chunk):
            raise ValueError("it takes labels beside features; only generators on features alone can be used")
        classes = state["shared.weight"].shape if "shared.weight" in state else None
        own = "blocks.0.0.bn1.bn.stored_mean" in state
        return cls(
            widths=tuple((shape[1], shape[0]) for shape in shapes),
            attention=frozenset(place for place in range(count) if f"blocks.{place}.1.gamma" in state),
            side=math.isqrt(rows // shapes[0][1]),
            chunk=chunk,
            hierarchical=more > 0,
            features=features,
            embedded=embedded,
            classes=None if classes is None else (classes[0], classes[1]),
            statistics="plain" if "blocks.0.0.bn1.stored_mean" in state else "own" if own else "module",
        )


class GeneratorBlock(nn.Module):
    """Doubles height and width, with the input led past; feature and noise are `inputs` numbers."""

    def __init__(self, entering: int, leaving: int, inputs: int, statistics: Statistics) -> None:
        super().__init__()
        self.conv1 = SpectralConvolution(entering, leaving)
        self.conv2 = SpectralConvolution(leaving, leaving)
        self.conv_sc = SpectralConvolution(entering, leaving, kernel=1)
        self.bn1 = ConditionalNormalisation(entering, inputs, statistics)
        self.bn2 = ConditionalNormalisation(leaving, inputs, statistics)

    def forward(
        self, images: Float[Tensor, "rows entering h w"], inputs: Float[Tensor, "rows inputs"]
    ) -> Float[Tensor, "rows leaving 2*h 2*w"]:
        """Returns (rows, leaving, 2 height, 2 width)."""
        doubled = functional.interpolate(torch.relu(self.bn1(images, inputs)), scale_factor=2.0)
        changed = self.conv2(torch.relu(self.bn2(self.conv1(doubled), inputs)))
        # The convolution of one pixel first: a quarter of the work, and the same numbers.
        past: Tensor = changed + functional.interpolate(self.conv_sc(images), scale_factor=2.0)
        return past


class Attention(nn.Module):
    """Every place looks at the others (SA-GAN, Zhang et al., ICML 2019), as in BigGAN's public code."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.theta, self.phi = (SpectralConvolution(channels, channels // 8, kernel=1, bias=False) for _ in range(2))
        self.g = SpectralConvolution(channels, channels // 2, kernel=1, bias=False)
        self.o = SpectralConvolution(channels // 2, channels, kernel=1, bias=False)
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(
        self, images: Float[Tensor, "rows channels h w"], inputs: Float[Tensor, "rows inputs"]
    ) -> Float[Tensor, "rows channels h w"]:
        """Returns activations of the same shape; `inputs` are not looked at."""
        queries = self.theta(images).flatten(2)
        keys, values = (functional.max_pool2d(layer(images), 2).flatten(2) for layer in (self.phi, self.g))
        weights = torch.softmax(queries.transpose(1, 2) @ keys, dim=2)
        attended: Tensor = self.o((values @ weights.transpose(1, 2)).reshape(len(images), -1, *images.shape[2:]))
        return self.gamma * attended + images


class BigGAN(nn.Module):
    """The generator of a design."""

    def __init__(self, design: BigGANDesign) -> None:
        super().__init__()
        self.design = design
        inputs = design.embedded + (design.chunk if design.hierarchical else 0)
        if design.classes is not None:
            self.shared = nn.Embedding(*design.classes)
        self.shared_feat = SpectralLinear(design.features, design.embedded)
        self.linear = SpectralLinear(design.chunk, design.widths[0][0] * design.side**2)
        self.blocks = nn.ModuleList()
        for place, (entering, leaving) in enumerate(design.widths):
            parts: list[nn.Module] = [GeneratorBlock(entering, leaving, inputs, design.statistics)]
            if place in design.attention:
                parts.append(Attention(leaving))
            self.blocks.append(nn.ModuleList(parts))
        last = design.widths[-1][1]
        self.output_layer = nn.Sequential(
            LastNormalisation(last, design.statistics), nn.ReLU(), SpectralConvolution(last, 3)
        )

    def forward(
        self, features: Float[Tensor, "rows features"], noise: Float[Tensor, "rows latent"]
    ) -> Float[Tensor, "rows 3 side side"]:
        """Returns intensities in [0, 1], (rows, 3, side, side), of features of length 1 and standard normal noise."""
        embedded, count = self.shared_feat(features), len(self.blocks)
        inputs = [embedded] * count
        if self.design.hierarchical:
            noise, *others = noise.split(self.design.chunk, dim=1)  # type: ignore[no-untyped-call]
            inputs = [torch.cat([embedded, other], dim=1) for other in others]
        images = self.linear(noise).unflatten(1, (-1, self.design.side, self.design.side))
        for parts, entering in zip(self.blocks, inputs, strict=True):
            assert isinstance(parts, nn.ModuleList)
            for part in parts:
                images = part(images, entering)
        result: Tensor = (self.output_layer(images).tanh() + 1) / 2
        return result
