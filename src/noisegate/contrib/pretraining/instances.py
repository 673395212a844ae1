"""Features of public images and their neighbours: which images count as pictures of the same instance.

An instance-conditioned GAN (Casanova et al., NeurIPS 2021) shows its discriminator, for the feature of one image, the
images whose features are nearest to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from noisegate.errors import OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.schema import EncodedTable

_BLOCK = 256
# Red, green and blue in a grey intensity (ITU-R BT.601).
_LUMA = (0.299, 0.587, 0.114)


@dataclass(frozen=True, kw_only=True, eq=False)
class Instances:
    """Public images as a decoder is trained on them.

    Attributes:
        pixels: (images, height, width, channels), uint8.
        features: Of length 1, (images, features).
        neighbours: Places of the images nearest to each, itself the first, int32 (images, neighbours).
    """

    pixels: Tensor
    features: Tensor
    neighbours: Tensor


def instances_of(pixels: npt.NDArray[np.uint8], encoding: FeatureMap, *, neighbours: int) -> Instances:
    """Returns public images with their features and neighbours.

    Args:
        pixels: (images, height, width, channels).
        encoding: From images to unit vectors, as `noisegate.methods.encoders.EncodedImages.encoding` gives.
        neighbours: How many images count as one instance, at most all of them.

    Raises:
        OptionError: if there are fewer images than that.
    """
    if len(pixels) < neighbours:
        raise OptionError(f"neighbours={neighbours} of {len(pixels)} images; give more images, or fewer neighbours.")
    features = torch.from_numpy(np.concatenate([encoding(_rows(pixels, at)) for at in range(0, len(pixels), _BLOCK)]))
    found = []
    for block in torch.split(features, _BLOCK):
        # Features have length 1: the largest product is the smallest distance.
        found.append((block @ features.T).topk(neighbours, dim=1).indices.to(torch.int32))
    return Instances(pixels=torch.from_numpy(pixels), features=features, neighbours=torch.cat(found))


def grey(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Returns colour images as grey ones, (images, height, width, 1)."""
    result = np.empty((*pixels.shape[:3], 1), dtype=np.uint8)
    for one, image in zip(result, pixels, strict=True):  # one by one: no copy of all in float64
        one[..., 0] = np.rint(image @ np.asarray(_LUMA))
    return result


def _rows(pixels: npt.NDArray[np.uint8], at: int) -> EncodedTable:
    block = pixels[at : at + _BLOCK]
    return EncodedTable(block.reshape(len(block), -1) / 255, np.zeros((len(block), 0), dtype=np.int32))
