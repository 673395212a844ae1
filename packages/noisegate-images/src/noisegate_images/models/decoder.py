"""Decoders: a feature of an encoder and noise in, an image out. Public and frozen; trained or chosen beforehand.

What a method learns from private records is a distribution of features; a decoder shows it as images, which costs no
privacy. A decoder belongs to one encoder: features of another one mean nothing to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from noisegate.errors import ModelError, OptionError
from noisegate.models.record_model import Array
from noisegate.schema.pixels import ImageShape

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from noisegate_images.networks.decoder import DecoderNetwork

PACKAGED = "cifar10"
"""Name of the decoder in the package: images of 32 x 32 pixels in colour, of the encoder in the package."""

OWN = "noisegate"
"""Kind of the decoders that `noisegate pretrain decoder` makes. Their weights travel in saved models."""


class LoadedDecoder:
    """A decoder that `noisegate pretrain decoder` made, frozen, in evaluation mode, on the CPU.

    Attributes:
        network: What decodes.
        digest: SHA-256 of its file.
        encoder: SHA-256 of the weights of the encoder that it was trained with.
        layer: Layer of that encoder, whose activations are averaged over the picture and scaled to length 1.
        shape: Shape of the images.
        features: Length of a feature.
        latent: Length of the noise.
    """

    kind = OWN

    def __init__(self, network: DecoderNetwork, digest: str) -> None:
        self.network, self.digest, design = network, digest, network.design
        self.encoder, self.layer = design.encoder, design.layer
        self.shape: ImageShape = design.shape
        self.features, self.latent = design.features, design.latent

    def __call__(
        self, features: Float[Tensor, "rows features"], noise: Float[Tensor, "rows latent"]
    ) -> Float[Tensor, "rows pixels"]:
        """Returns intensities in [0, 1], (rows, height · width · channels), in the order of `pixel_schema`.

        Each image is a function of its own feature and noise.

        Args:
            features: Of length 1, float32 (rows, features).
            noise: Standard normal, float32 (rows, latent).
        """
        images: Tensor = self.network(features, noise)
        return images.permute(0, 2, 3, 1).flatten(1)

    def tensors(self) -> dict[str, Array]:
        """Returns the weights that travel in a saved model, as they are in the decoder's file."""
        from noisegate_images.networks.decoder import decoder_tensors

        return {name: value.numpy() for name, value in decoder_tensors(self.network).items()}

    def to_json(self) -> dict[str, Any]:
        """Returns what else `from_saved` needs."""
        return {"kind": OWN, "digest": self.digest, "made_of": dict(self.network.design.to_json())}

    @classmethod
    def from_saved(cls, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> Self:
        """Returns the decoder that `tensors` and `to_json` describe; a ModelError where its digest says another."""
        kind, digest, made_of = (description[name] for name in ("kind", "digest", "made_of"))
        if kind != OWN:
            raise ModelError(f"a decoder of kind {kind!r} is not known; it is {OWN}.")
        import torch

        from noisegate_images.networks.decoder import DecoderDesign, decoder_bytes, decoder_from

        arrays = {name: torch.from_numpy(np.array(value)) for name, value in tensors.items()}
        network = decoder_from(DecoderDesign.from_json(made_of), arrays)
        found = hashlib.sha256(decoder_bytes(network)).hexdigest()
        if found != digest:
            raise ModelError(f"the decoder in the model has the SHA-256 {found}, not {digest}: it was changed.")
        return cls(network, found)


def load_decoder(name: str | Path, sha256: str | None = None) -> LoadedDecoder:
    """Returns a decoder; nothing is ever downloaded.

    Args:
        name: "cifar10" for the one in the package, or a file of `noisegate pretrain decoder`.
        sha256: What it must hash to; None for whatever it is.
    """
    path = Path(name)
    if str(name) != PACKAGED and not path.is_file():
        raise OptionError(
            f"decoder={str(name)!r} is no file; give {PACKAGED!r} for the one in the package, or a file that "
            "`noisegate pretrain decoder` made."
        )
    from noisegate_images.networks.decoder import read_decoder

    return LoadedDecoder(*read_decoder(None if str(name) == PACKAGED else path, sha256=sha256))
