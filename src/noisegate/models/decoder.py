"""Decoders: a feature of an encoder and noise in, an image out. Public and frozen; trained or chosen beforehand.

What a method learns from private records is a distribution of features; a decoder shows it as images, which costs no
privacy. A decoder belongs to one encoder: features of another one mean nothing to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from noisegate.errors import ModelError, OptionError
from noisegate.models.record_model import Array
from noisegate.schema.pixels import ImageShape

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from noisegate.networks.decoder import DecoderNetwork

PACKAGED = "cifar10"
"""Name of the decoder in the package: images of 32 x 32 pixels in colour, of the encoder in the package."""

OWN = "noisegate"
"""Kind of the decoders that `noisegate pretrain decoder` makes. Their weights travel in saved models."""

# By name, so that nothing of other libraries is imported before it is needed. These are named in saved models, by path
# and digest: they are large.
ELSEWHERE = {
    "diffusers": "noisegate.contrib.diffusers_decoder:load_diffusers",
    "ic-gan": "noisegate.contrib.icgan:load_icgan",
}
"""What loads each other kind, as "module:function"."""


class Decoder(Protocol):
    """From features and noise to images, each image a function of its own feature and noise.

    Attributes:
        shape: Shape of the images.
        features: Length of a feature.
        latent: Length of the noise.
    """

    shape: ImageShape
    features: int
    latent: int

    def __call__(
        self, features: Float[Tensor, "rows features"], noise: Float[Tensor, "rows latent"]
    ) -> Float[Tensor, "rows pixels"]:
        """Returns intensities in [0, 1], (rows, height · width · channels), in the order of `pixel_schema`.

        Args:
            features: Of length 1, float32 (rows, features).
            noise: Standard normal, float32 (rows, latent).
        """
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedDecoder:
    """A decoder with what a certificate and a saved model say of it; it is called like a `Decoder` itself.

    Attributes:
        decoder: What decodes.
        kind: `OWN`, or one of `ELSEWHERE`.
        digest: SHA-256 of its file, or of the files of its folder.
        encoder: SHA-256 of the weights of the encoder that it was trained with.
        layer: Layer of that encoder, whose activations are averaged over the picture and scaled to length 1.
        description: What loads it again, for the kinds `ELSEWHERE`; empty for `OWN`.
    """

    decoder: Decoder
    kind: str
    digest: str
    encoder: str
    layer: str
    description: Mapping[str, Any]

    @property
    def shape(self) -> ImageShape:
        """Shape of the images."""
        return self.decoder.shape

    @property
    def features(self) -> int:
        """Length of a feature."""
        return self.decoder.features

    @property
    def latent(self) -> int:
        """Length of the noise."""
        return self.decoder.latent

    def __call__(
        self, features: Float[Tensor, "rows features"], noise: Float[Tensor, "rows latent"]
    ) -> Float[Tensor, "rows pixels"]:
        """Returns intensities in [0, 1], (rows, height · width · channels); see `Decoder`."""
        return self.decoder(features, noise)

    def tensors(self) -> dict[str, Array]:
        """Returns the weights that travel in a saved model, as they are in the decoder's file; none of other kinds."""
        if not isinstance(self.decoder, OwnDecoder):
            return {}
        from noisegate.networks.decoder import decoder_tensors

        return {name: value.numpy() for name, value in decoder_tensors(self.decoder.network).items()}

    def to_json(self) -> dict[str, Any]:
        """Returns what else `from_saved` needs."""
        made = self.decoder.network.design.to_json() if isinstance(self.decoder, OwnDecoder) else self.description
        return {"kind": self.kind, "digest": self.digest, "made_of": dict(made)}

    @classmethod
    def from_saved(cls, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> Self:
        """Returns the decoder that `tensors` and `to_json` describe; a ModelError where its digest says another."""
        kind, digest, made_of = (description[name] for name in ("kind", "digest", "made_of"))
        if kind != OWN:
            return cls(**vars(_elsewhere(made_of, digest)))
        import torch

        from noisegate.networks.decoder import DecoderDesign, decoder_bytes, decoder_from

        arrays = {name: torch.from_numpy(np.array(value)) for name, value in tensors.items()}
        network = decoder_from(DecoderDesign.from_json(made_of), arrays)
        found = hashlib.sha256(decoder_bytes(network)).hexdigest()
        if found != digest:
            raise ModelError(f"the decoder in the model has the SHA-256 {found}, not {digest}: it was changed.")
        return cls(**vars(_own(network, found)))


class OwnDecoder:
    """A decoder that `noisegate pretrain decoder` made, frozen, in evaluation mode, on the CPU."""

    def __init__(self, network: DecoderNetwork) -> None:
        self.network = network
        self.shape, self.features, self.latent = network.design.shape, network.design.features, network.design.latent

    def __call__(
        self, features: Float[Tensor, "rows features"], noise: Float[Tensor, "rows latent"]
    ) -> Float[Tensor, "rows pixels"]:
        """Returns intensities in [0, 1], (rows, height · width · channels); see `Decoder`."""
        images: Tensor = self.network(features, noise)
        return images.permute(0, 2, 3, 1).flatten(1)


def load_decoder(name: str | Path, sha256: str | None = None) -> LoadedDecoder:
    """Returns a decoder; nothing is ever downloaded.

    Args:
        name: "cifar10" for the one in the package; a file of `noisegate pretrain decoder`; or a JSON file that says
            where a decoder of another library lies, see docs/decoders.md.
        sha256: What it must hash to; None for whatever it is.

    Raises:
        OptionError: if there is no such decoder.
        ModelError: if it cannot be read, or is another one.
        MissingExtraError: if the library that it needs is not installed.
    """
    path = Path(name)
    if str(name) != PACKAGED and not path.is_file():
        raise OptionError(
            f"decoder={str(name)!r} is no file; give {PACKAGED!r} for the one in the package, or a file that "
            "`noisegate pretrain decoder` made."
        )
    if path.suffix == ".json":
        return _elsewhere(_read_description(path), sha256)
    from noisegate.networks.decoder import read_decoder

    return _own(*read_decoder(None if str(name) == PACKAGED else path, sha256=sha256))


def _own(network: DecoderNetwork, digest: str) -> LoadedDecoder:
    facts = {"encoder": network.design.encoder, "layer": network.design.layer}
    return LoadedDecoder(decoder=OwnDecoder(network), kind=OWN, digest=digest, description={}, **facts)


def _elsewhere(description: Mapping[str, Any], sha256: str | None) -> LoadedDecoder:
    kind = description.get("kind")
    if kind not in ELSEWHERE:
        raise ModelError(f"a decoder of kind {kind!r} is not known; it is one of {', '.join(ELSEWHERE)}.")
    module, _, function = ELSEWHERE[kind].partition(":")
    found: LoadedDecoder = getattr(import_module(module), function)(description, sha256)
    return found


def _read_description(path: Path) -> dict[str, Any]:
    """Returns what a JSON file says, with paths that are relative to it made absolute."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"decoder {path}: the description cannot be read ({error}).") from None
    if not isinstance(found, dict) or not isinstance(found.get("path"), str):
        raise ModelError(f'decoder {path}: expected an object with "kind" and "path"; see docs/decoders.md.')
    return found | {"path": str((path.parent / found["path"]).resolve())}
