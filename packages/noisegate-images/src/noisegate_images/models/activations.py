"""What chosen layers of a frozen public network give for an image, as a feature map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from noisegate.schema.pixels import ImageShape

if TYPE_CHECKING:
    from noisegate_images.features.perceptual import Activations
    from noisegate_images.networks.named import FrozenNetwork


def chosen_activations(network: FrozenNetwork, layers: Sequence[str], shape: ImageShape, *, pool: bool) -> Activations:
    """Returns the map from images to activations.

    Args:
        network: See `noisegate_images.networks.named.load_network`.
        layers: Modules of it; empty for the encoder's four, or all convolutions of another network but 1 x 1 shortcuts.
        shape: Of the images.
        pool: Take the mean over height and width of each channel only.

    Raises:
        OptionError: if there is no such layer, or the network cannot take such images.
    """
    from noisegate_images.features.perceptual import Activations
    from noisegate_images.networks.layers import ChosenLayers

    names = tuple(layers) or network.layers
    chosen = ChosenLayers(network.module, names, shape, mean=network.mean, std=network.std, pool=pool)
    return Activations(layers=chosen, nonnegative=set(names) <= network.nonnegative)
