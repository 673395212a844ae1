"""Public networks that methods see images through: frozen encoders, and decoders of what these give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noisegate.errors import OptionError
from noisegate.methods.embedding import MeanEmbeddingMethod
from noisegate.methods.method import Method
from noisegate.schema import Schema
from noisegate.settings import ImageSize, Names, settings
from noisegate_images.models.activations import chosen_activations
from noisegate_images.models.decoder import PACKAGED, LoadedDecoder, load_decoder

if TYPE_CHECKING:
    from noisegate_images.features.perceptual import Activations, Perceptual
    from noisegate_images.networks.named import FrozenNetwork


@settings
class PublicNetwork(Method):
    """Base of methods with a frozen public network."""

    network: str = "encoder"
    """"encoder", the one of the package, "strokes", the package's of drawings, "torchvision:NAME" or "timm:NAME"."""
    weights: str | None = None
    """File of its weights; never downloaded. See `noisegate_images.networks.named.load_network`."""
    sha256: str | None = None
    """What that file hashes to."""

    def encoder(self) -> FrozenNetwork:
        """Returns the network; a UserError if it is not here."""
        from noisegate_images.networks.named import load_network

        return load_network(self.network, self.weights, self.sha256)


@settings
class EncodedImages(PublicNetwork):
    """Base of methods that know an image by an encoder's feature of it, and make images of features by a decoder."""

    image: ImageSize | None = None
    """Height, width and channels of the images."""
    decoder: str = PACKAGED
    """A decoder, by its name or its file (`noisegate pretrain decoder`), trained with the same encoder; by default the
    one in the package, of 32 x 32 pixels in colour."""
    decoder_sha256: str | None = None
    """What that file hashes to."""
    layer: str | None = None
    """Module of the encoder whose channels are averaged over the picture; None for the last."""

    def encoding(self) -> Perceptual:
        """Returns the map from images to features of length 1; each is a function of its image alone, bit for bit.

        Raises:
            UserError: if there is no such network, layer or file, or the network cannot take such images.
        """
        from noisegate_images.features.perceptual import Perceptual

        network = self.encoder()
        layers = (self.layer or network.layers[-1],)
        return Perceptual(activations=chosen_activations(network, layers, self.shape, pool=True), moment=1)

    def checked_decoder(self) -> LoadedDecoder:
        """Returns the decoder.

        Raises:
            OptionError: if there is none, or it is one of other images, or another encoder or layer of it.
            ModelError: if it cannot be read.
        """
        encoding, encoder = self.encoding(), self.encoder().sha256
        decoder = load_decoder(self.decoder, self.decoder_sha256)
        if decoder.encoder != encoder:
            raise OptionError(
                f"decoder={self.decoder!r} was trained with the encoder {decoder.encoder}, the features are of "
                f"{encoder}; use the decoder and the encoder that belong together."
            )
        if decoder.shape != self.shape or decoder.features != encoding.dim:
            raise OptionError(
                f"decoder={self.decoder!r} makes images of {decoder.shape} from {decoder.features} numbers, asked for "
                f"are images of {self.shape} from {encoding.dim}. Train one on public images of this size with "
                "`noisegate pretrain decoder PUBLIC_IMAGES --out FILE`, and give it as decoder=FILE."
            )
        (layer,) = encoding.activations.layers.layers
        if decoder.layer != layer:
            raise OptionError(
                f"decoder={self.decoder!r} was trained with the layer {decoder.layer!r} of the encoder, asked for is "
                f"{layer!r}; set layer={decoder.layer!r}."
            )
        return decoder

    def stored_with_digests(self) -> dict[str, Any]:
        """Returns the settings as JSON with the digests of encoder and decoder, whichever they are."""
        return self.to_json() | {"sha256": self.encoder().sha256, "decoder_sha256": self.checked_decoder().digest}


@settings
class NetworkMethod(PublicNetwork, MeanEmbeddingMethod):
    """Base of methods whose vectors are activations of a frozen public network."""

    layers: Names = ()
    """Modules of it; empty for the encoder's four, or all convolutions of another network but 1 x 1 shortcuts."""

    def public_network(self) -> FrozenNetwork | None:
        """Returns the network, or None if it is not asked for; a UserError if it is not here."""
        return self.encoder()

    def activations(self, *, pool: bool) -> Activations:
        """Returns the map from images to activations, or with `pool` to the mean of each channel over the picture."""
        network = self.public_network()
        assert network is not None
        return chosen_activations(network, self.layers, self.shape, pool=pool)

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns the settings, with the digest of the network that was used, whichever it is."""
        network = self.public_network()
        return {"settings": self.to_json() | ({"sha256": network.sha256} if network else {})}

    def check_fit(self, device: str) -> None:
        """Finds what would stop the fit, before any budget is spent; see `Method`."""
        super().check_fit(device)
        self.public_network()
