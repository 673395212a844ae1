"""The decoder that a method in feature space was asked to use, checked before anything is spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisegate.errors import OptionError
from noisegate.generators.decoder import LoadedDecoder, load_decoder
from noisegate.schema.pixels import ImageShape

if TYPE_CHECKING:
    from noisegate.features.perceptual import Perceptual


def matching_decoder(
    decoder: str, sha256: str | None, shape: ImageShape, encoding: Perceptual, encoder: str
) -> LoadedDecoder:
    """Returns a decoder of images of a shape from the features of an encoder.

    Args:
        decoder: Its name or its file.
        sha256: What the file hashes to, or None.
        shape: Of the images.
        encoding: From an image to its feature.
        encoder: Digest of the encoder.

    Raises:
        OptionError: if there is none, or it is one of other images, or another encoder or layer of it.
        ModelError: if it cannot be read.
    """
    found = load_decoder(decoder, sha256)
    if found.encoder != encoder:
        raise OptionError(
            f"decoder={decoder!r} was trained with the encoder {found.encoder}, the features are of {encoder}; use the "
            "decoder and the encoder that belong together."
        )
    if found.shape != shape or found.features != encoding.dim:
        raise OptionError(
            f"decoder={decoder!r} makes images of {found.shape} from {found.features} numbers, asked for are images of "
            f"{shape} from {encoding.dim}. Train one on public images of this size with `noisegate pretrain decoder "
            "PUBLIC_IMAGES --out FILE`, and give it as decoder=FILE (--set decoder=FILE)."
        )
    (layer,) = encoding.activations.layers.layers
    if found.layer != layer:
        raise OptionError(
            f"decoder={decoder!r} was trained with the layer {found.layer!r} of the encoder, asked for is {layer!r}; "
            f"set layer={found.layer!r}."
        )
    return found
