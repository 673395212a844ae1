"""A small decoder of images: a feature of an encoder and noise in, one image out. Public, frozen, and of one encoder.

Shi et al. (CVPR 2016); Casanova et al. (NeurIPS 2021). The weights in the package are of CIFAR-10: docs/decoders.md.

A linear layer to the smallest picture, then a 3 x 3 convolution to four times the
channels for each doubling, which become 2 x 2 pixels (Shi et al., CVPR 2016); the last
one repeats pixels and then convolves. Feature and noise come in at every size, as gain
and bias after batch normalisation, as in an instance-conditioned GAN (Casanova et al.,
NeurIPS 2021). In evaluation mode, in which it is sampled, an image is a function of its
own feature and noise.

The weights in the package were trained on CIFAR-10 (Krizhevsky 2009);
[decoders](../../docs/decoders.md) says by which command.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from noisegate.devices import seeded
from noisegate.errors import ModelError, OptionError
from noisegate.schema.pixels import ImageShape
from noisegate_images.networks.encoder import check_sizes, halved, read_weights

if TYPE_CHECKING:
    from jaxtyping import Float


FORMAT = "noisegate-decoder-1"  # stands in the file of a decoder; another number for another architecture

SHIPPED = "decoder_cifar10.safetensors"
SHIPPED_SHA256 = "8dba1d835a2637f342d73d54ffbf96c0cab6de50baf6b3462e6224017fc03e0a"

_WIDTHS = (160, 160, 160, 96, 48, 32)  # channels at every size, the last ones of them
_LEAST, _MOST = 4, 8  # height and width of the smallest picture, in pixels
_UNUSED = "num_batches_tracked"
_NOISE_GAIN = 2.0  # with 1, the first trials hardly examined the noise


@dataclass(frozen=True, kw_only=True)
class DecoderDesign:
    """What a decoder is made of, and for; an OptionError of no positive number, or images that cannot be halved so."""

    shape: ImageShape  # of the images
    features: int  # length of a feature
    latent: int  # length of the noise
    channels: tuple[int, ...]  # at every size, from the smallest picture to the image
    encoder: str  # SHA-256 of the weights of the encoder that the features are of
    layer: str  # the encoder's layer; its activations are averaged over the picture and scaled to length 1

    def __post_init__(self) -> None:
        widths = {
            f"channels[{place}]": width for place, width in enumerate(self.channels)
        }
        check_sizes("a decoder", features=self.features, latent=self.latent, **widths)
        scale = 1 << max(len(self.channels) - 1, 0)
        if not self.channels or self.shape.height % scale or self.shape.width % scale:
            cure = f"height and width must be multiples of {scale}."
            raise OptionError(
                f"images of {self.shape} cannot be doubled to from {len(self.channels)} sizes; {cure}"
            )

    def to_json(self) -> dict[str, Any]:
        """Returns what `from_json` takes."""
        return asdict(self) | {
            "shape": list(astuple(self.shape)),
            "channels": list(self.channels),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Returns the design that `to_json` gave."""
        height, width, channels = values["shape"]
        shape = ImageShape(height=height, width=width, channels=channels)
        return cls(**{**values, "shape": shape, "channels": tuple(values["channels"])})


def default_channels(shape: ImageShape) -> tuple[int, ...]:
    """Returns the channels at every size of a decoder of such images, so that it starts with 4 to 7 pixels."""
    for sizes in range(1, len(_WIDTHS) + 1):
        scale = 1 << (sizes - 1)
        sides = (shape.height / scale, shape.width / scale)
        if all(side.is_integer() and _LEAST <= side < _MOST for side in sides):
            return _WIDTHS[-sizes:]
    note = "resize the images."
    raise OptionError(
        f"images of {shape}: a decoder doubles 4 to 7 pixels some times, as to 28, 32, 64 or 128; {note}"
    )


class Modulation(nn.Module):
    """Batch normalisation with a gain and a bias from feature and noise, of length `inputs` together, then ReLU."""

    def __init__(self, channels: int, inputs: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.linear = nn.Linear(inputs, 2 * channels)
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)

    def forward(
        self,
        activations: Float[Tensor, "rows c h w"],
        inputs: Float[Tensor, "rows inputs"],
    ) -> Float[Tensor, "rows _ _ _"]:
        """Returns activations of the same shape."""
        gain, bias = self.linear(inputs)[:, :, None, None].chunk(2, dim=1)
        return torch.relu(self.norm(activations) * (1 + gain) + bias)


class Doubling(nn.Module):
    """A 3 x 3 convolution to twice the height and width: to four times the channels, or of repeated pixels."""

    def __init__(self, entering: int, channels: int, *, repeat: bool) -> None:
        super().__init__()
        self.repeat = repeat
        self.convolution = nn.Conv2d(
            entering, channels if repeat else 4 * channels, 3, padding=1
        )
        if not repeat:
            with torch.no_grad():
                # The four pixels that come of one start equal.
                self.convolution.weight.copy_(
                    self.convolution.weight[::4].repeat_interleave(4, dim=0)
                )

    def forward(
        self, images: Float[Tensor, "rows c h w"]
    ) -> Float[Tensor, "rows _ _ _"]:
        """Returns (rows, channels, 2 height, 2 width)."""
        if self.repeat:
            repeated: Tensor = self.convolution(
                nn.functional.interpolate(images, scale_factor=2.0)
            )
            return repeated
        return nn.functional.pixel_shuffle(self.convolution(images), 2)


class DecoderNetwork(nn.Module):
    """The network of a design."""

    centre: Tensor

    def __init__(self, design: DecoderDesign) -> None:
        super().__init__()
        self.design = design
        inputs, widths, scale = (
            design.features + design.latent,
            design.channels,
            1 << (len(design.channels) - 1),
        )
        self._start = (
            widths[0],
            design.shape.height // scale,
            design.shape.width // scale,
        )
        self.first = nn.Linear(inputs, widths[0] * self._start[1] * self._start[2])
        steps = enumerate(pairwise(widths), 2)
        self.doublings = nn.ModuleList(
            Doubling(*step, repeat=place == len(widths)) for place, step in steps
        )
        self.modulations = nn.ModuleList(Modulation(width, inputs) for width in widths)
        self.last = nn.Conv2d(widths[-1], design.shape.channels, 3, padding=1)
        self.register_buffer("centre", torch.zeros(design.features))

    def forward(
        self,
        features: Float[Tensor, "rows features"],
        noise: Float[Tensor, "rows latent"],
    ) -> Float[Tensor, "rows _ _ _"]:
        """Returns intensities in [0, 1] of features of length 1, (rows, features), and standard normal noise."""
        spread = (
            self.design.features**0.5
        )  # brings the entries of a vector of length 1 to the size of the noise's
        inputs = torch.cat(
            [(features - self.centre) * spread, noise * _NOISE_GAIN], dim=1
        )
        images = (
            self.first(inputs)
            .unflatten(1, self._start)
            .contiguous(memory_format=torch.channels_last)
        )
        images = self.modulations[0](images, inputs)
        for doubling, modulation in zip(
            self.doublings, list(self.modulations)[1:], strict=True
        ):
            images = modulation(doubling(images), inputs)
        result: Tensor = self.last(images).sigmoid()
        return result


def build_decoder(design: DecoderDesign, *, seed: int) -> DecoderNetwork:
    """Returns a decoder with fresh weights from a public seed, in float32 on the CPU."""
    with seeded(seed):
        return DecoderNetwork(design).to(memory_format=torch.channels_last)


def decoder_bytes(network: DecoderNetwork) -> bytes:
    """Returns the file of a decoder: its design, and its weights in float16; the same bytes for the same weights."""
    described = json.dumps(
        {"format": FORMAT, **network.design.to_json()}, sort_keys=True
    )
    # One entry of metadata only: safetensors writes several in any order.
    return safetensors.torch.save(
        decoder_tensors(network), metadata={"decoder": described}
    )


def decoder_tensors(network: DecoderNetwork) -> dict[str, Tensor]:
    """Returns the weights in float16, as the file has them; how many batches were normalised is not used."""
    return {
        name: value
        for name, value in halved(network.state_dict()).items()
        if not name.endswith(_UNUSED)
    }


def decoder_from(
    design: DecoderDesign, tensors: Mapping[str, Tensor]
) -> DecoderNetwork:
    """Returns a frozen decoder in evaluation mode, in float32 on the CPU."""
    network = build_decoder(design, seed=0)
    counters = {
        name: value
        for name, value in network.state_dict().items()
        if name.endswith(_UNUSED)
    }
    network.load_state_dict(
        {name: value.to(torch.float32) for name, value in tensors.items()} | counters
    )
    return network.requires_grad_(False).eval()


def read_decoder(
    path: Path | None = None, *, sha256: str | None = None
) -> tuple[DecoderNetwork, str]:
    """Returns a frozen decoder, see `decoder_from`, and the SHA-256 of its file, the one in the package by default."""
    if path is None and sha256 is None:
        sha256 = SHIPPED_SHA256
    content, digest = read_weights(path, SHIPPED, "decoder", sha256)
    try:
        # The design is in the header, which begins with its length in eight bytes.
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        described: dict[str, Any] = json.loads(
            header.get("__metadata__", {}).get("decoder", "{}")
        )
        if described.pop("format", None) != FORMAT:
            raise ValueError(f"the file is none of the format {FORMAT}")
        return decoder_from(
            DecoderDesign.from_json(described), safetensors.torch.load(content)
        ), digest
    except (
        safetensors.SafetensorError,
        RuntimeError,
        KeyError,
        TypeError,
        ValueError,
        OptionError,
    ) as error:
        raise ModelError(
            f"decoder {path or SHIPPED}: no file of `noisegate pretrain decoder` ({error})."
        ) from None


PACKAGED = "cifar10"
"""Name of the decoder in the package: images of 32 x 32 pixels in colour, of the encoder in the package."""
OWN = "noisegate"  # kind of the decoders that `noisegate pretrain decoder` makes. Their weights travel in saved models.


class LoadedDecoder:
    """A decoder that `noisegate pretrain decoder` made, frozen, in evaluation mode, on the CPU.

    `digest` is the SHA-256 of its file, `encoder` that of the weights of the encoder that it was trained with, of which
    the activations of `layer` are averaged over the picture and scaled to length 1. Pictures have this `shape`, the
    feature and the noise the lengths `features` and `latent`.
    """

    kind = OWN

    def __init__(self, network: DecoderNetwork, digest: str) -> None:
        self.network, self.digest, design = network, digest, network.design
        self.encoder, self.layer = design.encoder, design.layer
        self.shape: ImageShape = design.shape
        self.features, self.latent = design.features, design.latent

    def __call__(
        self,
        features: Float[Tensor, "rows features"],
        noise: Float[Tensor, "rows latent"],
    ) -> Float[Tensor, "rows pixels"]:
        """Returns intensities in [0, 1], (rows, pixels), of each image by its own feature and normal noise alone."""
        images: Tensor = self.network(features, noise)
        return images.permute(0, 2, 3, 1).flatten(1)

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Returns the weights that travel in a saved model, as they are in the decoder's file."""
        return {
            name: value.numpy() for name, value in decoder_tensors(self.network).items()
        }

    def to_json(self) -> dict[str, Any]:
        """Returns what else `from_saved` needs."""
        return {
            "kind": OWN,
            "digest": self.digest,
            "made_of": dict(self.network.design.to_json()),
        }

    @classmethod
    def from_saved(
        cls, tensors: Mapping[str, npt.NDArray[Any]], description: Mapping[str, Any]
    ) -> Self:
        """Returns the decoder that `tensors` and `to_json` describe; a ModelError where its digest says another."""
        kind, digest, made_of = (
            description[name] for name in ("kind", "digest", "made_of")
        )
        if kind != OWN:
            raise ModelError(f"a decoder of kind {kind!r} is not known; it is {OWN}.")
        arrays = {
            name: torch.from_numpy(np.array(value)) for name, value in tensors.items()
        }
        network = decoder_from(DecoderDesign.from_json(made_of), arrays)
        found = hashlib.sha256(decoder_bytes(network)).hexdigest()
        if found != digest:
            raise ModelError(
                f"the decoder in the model has the SHA-256 {found}, not {digest}: it was changed."
            )
        return cls(network, found)


def load_decoder(name: str | Path, sha256: str | None = None) -> LoadedDecoder:
    """Returns a decoder; nothing is ever downloaded."""
    # The name is "cifar10" for the one in the package, or a file of `noisegate pretrain decoder`; `sha256` is what it
    # must hash to, None for whatever it is.
    path = Path(name)
    if str(name) != PACKAGED and not path.is_file():
        cure = f"give {PACKAGED!r} for the one in the package, or a file that `noisegate pretrain decoder` made."
        raise OptionError(f"decoder={str(name)!r} is not a file; {cure}")

    return LoadedDecoder(
        *read_decoder(None if str(name) == PACKAGED else path, sha256=sha256)
    )
