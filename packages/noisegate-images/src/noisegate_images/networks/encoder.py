"""A small convolutional encoder of images, grey or colour, which perceptual features are of by default; and weights.

It is trained to distinguish public images
(`noisegate_papers.contrib.pretraining.encoder`); its batch normalisation is then folded
into the convolutions, so that nothing mixes the rows of a batch.

The weights in the package were trained on CIFAR-10 (Krizhevsky 2009);
[images](../../docs/images.md) says by which command.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from noisegate.devices import seeded
from noisegate.errors import ModelError, OptionError

if TYPE_CHECKING:
    from jaxtyping import Float


def check_sizes(network: str, **sizes: int) -> None:
    """Refuses a size of a network, by the name of its argument, that is no positive whole number."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise OptionError(
                f"{name}={value!r} of {network} must be a positive whole number."
            )


def file_digest(path: Path, what: str) -> str:
    """Returns the digest of a file; one that cannot be read is a `ModelError` about `what`."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(
            f"{what}: the file cannot be read ({error.strerror})."
        ) from None


def check_digest(
    found: str, sha256: str | None, what: str, *, required: bool = True
) -> str:
    """Returns the digest that was found of `what`, which must be the one that was given, if any or where required."""
    if sha256 is None and required:
        note = f"that of this file is {found}."
        raise OptionError(
            f"{what} need sha256=DIGEST, so that a certificate says which ones they were; {note}"
        )
    if sha256 not in (None, found):
        cure = "take the file that it belongs to, or correct the digest."
        raise ModelError(
            f"{what}: SHA-256 {found} is not {sha256}, the one that was given; {cure}"
        )
    return found


def halved(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns tensors in float16, as files have them."""
    return {
        name: value.detach().to(torch.float16).contiguous()
        for name, value in tensors.items()
    }


def read_weights(
    path: Path | None, shipped: str, kind: str, sha256: str | None
) -> tuple[bytes, str]:
    """Returns the content of a file, `shipped` in the package by default, and its digest."""
    what = f"{kind} {path or shipped}"
    try:
        content = (path or resources.files(__package__).joinpath(shipped)).read_bytes()
    except OSError as error:
        raise ModelError(
            f"{what}: the file cannot be read ({error.strerror})."
        ) from None
    return content, check_digest(
        hashlib.sha256(content).hexdigest(), sha256, what, required=False
    )


FORMAT = "noisegate-encoder-1"  # stands in the file of an encoder; another number for another architecture
SHIPPED = "weights_cifar10.safetensors"
SHIPPED_SHA256 = "d60ab144ef28974f891d8444454db20fbcb06a9e13b1d66ee73d48fd9fb40a34"
LAYERS = ("early", "middle", "late", "last")
"""Modules whose outputs are features: after the ReLU, at a half, a quarter, a quarter and an eighth of the size."""
SIDE = 32
"""Pixels that an image is brought down to: larger ones are averaged over blocks, 64 over 2 x 2 and 256 over 8 x 8."""
WIDTH = 144  # channels of the last layers
_HEAD = "head."


class Unit(nn.Module):
    """A convolution with its ReLU; in between batch normalisation instead of biases, as long as it is trained."""

    def __init__(
        self,
        entering: int,
        channels: int,
        *,
        kernel: int = 3,
        stride: int = 1,
        trained: bool,
    ) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(
            entering, channels, kernel, stride, padding=1, bias=not trained
        )
        self.norm = nn.BatchNorm2d(channels) if trained else nn.Identity()

    def forward(
        self, images: Float[Tensor, "rows c h w"]
    ) -> Float[Tensor, "rows _ _ _"]:
        """Returns activations, (rows, channels, height, width)."""
        activations: Tensor = self.norm(self.convolution(images))
        return activations.relu()


class Residual(nn.Module):
    """Two units around which the input is led past."""

    def __init__(self, channels: int, *, trained: bool) -> None:
        super().__init__()
        self.first = Unit(channels, channels, trained=trained)
        self.second = Unit(channels, channels, trained=trained)

    def forward(
        self, images: Float[Tensor, "rows c h w"]
    ) -> Float[Tensor, "rows _ _ _"]:
        """Returns activations of the same shape."""
        activations: Tensor = images + self.second(self.first(images))
        return activations


class Encoder(nn.Module):
    """The network, in the form that is trained or the one that is used; `LAYERS` names what it is used for."""

    def __init__(self, *, trained: bool = False) -> None:
        super().__init__()
        self.stem = Unit(3, 48, kernel=4, stride=2, trained=trained)
        self.early = Unit(48, 64, trained=trained)
        self.middle = Residual(64, trained=trained)
        self.late = Unit(64, WIDTH, trained=trained)
        self.last = Residual(WIDTH, trained=trained)

    def forward(
        self, images: Float[Tensor, "rows c h w"]
    ) -> Float[Tensor, "rows _ _ _"]:
        """Returns the last activations, (rows, 144, height / 8, width / 8), of intensities, 8 pixels or more."""
        # Public constants instead of the mean of some data set: intensities run from -2 to 2.
        images = (images - 0.5) * 4
        if images.shape[1] == 1:
            images = images.expand(-1, 3, -1, -1)
        blocks = max(1, min(images.shape[2:]) // SIDE)
        if blocks > 1:
            images = nn.functional.avg_pool2d(images, blocks)
        half = self.early(
            self.stem(images.contiguous(memory_format=torch.channels_last))
        )
        quarter = self.late(self.middle(nn.functional.max_pool2d(half, 2)))
        activations: Tensor = self.last(nn.functional.max_pool2d(quarter, 2))
        return activations


def build_encoder(*, seed: int) -> Encoder:
    """Returns an encoder in the form that is trained, with fresh weights, in float32 on the CPU."""
    with seeded(seed):
        return Encoder(trained=True).to(memory_format=torch.channels_last)


def folded(encoder: Encoder) -> Encoder:
    """Returns the encoder that gives what `encoder` gives in evaluation mode, without batch normalisation."""
    result = Encoder()
    units = {
        name: module
        for name, module in encoder.named_modules()
        if isinstance(module, Unit)
    }
    with torch.no_grad():
        for name, target in result.named_modules():
            if not isinstance(target, Unit):
                continue
            unit, norm = units[name], units[name].norm
            assert (
                isinstance(norm, nn.BatchNorm2d)
                and norm.running_var is not None
                and norm.running_mean is not None
            )
            scale = norm.weight / (norm.running_var + norm.eps).sqrt()
            target.convolution.weight.copy_(
                unit.convolution.weight * scale[:, None, None, None]
            )
            assert target.convolution.bias is not None
            target.convolution.bias.copy_(norm.bias - norm.running_mean * scale)
    return _frozen(result)


def save_encoder(encoder: Encoder, head: nn.Linear, path: Path) -> str:
    """Writes a folded encoder and the classifier that it was trained with, in float16; returns the file's SHA-256."""
    tensors = encoder.state_dict() | {
        f"{_HEAD}{name}": value for name, value in head.state_dict().items()
    }
    content = safetensors.torch.save(halved(tensors), metadata={"format": FORMAT})
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def load_encoder(path: Path | None = None, *, sha256: str | None = None) -> Encoder:
    """Returns a frozen encoder in evaluation mode, in float32 on the CPU; the one in the package by default."""
    encoder = Encoder()
    content, _ = read_weights(
        path, SHIPPED, "encoder", SHIPPED_SHA256 if path is None else sha256
    )
    try:
        weights = {
            name: value.to(torch.float32)
            for name, value in safetensors.torch.load(content).items()
        }
        encoder.load_state_dict(
            {
                name: value
                for name, value in weights.items()
                if not name.startswith(_HEAD)
            }
        )
    except safetensors.SafetensorError as error:
        raise ModelError(f"encoder {path}: no safetensors file ({error}).") from None
    except RuntimeError as error:
        raise ModelError(
            f"{path}: the tensors are not those of an encoder ({error})."
        ) from None
    return _frozen(encoder)


def classify(
    encoder: Encoder, head: nn.Linear, images: Float[Tensor, "rows c h w"]
) -> Float[Tensor, "rows classes"]:
    """Returns logits of the public classes, (rows, classes)."""
    logits: Tensor = head(encoder(images).mean(dim=(2, 3)))
    return logits


def _frozen(encoder: Encoder) -> Encoder:
    return encoder.to(memory_format=torch.channels_last).requires_grad_(False).eval()
