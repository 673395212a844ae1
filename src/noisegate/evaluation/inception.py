"""Inception-v3 as published Fréchet distances use it, with weights from a file that is already on this machine.

The network is the one of Heusel et al. (2017), in the PyTorch form of ``pytorch-fid``: torchvision's Inception-v3 with
1,008 classes, average pooling that leaves padding out, and maximum pooling in the last block. Images are stretched to
299 x 299 (bilinear) and scaled to [-1, 1]; the features are the 2,048 before the last layer.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from noisegate.errors import ModelError
from noisegate.evaluation.feature_batches import in_batches

if TYPE_CHECKING:
    from torch import nn

DIGEST = "6726825d"
"""What the SHA-256 of the weights starts with: the part that their publishers put into the name of the file."""

FILES = (f"pt_inception-2015-12-05-{DIGEST}.pth", f"weights-inception-2015-12-05-{DIGEST}.pth")
"""As pytorch-fid and torch-fidelity leave them in the cache of torch."""

SIDE = 299

_AVERAGING = tuple(f"Mixed_{block}" for block in ("5b", "5c", "5d", "6b", "6c", "6d", "6e", "7b"))


class Inception:
    """Features whose Fréchet distance is the "FID".

    Args:
        weights: the file; None to look for :data:`FILES` in the cache of torch. Nothing is downloaded.

    Raises:
        ModelError: the file is not there, is another one, or torchvision is not installed.
    """

    name = "inception-v3"

    def __init__(self, weights: Path | None = None) -> None:
        path = _found() if weights is None else weights
        self._network = build_inception()
        load(self._network, path)

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Give 2,048 features per image."""
        return in_batches(self._network, pixels)


def load(network: nn.Module, path: Path, digest: str = DIGEST) -> None:
    """Put weights from a file into the network.

    Args:
        network: of :func:`build_inception`.
        path: the file.
        digest: what its SHA-256 must start with.

    Raises:
        ModelError: the file cannot be read, has another digest, or holds other tensors.
    """
    import torch

    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"weights of Inception-v3: {str(path)!r} cannot be read ({error.strerror})") from None
    if not found.startswith(digest):
        raise ModelError(
            f"weights of Inception-v3: the SHA-256 of {str(path)!r} starts with {found[: len(digest)]}, expected "
            f"{digest}; figures with other weights are no Fréchet distance that can be compared, take {FILES[0]!r}"
        )
    try:
        # The classifier at the end is not part of the features.
        held = torch.load(path, map_location="cpu", weights_only=True)
        tensors = {name: value for name, value in held.items() if not name.startswith("fc.")}
        network.get_submodule("inception").load_state_dict(tensors)
    except (RuntimeError, AttributeError, ValueError) as error:
        raise ModelError(f"weights of Inception-v3: {str(path)!r} holds other tensors ({error})") from None


def build_inception() -> nn.Module:
    """Build the network with no weights worth anything.

    Returns:
        A module from (rows, 1 or 3 channels, height, width), intensities in [0, 1], to (rows, 2048).

    Raises:
        ModelError: torchvision is not installed.
    """
    try:
        from torchvision.models import inception_v3  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        raise ModelError("Inception-v3 needs torchvision: pip install 'noisegate[vision]'") from error
    from torch import nn

    from noisegate.evaluation.inception_blocks import Resized, average_within, with_maximum

    network = inception_v3(weights=None, aux_logits=False, transform_input=False, init_weights=False)
    network.fc = nn.Identity()
    for name in _AVERAGING:
        average_within(getattr(network, name).branch_pool)
    network.Mixed_7c = with_maximum(network.Mixed_7c)
    return Resized(network, SIDE)


def _found() -> Path:
    import torch

    folder = Path(torch.hub.get_dir()) / "checkpoints"
    for name in FILES:
        if (folder / name).is_file():
            return folder / name
    raise ModelError(
        f"weights of Inception-v3: neither {FILES[0]!r} nor {FILES[1]!r} is in {str(folder)!r}; put one there or give "
        "its path. Nothing is downloaded"
    )
