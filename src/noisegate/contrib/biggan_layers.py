"""The layers of BigGAN's generator as the public code of IC-GAN names and shapes their weights; see `biggan`."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

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

    def scaled(self) -> Tensor:
        """Returns the weight as it is used."""
        matrix = self.weight.flatten(1)
        right = functional.normalize(self.u0 @ matrix, eps=_TINY)
        left = functional.normalize(right @ matrix.T, eps=_TINY)
        return self.weight / (right @ matrix.T @ left.T).squeeze()


class SpectralLinear(_Spectral):
    """A linear layer.

    Args:
        entering: Length of the input.
        leaving: Length of the output.
        bias: Whether it has one.
    """

    def __init__(self, entering: int, leaving: int, *, bias: bool = True) -> None:
        super().__init__((leaving, entering), bias=bias)

    def forward(self, rows: Tensor) -> Tensor:
        """Returns (rows, leaving)."""
        return functional.linear(rows, self.scaled(), self.bias)


class SpectralConvolution(_Spectral):
    """A convolution that keeps height and width.

    Args:
        entering: Channels of the input.
        leaving: Channels of the output.
        kernel: Its size, odd.
        bias: Whether it has one.
    """

    def __init__(self, entering: int, leaving: int, *, kernel: int = 3, bias: bool = True) -> None:
        super().__init__((leaving, entering, kernel, kernel), bias=bias)
        self._padding = kernel // 2

    def forward(self, images: Tensor) -> Tensor:
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

    Args:
        channels: Of the activations.
        statistics: Where they are kept.
        affine: Whether torch's module, if it keeps them, has its own gain and bias.
    """

    def __init__(self, channels: int, statistics: Statistics, *, affine: bool = False) -> None:
        super().__init__()
        self._statistics = statistics
        if statistics == "plain":
            self.register_buffer("stored_mean", torch.zeros(channels))
            self.register_buffer("stored_var", torch.ones(channels))
        else:
            self.bn = _Measured(channels) if statistics == "own" else nn.BatchNorm2d(channels, affine=affine)

    def normalised(self, images: Tensor) -> Tensor:
        """Returns activations of the same shape."""
        if self._statistics == "module":
            result: Tensor = self.bn(images)
            return result
        kept: Any = self if self._statistics == "plain" else self.bn
        return functional.batch_norm(images, kept.stored_mean, kept.stored_var)


class ConditionalNormalisation(Normalisation):
    """With a gain and a bias from the feature.

    Args:
        channels: Of the activations.
        inputs: Length of what gain and bias come from.
        statistics: Where they are kept.
    """

    def __init__(self, channels: int, inputs: int, statistics: Statistics) -> None:
        super().__init__(channels, statistics)
        self.gain, self.bias = (SpectralLinear(inputs, channels, bias=False) for _ in range(2))

    def forward(self, images: Tensor, inputs: Tensor) -> Tensor:
        """Returns activations of the same shape."""
        gain, bias = (layer(inputs)[:, :, None, None] for layer in (self.gain, self.bias))
        shown: Tensor = self.normalised(images) * (1 + gain) + bias
        return shown


class LastNormalisation(Normalisation):
    """With a gain and a bias of its own.

    Args:
        channels: Of the activations.
        statistics: Where they are kept.
    """

    def __init__(self, channels: int, statistics: Statistics) -> None:
        super().__init__(channels, statistics, affine=True)
        self._own = statistics != "module"
        if self._own:
            self.gain, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, images: Tensor) -> Tensor:
        """Returns activations of the same shape."""
        shown = self.normalised(images)
        return shown * self.gain[:, None, None] + self.bias[:, None, None] if self._own else shown
