"""Inception-v3 as published Fréchet distances use it, with weights from a file that is already on this machine.

It is that of Heusel and others (NeurIPS 2017), https://arxiv.org/abs/1706.08500, in the
PyTorch form of `pytorch-fid`: torchvision's with 1,008 classes, average pooling that
leaves padding out, and maximum pooling in the last block. Images are stretched to 299 x
299 and scaled to [-1, 1]. torch is loaded when this module is.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from noisegate.devices import seeded
from noisegate.errors import ModelError, OptionError
from noisegate_images.networks.encoder import check_digest, file_digest
from noisegate_images.networks.named import FrozenNetwork

if TYPE_CHECKING:
    from jaxtyping import Float

DIGEST = "6726825d"
"""What the SHA-256 of the weights starts with: the part that their publishers put into the name of the file."""
FILES = (
    f"pt_inception-2015-12-05-{DIGEST}.pth",
    f"weights-inception-2015-12-05-{DIGEST}.pth",
)
"""As pytorch-fid and torch-fidelity leave them in the cache of torch."""
SIDE = 299
LAYER = "feature"  # the module that gives the feature
_AVERAGING = tuple(
    f"Mixed_{block}" for block in ("5b", "5c", "5d", "6b", "6c", "6d", "6e", "7b")
)


def build_inception() -> nn.Module:
    """Returns the network, untrained: from (rows, 1 or 3 channels, height, width) in [0, 1] to (rows, 2048)."""
    try:
        from torchvision.models import inception_v3  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        raise ModelError(
            "Inception-v3 needs torchvision: pip install 'noisegate[vision]'"
        ) from error
    network = inception_v3(
        weights=None, aux_logits=False, transform_input=False, init_weights=False
    )
    network.fc = nn.Identity()
    for name in _AVERAGING:
        average_within(getattr(network, name).branch_pool)
    network.Mixed_7c = _LastBlock(network.Mixed_7c)
    return _Resized(network)


def load_weights(network: nn.Module, path: Path, digest: str = DIGEST) -> None:
    """Puts weights from a file into the network of `build_inception`; its SHA-256 must start with ``digest``."""
    found = file_digest(path, f"weights of Inception-v3: {str(path)!r}")
    if not found.startswith(digest):
        raise ModelError(
            f"weights of Inception-v3: the SHA-256 of {str(path)!r} starts with {found[: len(digest)]}, expected "
            f"{digest}; figures with other weights are no Fréchet distance that can be compared, take {FILES[0]!r}"
        )
    try:
        # The classifier at the end is not part of the features.
        held = torch.load(path, map_location="cpu", weights_only=True)
        tensors = {
            name: value for name, value in held.items() if not name.startswith("fc.")
        }
        network.get_submodule("inception").load_state_dict(tensors)
    except (RuntimeError, AttributeError, ValueError) as error:
        raise ModelError(
            f"weights of Inception-v3: {str(path)!r} holds other tensors ({error})"
        ) from None


def cached_weights() -> Path:
    """Returns the weights in the cache of torch."""
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    for name in FILES:
        if (folder / name).is_file():
            return folder / name
    raise ModelError(
        f"weights of Inception-v3: neither {FILES[0]!r} nor {FILES[1]!r} is "
        f"in {str(folder)!r}; put one there or give its path. Nothing is "
        "downloaded"
    )


def load_inception(
    model: str, weights: str | None, sha256: str | None
) -> FrozenNetwork:
    """Returns Inception-v3 of Fréchet distances, "v3", as the encoder by which DP-MEPF stops; see `load_network`."""
    # Its feature is the last pooling layer, 2,048 numbers. The weights are those of pytorch-fid, by default where it or
    # torch-fidelity leave them in the cache of torch, and no others: their digest is known.
    if model != "v3":
        raise OptionError(f"network='inception:{model}': only 'inception:v3' is known.")
    path = cached_weights() if weights is None else Path(weights)
    digest = check_digest(
        file_digest(path, f"weights={str(path)!r}"),
        sha256,
        f"weights={str(path)!r}",
        required=False,
    )
    with seeded(0):
        network = build_inception()
    load_weights(network, path)
    return FrozenNetwork(
        module=nn.Sequential(OrderedDict({"network": network, LAYER: nn.Identity()}))
        .requires_grad_(False)
        .eval(),
        layers=(LAYER,),
        nonnegative=frozenset(),
        # It brings images of any size to its own, and takes intensities as they are.
        mean=(0.0, 0.0, 0.0),
        std=(1.0, 1.0, 1.0),
        sha256=digest,
    )


def average_within(behind: nn.Module) -> None:
    """Lets the module behind a 3 x 3 average pooling, which divides by 9 everywhere, see means without the padding."""

    def corrected(_: nn.Module, given: Any) -> Float[torch.Tensor, "rows channels h w"]:
        (pooled,) = given
        there = functional.avg_pool2d(
            torch.ones_like(pooled[:1, :1]), kernel_size=3, stride=1, padding=1
        )
        return torch.div(pooled, there)

    behind.register_forward_pre_hook(corrected)


class _Resized(nn.Module):
    """A network behind a bilinear resampling to a square, of intensities in [-1, 1] and three channels."""

    def __init__(self, inception: nn.Module) -> None:
        super().__init__()
        self.inception = inception

    def forward(
        self, images: Float[torch.Tensor, "rows channels h w"]
    ) -> Float[torch.Tensor, "rows features"]:
        """Returns features of images with intensities in [0, 1]."""
        colour = images.expand(-1, 3, -1, -1)
        square = functional.interpolate(
            colour, (SIDE, SIDE), mode="bilinear", align_corners=False
        )
        features: torch.Tensor = self.inception(2 * square - 1)
        return features


class _LastBlock(nn.Module):
    """torchvision's last block with maximum instead of average pooling, its parts under the same names."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        for name, part in block.named_children():
            self.add_module(name, part)

    def forward(
        self, maps: Float[torch.Tensor, "rows entering h w"]
    ) -> Float[torch.Tensor, "rows leaving h w"]:
        """Returns the four branches side by side, in the order of torchvision."""
        parts = dict(self.named_children())
        middle = parts["branch3x3_1"](maps)
        double = parts["branch3x3dbl_2"](parts["branch3x3dbl_1"](maps))
        after = (
            parts["branch1x1"](maps),
            *(parts[name](middle) for name in ("branch3x3_2a", "branch3x3_2b")),
            *(parts[name](double) for name in ("branch3x3dbl_3a", "branch3x3dbl_3b")),
            parts["branch_pool"](
                functional.max_pool2d(maps, kernel_size=3, stride=1, padding=1)
            ),
        )
        return torch.cat(after, dim=1)
