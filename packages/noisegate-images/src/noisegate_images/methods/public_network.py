"""Settings of methods that use the features of a frozen public network for images.

A network is read from a file, never downloaded, and certificates state its SHA-256.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisegate.errors import OptionError
from noisegate.schema.pixels import ImageShape, read_shape
from noisegate.settings import ImageSize, Names, settings
from noisegate_images.queries.perceptual import (
    Activations,
    Perceptual,
    chosen_activations,
)

if TYPE_CHECKING:
    from noisegate_images.networks.decoder import LoadedDecoder
    from noisegate_images.networks.named import FrozenNetwork


@settings
class PublicNetwork:
    """Settings of the public network for images."""

    network: str = "encoder"
    """"encoder" or "strokes", both in the package (for photographs and for drawings), "torchvision:NAME" or
    "timm:NAME"."""
    weights: str | None = None
    """File of the network's weights; never downloaded. See `noisegate_images.networks.named.load_network`."""
    sha256: str | None = None
    """SHA-256 of the file of weights."""

    def encoder(self) -> FrozenNetwork:
        """Returns the network.

        Raises:
            UserError: if the network does not exist, or its file has another hash.
        """
        from noisegate_images.networks.named import load_network

        return load_network(self.network, self.weights, self.sha256)


@settings
class NetworkLayers(PublicNetwork):
    """Settings of the network's layers whose activations a method uses."""

    layers: Names = ()
    """Modules of the network; empty for the four of the encoder, or all convolutions of another network except 1 x 1
    shortcuts."""

    def activations(self, shape: ImageShape, *, pool: bool) -> Activations:
        """Returns the map from images to activations.

        Args:
            shape: Shape of the images.
            pool: Whether to average each channel over the image.

        Raises:
            UserError: if the network does not exist, or has no such layers.
        """
        return chosen_activations(self.encoder(), self.layers, shape, pool=pool)


@settings
class EncodedImages(PublicNetwork):
    """Settings of the encoder from images to features, and of the decoder from features to images."""

    image: ImageSize | None = None
    """Height, width and channels of the images."""
    decoder: str = "cifar10"
    """Name or file of a decoder (`noisegate pretrain decoder`) that was trained with the same encoder. The default is
    the one in the package, for colour images of 32 x 32 pixels."""
    decoder_sha256: str | None = None
    """SHA-256 of the file of the decoder."""
    layer: str | None = None
    """Module of the encoder whose channels are averaged over the image; None for the last."""

    def encoding(self) -> Perceptual:
        """Returns the map from images to features of length 1.

        Each feature is a function of its image alone, bit for bit.
        """
        network = self.encoder()
        layers = (self.layer or network.layers[-1],)
        shape = read_shape(self.image)
        activations = chosen_activations(network, layers, shape, pool=True)
        return Perceptual(activations=activations, moment=1)

    def checked_decoder(self) -> LoadedDecoder:
        """Returns the decoder.

        Raises:
            UserError: if it does not exist, or belongs to another encoder, layer or size.
        """
        from noisegate_images.networks.decoder import load_decoder

        shape = read_shape(self.image)
        encoding = self.encoding()
        encoder_sha256 = self.encoder().sha256
        decoder = load_decoder(self.decoder, self.decoder_sha256)
        if decoder.encoder != encoder_sha256:
            raise OptionError(
                f"decoder={self.decoder!r} was trained with the encoder "
                f"{decoder.encoder}, the features are of {encoder_sha256}; use the "
                "decoder and the encoder that belong together."
            )
        if decoder.shape != shape or decoder.features != encoding.dim:
            raise OptionError(
                f"decoder={self.decoder!r} makes images of {decoder.shape} from "
                f"{decoder.features} numbers, asked for are images of {shape} from "
                f"{encoding.dim}. Train one on public images of this size with "
                "`noisegate pretrain decoder PUBLIC_IMAGES --out FILE`, and give it as "
                "decoder=FILE."
            )
        (layer,) = encoding.activations.layers.layers
        if decoder.layer != layer:
            raise OptionError(
                f"decoder={self.decoder!r} was trained with the layer "
                f"{decoder.layer!r} of the encoder, asked for is {layer!r}; set "
                f"layer={decoder.layer!r}."
            )
        return decoder

    def encoder_and_decoder_digests(self) -> dict[str, str]:
        """Returns the SHA-256 of encoder and decoder, by the setting that states it.

        Raises:
            UserError: if one does not exist, or they do not belong together.
        """
        return {
            "sha256": self.encoder().sha256,
            "decoder_sha256": self.checked_decoder().digest,
        }
