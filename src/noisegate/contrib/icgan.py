"""Decoders from checkpoints of IC-GAN's public code (Casanova et al., NeurIPS 2021).

A checkpoint is a bare state dict: what it does not say, its shapes do (`BigGANDesign.of`), and which encoder its
features are of stands in the description that the user writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from noisegate.contrib.biggan import BigGAN, BigGANDesign
from noisegate.devices import seeded
from noisegate.errors import ModelError, OptionError
from noisegate.models.decoder import LoadedDecoder
from noisegate.networks.weights import check_digest, file_digest
from noisegate.schema.pixels import ImageShape

if TYPE_CHECKING:
    from jaxtyping import Float


_KEYS = {"kind", "path", "encoder", "layer"}
_PARALLEL = "module."  # what torch puts before the names of a model that several GPUs trained


class BigGANDecoder:
    """A frozen BigGAN on features as a decoder."""

    def __init__(self, network: BigGAN) -> None:
        self.network, side = network, network.design.resolution
        self.shape = ImageShape(height=side, width=side, channels=3)
        self.features, self.latent = network.design.features, network.design.latent

    def __call__(
        self, features: Float[Tensor, "rows features"], noise: Float[Tensor, "rows latent"]
    ) -> Float[Tensor, "rows numbers"]:
        """Returns intensities in [0, 1], (rows, height · width · 3); see `Decoder`."""
        images: Tensor = self.network(features, noise)
        return images.permute(0, 2, 3, 1).flatten(1)


def load_icgan(description: Mapping[str, Any], sha256: str | None = None) -> LoadedDecoder:
    """Returns the decoder of a checkpoint, which must hash to `sha256`.

    The description has "path", a state dict of the generator as .pth, such as ``G_ema``; "encoder", the SHA-256 of the
    weights of the ResNet-50 whose features it was trained on; "layer", "feature" where it is left out, see
    `noisegate.contrib.encoders`.
    """
    if not isinstance(description.get("encoder"), str) or set(description) - _KEYS:
        raise OptionError(
            f"a description of an IC-GAN decoder has the keys {', '.join(sorted(_KEYS))}, and 'encoder' is the SHA-256 "
            "of the weights of its ResNet-50."
        )
    path = Path(description["path"])
    digest = file_digest(path, f"decoder {path}")
    if sha256 is None:
        raise OptionError(
            f"decoder {path} needs its SHA-256, so that a certificate says which one it was; that of this file is "
            f"{digest}."
        )
    check_digest(digest, sha256, f"decoder {path}")
    return LoadedDecoder(
        decoder=BigGANDecoder(_network(path)),
        kind="ic-gan",
        digest=digest,
        encoder=description["encoder"],
        layer=description.get("layer", "feature"),
        description=dict(description),
    )


def _network(path: Path) -> BigGAN:
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
        state = {name.removeprefix(_PARALLEL): value for name, value in loaded.items()}
        with seeded(0):
            network = BigGAN(BigGANDesign.of(state))
        network.load_state_dict(state)
    except Exception as error:  # torch raises whatever it likes for a file that is no state dict
        raise ModelError(
            f"decoder {path}: no checkpoint of an IC-GAN generator on features ({str(error).splitlines()[0]})."
        ) from None
    return network.requires_grad_(False).eval()
