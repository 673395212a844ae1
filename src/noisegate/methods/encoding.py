"""From an image to a feature of length 1: one layer of a frozen public network, averaged over the picture.

It is what DP-MGE, DP-DRE and GANs in feature space know of a record ("Large-Scale Public Data Improves Differentially
Private Image Generation Quality", section 3, where it is the normalised feature of an IC-GAN's encoder).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisegate.methods.activations import chosen_activations
from noisegate.schema.pixels import ImageShape

if TYPE_CHECKING:
    from noisegate.features.perceptual import Perceptual


def image_encoding(
    network: str, weights: str | None, sha256: str | None, layer: str | None, shape: ImageShape
) -> Perceptual:
    """Returns the map from images to unit vectors; a function of each record alone, bit for bit.

    Args:
        network: "encoder", the one of the package, "torchvision:NAME" or "timm:NAME".
        weights: File of its weights; see `noisegate.networks.named.load_network`.
        sha256: What that file hashes to.
        layer: Module whose channels are averaged over the picture; None for the network's last one, 144 channels for
            the encoder.
        shape: Of the images.

    Raises:
        UserError: if there is no such network, layer or file, or the network cannot take such images.
    """
    from noisegate.features.perceptual import Perceptual
    from noisegate.networks.named import load_network

    found = load_network(network, weights, sha256)
    return Perceptual(activations=chosen_activations(found, (layer or found.layers[-1],), shape, pool=True), moment=1)


def encoding_digest(network: str, weights: str | None = None, sha256: str | None = None) -> str:
    """Returns the SHA-256 of the weights of an encoding's network, for certificates and decoders."""
    from noisegate.networks.named import load_network

    return load_network(network, weights, sha256).sha256
