"""A network run over images in batches, for the features that distances are measured in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noisegate.errors import DataError
from noisegate.evaluation.image_training import one_thread

if TYPE_CHECKING:
    import torch
    from torch import nn

_IMAGES_AT_ONCE = 250


def in_batches(network: nn.Module, pixels: np.ndarray) -> np.ndarray:
    """Run a network over images, on a GPU if there is one, else on one thread.

    Args:
        network: from (rows, channels, height, width), intensities in [0, 1], to (rows, dim); on the CPU.
        pixels: uint8, (rows, height, width, channels).

    Returns:
        float32, (rows, dim).

    Raises:
        DataError: the pixels are no such array, or there are none.
    """
    import torch

    check_pixels(pixels)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network = network.to(device).eval()
    with one_thread(device), torch.inference_mode():
        parts = [_batch(network, pixels[at : at + _IMAGES_AT_ONCE]) for at in range(0, len(pixels), _IMAGES_AT_ONCE)]
    return torch.cat(parts).numpy()


def check_pixels(pixels: np.ndarray) -> None:
    """Make sure that an array holds images.

    Args:
        pixels: anything.

    Raises:
        DataError: it is not uint8 of shape (rows, height, width, channels), or has no rows.
    """
    if pixels.ndim != 4 or pixels.dtype != np.uint8 or not len(pixels):
        raise DataError(
            f"images have the shape {pixels.shape} and the type {pixels.dtype}; expected at least one, uint8 of shape "
            "(rows, height, width, channels)"
        )


def _batch(network: nn.Module, pixels: np.ndarray) -> torch.Tensor:
    import torch

    device = next(network.parameters()).device
    images = torch.from_numpy(np.ascontiguousarray(pixels)).to(device).permute(0, 3, 1, 2).float() / 255
    features: torch.Tensor = network(images)
    return features.float().cpu()
