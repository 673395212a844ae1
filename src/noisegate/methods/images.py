"""What methods of images share: the kinds of generators, checks of shapes, encoders and decoders of public images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from noisegate.errors import OptionError, SchemaError
from noisegate.models.decoder import LoadedDecoder, load_decoder
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape

if TYPE_CHECKING:
    from noisegate.features.perceptual import Activations, Perceptual
    from noisegate.networks.named import FrozenNetwork

Generator: TypeAlias = Literal["mixture", "table", "convolutional", "fully-connected", "sub-pixel", "residual"]
TABLES: tuple[Generator, ...] = ("mixture", "table")
"""The generators that make tables; the others make images."""


def read_shape(image: Any) -> ImageShape:
    """Returns the shape of the images that `image` gives as (height, width, channels).

    Raises:
        OptionError: if it gives none.
    """
    try:
        height, width, channels = image
        return ImageShape(height=height, width=width, channels=channels)
    except (TypeError, ValueError, SchemaError):
        raise OptionError(
            f"image={image!r} must be (height, width, channels) for a generator of images, as in (28, 28, 1)."
        ) from None


def doubles(shape: ImageShape, channels: Sequence[int]) -> bool:
    """Returns whether a network that doubles its picture once for each of these channels can make such images."""
    scale = 1 << len(channels)
    return not (shape.height % scale or shape.width % scale)


def check_image_schema(schema: Schema, shape: ImageShape, *, labelled: bool = True) -> None:
    """Checks that records are images of `shape`, with a label if they must have one.

    Raises:
        OptionError: if they are not.
    """
    layout, cure = schema.layout, "describe the images with noisegate.schema.pixel_schema(...)"
    if labelled and layout.label is None:
        raise OptionError(f"image={shape} needs a label with levels, the schema has none; {cure}.")
    others = [column.name for column in layout.coded if column.name != schema.label]
    if others:
        raise OptionError(f"image={shape}: column {others[0]!r} is neither a pixel nor the label; {cure}.")
    if len(layout.numeric) != shape.size:
        raise OptionError(
            f"image={shape} has {shape.size} intensities, the schema {len(layout.numeric)} numeric columns; correct "
            f"one of them, or {cure}."
        )
    missing = [column.name for column in layout.numeric if column.missing]
    if missing:
        raise OptionError(f"column {missing[0]!r} may be missing, which a pixel cannot be; {cure}.")


def chosen_activations(network: FrozenNetwork, layers: Sequence[str], shape: ImageShape, *, pool: bool) -> Activations:
    """Returns the map from images to activations.

    Args:
        network: See `noisegate.networks.named.load_network`.
        layers: Modules of it; empty for the encoder's four, or all convolutions of another network.
        shape: Of the images.
        pool: Take the mean over height and width of each channel only.

    Raises:
        OptionError: if there is no such layer, or the network cannot take such images.
    """
    from noisegate.features.perceptual import Activations
    from noisegate.networks.layers import ChosenLayers

    names = tuple(layers) or network.layers
    chosen = ChosenLayers(network.module, names, shape, mean=network.mean, std=network.std, pool=pool)
    return Activations(layers=chosen, nonnegative=set(names) <= network.nonnegative)


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
