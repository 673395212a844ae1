"""Trains an encoder, `noisegate_images.networks.encoder` or a ResNet18, to distinguish the labels of public images.

The small one is the encoder of the package. The other is torchvision's ResNet18 (He et
al., CVPR 2016), which DP-MEPF takes for grey images: `network="torchvision:resnet18"`
with its state dict as `weights` and its `sha256`. Stochastic gradient descent with a
one-cycle schedule on random crops and mirror images, half of them in grey. Intensities
are never inverted: generators were seen to draw digits dark on light for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import safetensors.torch
import torch
from torch import Tensor, nn

from noisegate.devices import seeded
from noisegate.errors import OptionError, require
from noisegate.settings import Settings, Within, settings
from noisegate_images.networks.encoder import (
    SIDE,
    WIDTH,
    build_encoder,
    classify,
    file_digest,
    folded,
    save_encoder,
)
from noisegate_images.networks.named import IMAGENET
from noisegate_papers.contrib.pretraining.training import (
    LUMA,
    Batch,
    Part,
    Pretraining,
    PublicImages,
    Steps,
    Whole,
)

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, UInt8

Name = Literal["encoder", "torchvision:resnet18"]


class SmallClassifier(nn.Module):
    """The encoder of the package; its file holds it folded, in float16."""

    def __init__(self, classes: int, *, seed: int) -> None:
        super().__init__()
        self.encoder = build_encoder(seed=seed)
        with seeded(seed):
            self.head = nn.Linear(WIDTH, classes)

    def forward(
        self, images: Float[Tensor, "rows 3 height width"]
    ) -> Float[Tensor, "rows classes"]:
        """Returns logits of intensities in [0, 1]."""
        return classify(self.encoder, self.head, images)

    def write(self, path: Path) -> str:
        """Writes the weights; returns the SHA-256 of the file."""
        return save_encoder(folded(self.encoder), self.head, path)


class ResNet18Classifier(nn.Module):
    """The ResNet18 of torchvision; a MissingExtraError if that is not installed."""

    def __init__(self, classes: int, *, seed: int) -> None:
        require("torchvision", "network='torchvision:…'")
        from torchvision import models

        super().__init__()
        with seeded(seed):
            self.network = models.resnet18(weights=None, num_classes=classes)

    def forward(
        self, images: Float[Tensor, "rows 3 height width"]
    ) -> Float[Tensor, "rows classes"]:
        """Returns logits of intensities in [0, 1]."""
        mean, std = (torch.tensor(channels)[:, None, None] for channels in IMAGENET)
        logits: Tensor = self.network((images - mean) / std)
        return logits

    def write(self, path: Path) -> str:
        """Writes the weights; returns the SHA-256 of the file."""
        path.write_bytes(safetensors.torch.save(self.network.state_dict()))
        return file_digest(path, f"{path}")


Classifier: TypeAlias = SmallClassifier | ResNet18Classifier
CLASSIFIERS: dict[str, type[Classifier]] = {
    "encoder": SmallClassifier,
    "torchvision:resnet18": ResNet18Classifier,
}
"""By the name that `network` of a method has."""


_MARGIN = 4
_RISE = 0.2
_MOMENTUM = 0.9


@settings
class EncoderTraining(Settings):
    """How to train; all of it is public."""

    network: Name = "encoder"
    "What is trained, by the name that a method takes it by."
    epochs: Steps = 5
    "Times that every image is seen."
    steps: Steps | None = None
    "Of the training, in place of that."
    batch: Batch = 128
    "Images a step."
    learning_rate: Annotated[float, Within(ge=0, le=10), "a number from 0 to 10"] = 0.1
    "Peak of the one-cycle schedule."
    decay: Part = 5e-4
    "Weight decay."
    smoothing: Part = 0.1
    "Part of a label that is spread over all labels."
    grey: Part = 0.5
    "Part of the images that are turned grey."
    seed: Whole = 0
    "Of weights, order and augmentation."


class Momenta:
    """The state of an optimiser by gradient descent, as named tensors: the momentum of each weight, by its number."""

    def __init__(self, optimiser: torch.optim.SGD) -> None:
        self._optimiser = optimiser

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the momenta; none before the first step."""
        slots = self._optimiser.state_dict()["state"]
        return {str(index): slot["momentum_buffer"] for index, slot in slots.items()}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        momenta = {
            int(index): {"momentum_buffer": value} for index, value in tensors.items()
        }
        self._optimiser.load_state_dict(
            {**self._optimiser.state_dict(), "state": momenta}
        )


class EncoderFitting(Pretraining[EncoderTraining]):
    """One training on images of 32 x 32 pixels in colour, with labels; `classifier` is the network so far.

    An OptionError if there are fewer images than a batch takes; a MissingExtraError without torchvision for its
    network.
    """

    def __init__(self, images: PublicImages, settings: EncoderTraining) -> None:
        if len(images.labels) < settings.batch:
            raise OptionError(
                f"{len(images.labels)} images are fewer than batch={settings.batch}; give more of them."
            )
        self.images, self.settings = images, settings
        self._pixels, self._labels = (
            torch.from_numpy(images.pixels),
            torch.from_numpy(images.labels),
        )
        self.classifier: Classifier = CLASSIFIERS[settings.network](
            len(images.classes), seed=settings.seed
        )
        self._optimiser = torch.optim.SGD(
            self.classifier.parameters(),
            lr=0.0,
            momentum=_MOMENTUM,
            nesterov=True,
            weight_decay=settings.decay,
        )
        self.parts = {"parts": self.classifier, "momentum": Momenta(self._optimiser)}

    @property
    def steps(self) -> int:
        """Steps of the whole training."""
        return self.settings.steps or self.settings.epochs * self._steps_an_epoch

    @property
    def _steps_an_epoch(self) -> int:
        return len(self._labels) // self.settings.batch

    def _descend(self) -> float:
        settings = self.settings
        progress = self.step / self.steps
        # A rise, then a fall to zero.
        fall = 0.5 * (1 + math.cos(math.pi * (progress - _RISE) / (1 - _RISE)))
        for group in self._optimiser.param_groups:
            group["lr"] = settings.learning_rate * (
                progress / _RISE if progress < _RISE else fall
            )
        # Every image once an epoch, but for an incomplete last batch.
        epoch, place = divmod(self.step, self._steps_an_epoch)
        order = torch.randperm(len(self._labels), generator=self._random(0, epoch))
        rows = order[place * settings.batch : (place + 1) * settings.batch]
        images = augmented(
            self._pixels[rows], self._random(1, self.step), grey=settings.grey
        )
        self.classifier.train()
        logits = self.classifier(images)
        loss = nn.functional.cross_entropy(
            logits, self._labels[rows], label_smoothing=settings.smoothing
        )
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        return float(loss.detach())

    def _random(self, use: int, number: int) -> torch.Generator:
        return torch.Generator().manual_seed(
            (self.settings.seed << 32) + (use << 31) + number
        )


def augmented(
    pixels: UInt8[Tensor, "rows height width 3"],
    random: torch.Generator,
    *,
    grey: float,
) -> Float32[Tensor, "rows 3 32 32"]:
    """Returns random crops and mirror images, a part of them grey, (rows, 3, 32, 32) in [0, 1], of uint8 pixels."""
    rows = len(pixels)
    images = pixels.permute(0, 3, 1, 2).to(torch.float32) / 255
    luma = (images * torch.tensor(LUMA)[:, None, None]).sum(dim=1, keepdim=True)
    images = torch.where(
        (torch.rand(rows, generator=random) < grey)[:, None, None, None], luma, images
    )
    padded = nn.functional.pad(images, (_MARGIN,) * 4, mode="reflect")
    corner = torch.randint(2 * _MARGIN + 1, (2, rows, 1), generator=random)
    down, right = corner + torch.arange(SIDE)
    right = torch.where(
        torch.rand(rows, 1, generator=random) < 0.5, right, right.flip(1)
    )
    cropped: Tensor = padded.permute(0, 2, 3, 1)[
        torch.arange(rows)[:, None, None], down[:, :, None], right[:, None, :]
    ]
    return cropped.permute(0, 3, 1, 2)
