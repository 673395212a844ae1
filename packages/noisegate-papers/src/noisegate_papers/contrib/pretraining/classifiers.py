"""Networks that are trained to tell the labels of public images apart, and the files that they end in.

The small one is the encoder of the package. The other is torchvision's ResNet18 (He et al., CVPR 2016), which DP-MEPF
takes for grey images: `network="torchvision:resnet18"` with its state dict as `weights` and its `sha256`.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import safetensors.torch
import torch
from torch import Tensor, nn

from noisegate.devices import seeded
from noisegate.errors import require
from noisegate_images.networks.encoder import WIDTH, build_encoder, classify, folded, save_encoder
from noisegate_images.networks.named import IMAGENET

if TYPE_CHECKING:
    from jaxtyping import Float

Name = Literal["encoder", "torchvision:resnet18"]


class Classifier(nn.Module):
    """A network under a linear classifier of public labels."""

    @abstractmethod
    def forward(self, images: Float[Tensor, "rows 3 height width"]) -> Float[Tensor, "rows classes"]:
        """Returns logits of intensities in [0, 1]."""

    @abstractmethod
    def write(self, path: Path) -> str:
        """Writes the weights; returns the SHA-256 of the file."""


class SmallClassifier(Classifier):
    """The encoder of the package; its file holds it folded, in float16."""

    def __init__(self, classes: int, *, seed: int) -> None:
        super().__init__()
        self.encoder = build_encoder(seed=seed)
        with seeded(seed):
            self.head = nn.Linear(WIDTH, classes)

    def forward(self, images: Float[Tensor, "rows 3 height width"]) -> Float[Tensor, "rows classes"]:
        """See `Classifier`."""
        return classify(self.encoder, self.head, images)

    def write(self, path: Path) -> str:
        """See `Classifier`."""
        return save_encoder(folded(self.encoder), self.head, path)


class ResNet18Classifier(Classifier):
    """The ResNet18 of torchvision.

    Raises:
        MissingExtraError: if torchvision is not installed.
    """

    def __init__(self, classes: int, *, seed: int) -> None:
        require("torchvision", "network='torchvision:…'")
        from torchvision import models

        super().__init__()
        with seeded(seed):
            self.network = models.resnet18(weights=None, num_classes=classes)

    def forward(self, images: Float[Tensor, "rows 3 height width"]) -> Float[Tensor, "rows classes"]:
        """See `Classifier`."""
        mean, std = (torch.tensor(channels)[:, None, None] for channels in IMAGENET)
        logits: Tensor = self.network((images - mean) / std)
        return logits

    def write(self, path: Path) -> str:
        """See `Classifier`."""
        content = safetensors.torch.save(self.network.state_dict())
        path.write_bytes(content)
        return hashlib.sha256(content).hexdigest()


CLASSIFIERS: dict[str, type[SmallClassifier | ResNet18Classifier]] = {
    "encoder": SmallClassifier,
    "torchvision:resnet18": ResNet18Classifier,
}
"""By the name that `network` of a method has."""
