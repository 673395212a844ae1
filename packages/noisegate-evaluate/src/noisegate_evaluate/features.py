"""What turns images into the features that distances are measured in. A name belongs to every one of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from noisegate.errors import DataError, OptionError

if TYPE_CHECKING:
    from torch import nn

    from noisegate_images.networks.encoder import Encoder

FEATURES = ("encoder", "inception-v3", "pixels")
"""What can be asked for by name."""

_IMAGES_AT_ONCE = 250


class ImageFeatures(Protocol):
    """Features of images. Figures in two kinds of features have nothing to do with each other."""

    @property
    def name(self) -> str:
        """What figures in these features are called after, with all that they depend on."""

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Returns finite float32 or float64, (rows, dim), of uint8, (rows, height, width, channels)."""


class Pixels:
    """The intensities in [0, 1] themselves."""

    name = "pixels"

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Returns one row of intensities per image."""
        return pixels.reshape(len(pixels), -1).astype(np.float32) / 255


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
            from noisegate_images.networks.encoder import load_encoder

            encoder, name = load_encoder(), "noisegate-encoder-cifar10"
        self.name, self._encoder = name, encoder

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Returns 144 features per image."""
        from torch import nn

        return in_batches(nn.Sequential(self._encoder, nn.AdaptiveAvgPool2d(1), nn.Flatten()), pixels)


class Inception:
    """Features of Inception-v3, whose Fréchet distance is the "FID"; weights of a file, or of the cache of torch."""

    name = "inception-v3"

    def __init__(self, weights: Path | None = None) -> None:
        from noisegate_evaluate import inception

        path = inception.cached_weights() if weights is None else weights
        self._network = inception.build_inception()
        inception.load_weights(self._network, path)

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Returns 2,048 features per image."""
        return in_batches(self._network, pixels)


def named_features(name: str, weights: Path | None = None) -> ImageFeatures:
    """Returns features by their name, one of :data:`FEATURES`; ``weights`` as :class:`Inception` takes them.

    Raises:
        OptionError: there are no such features, or ``weights`` for others than "inception-v3".
        ModelError: weights are not where they must be, or are other ones.
    """
    if name not in FEATURES:
        raise OptionError(f"features is {name!r}; expected one of {', '.join(map(repr, FEATURES))}")
    if name == "inception-v3":
        return Inception(weights)
    if weights is not None:
        raise OptionError(f"weights is for the features 'inception-v3', not for {name!r}; leave it out")
    return Pixels() if name == "pixels" else EncoderFeatures()


def check_pixels(pixels: np.ndarray) -> None:
    """Checks that an array holds images: uint8, (rows, height, width, channels), at least one row."""
    if pixels.ndim != 4 or pixels.dtype != np.uint8 or not len(pixels):
        raise DataError(
            f"images have the shape {pixels.shape} and the type {pixels.dtype}; expected at least one, uint8 of shape "
            "(rows, height, width, channels)"
        )


def in_batches(network: nn.Module, pixels: np.ndarray) -> np.ndarray:
    """Returns what a network gives over uint8 images, (rows, height, width, channels): float32, (rows, dim).

    It takes (rows, channels, height, width) in [0, 1]; it runs on a GPU if there is one, else on one thread.
    """
    import torch

    from noisegate.devices import choose_device, one_thread

    check_pixels(pixels)
    device = choose_device("auto")
    network = network.to(device).eval()
    parts = []
    with one_thread(device), torch.inference_mode():
        for at in range(0, len(pixels), _IMAGES_AT_ONCE):
            batch = torch.from_numpy(np.ascontiguousarray(pixels[at : at + _IMAGES_AT_ONCE])).to(device)
            parts.append(network(batch.permute(0, 3, 1, 2).float() / 255).float().cpu())
    return torch.cat(parts).numpy()
