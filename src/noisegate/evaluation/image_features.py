"""What turns images into the features that distances are measured in. A name belongs to every one of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from noisegate.errors import OptionError
from noisegate.evaluation.feature_batches import check_pixels, in_batches

if TYPE_CHECKING:
    from noisegate.networks.encoder import Encoder

FEATURES = ("encoder", "inception-v3", "pixels")
"""What can be asked for by name."""


class ImageFeatures(Protocol):
    """Features of images. Figures in two kinds of features have nothing to do with each other."""

    @property
    def name(self) -> str:
        """What figures in these features are called after, with all that they depend on."""

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Give features, one row per image.

        Args:
            pixels: uint8, (rows, height, width, channels).

        Returns:
            Finite float32 or float64, (rows, dim).
        """


class Pixels:
    """The intensities in [0, 1] themselves."""

    name = "pixels"

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Give one row of intensities per image."""
        return pixels.reshape(len(pixels), -1).astype(np.float32) / 255


class RandomConvnet:
    """Two convolutions with random weights: cheap features for tests and for images that nothing else knows.

    Args:
        seed: of the weights; public.
    """

    def __init__(self, seed: int = 0) -> None:
        self.name = f"random-convnet-{seed}"
        self.seed = seed

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Give 256 features per image: the means of 64 maps over a 2 x 2 grid."""
        from torch import nn

        from noisegate.networks.weights import seeded

        check_pixels(pixels)
        with seeded(self.seed):
            network = nn.Sequential(
                nn.Conv2d(pixels.shape[3], 32, 5, stride=2, padding=2),
                nn.ReLU(),
                nn.Conv2d(32, 64, 3, stride=2, padding=1),
                nn.ReLU(),
                nn.AdaptiveAvgPool2d(2),
                nn.Flatten(),
            )
        return in_batches(network, pixels)


class EncoderFeatures:
    """The last activations of noisegate's small encoder, averaged over the image.

    Args:
        encoder: one that was trained on other public images; None for the one in the package, trained on CIFAR-10.
        name: how figures in its features are called; needed with ``encoder``.

    Raises:
        OptionError: an encoder without a name.
        ModelError: the encoder in the package cannot be read.
    """

    def __init__(self, encoder: Encoder | None = None, *, name: str = "") -> None:
        if encoder is not None and not name:
            raise OptionError("name is missing; figures in the features of an encoder of your own need one")
        if encoder is None:
            from noisegate.networks.encoder import load_encoder

            encoder, name = load_encoder(), "noisegate-encoder-cifar10"
        self.name = name
        self._encoder = encoder

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Give 144 features per image."""
        from torch import nn

        return in_batches(nn.Sequential(self._encoder, nn.AdaptiveAvgPool2d(1), nn.Flatten()), pixels)


def named_features(name: str, weights: Path | None = None) -> ImageFeatures:
    """Give features by their name.

    Args:
        name: one of :data:`FEATURES`.
        weights: for "inception-v3", the file of its weights; None to look in the usual caches. Nothing is downloaded.

    Raises:
        OptionError: there are no such features, or ``weights`` for others than "inception-v3".
        ModelError: weights are not where they must be, or are other ones.
    """
    if name not in FEATURES:
        raise OptionError(f"features is {name!r}; expected one of {', '.join(map(repr, FEATURES))}")
    if name == "inception-v3":
        from noisegate.evaluation.inception import Inception

        return Inception(weights)
    if weights is not None:
        raise OptionError(f"weights is for the features 'inception-v3', not for {name!r}; leave it out")
    return Pixels() if name == "pixels" else EncoderFeatures()
