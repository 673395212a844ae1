"""Methods that know an image by a public encoder's feature of it, and make images of features by a decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noisegate.methods.images import encoding_digest, image_encoding, matching_decoder, read_shape
from noisegate.models.decoder import PACKAGED
from noisegate.settings import ImageSize, Settings, settings

if TYPE_CHECKING:
    from noisegate.features.perceptual import Perceptual
    from noisegate.models.decoder import LoadedDecoder


@settings
class EncodedImages(Settings):
    """Settings of the encoder and the decoder; both are public and frozen."""

    image: ImageSize | None = None
    """Height, width and channels of the images."""
    decoder: str = PACKAGED
    """A decoder, by its name or its file (`noisegate pretrain decoder`), trained with the same encoder; by default the
    one in the package, of 32 x 32 pixels in colour."""
    decoder_sha256: str | None = None
    """What that file hashes to."""
    network: str = "encoder"
    """Of the encoder: "encoder", the one of the package, "torchvision:NAME" or "timm:NAME"."""
    weights: str | None = None
    """File of the encoder's weights; never downloaded. See `noisegate.networks.named.load_network`."""
    sha256: str | None = None
    """What that file hashes to."""
    layer: str | None = None
    """Module of the encoder whose channels are averaged over the picture; None for the last."""

    def encoding(self) -> Perceptual:
        """Returns the map from images to features of length 1.

        Raises:
            UserError: if there is no such network, layer or file, or the network cannot take such images.
        """
        return image_encoding(self.network, self.weights, self.sha256, self.layer, read_shape(self.image))

    def encoder_digest(self) -> str:
        """Returns the SHA-256 of the encoder's weights."""
        return encoding_digest(self.network, self.weights, self.sha256)

    def checked_decoder(self) -> LoadedDecoder:
        """Returns the decoder.

        Raises:
            OptionError: if there is none, or it is one of other images or another encoder.
            ModelError: if it cannot be read.
        """
        shape, encoder = read_shape(self.image), self.encoder_digest()
        return matching_decoder(self.decoder, self.decoder_sha256, shape, self.encoding(), encoder)

    def stored_with_digests(self) -> dict[str, Any]:
        """Returns the settings as JSON with the digests of encoder and decoder, whichever they are."""
        return self.to_json() | {"sha256": self.encoder_digest(), "decoder_sha256": self.checked_decoder().digest}
