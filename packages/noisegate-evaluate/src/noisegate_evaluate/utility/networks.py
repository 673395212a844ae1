"""Networks that score images, their training, and its settings.

The six networks of Private Set Generation are scored after the last epoch. Four more are selected by validation images,
taken from their training images. The training itself is in `noisegate_evaluate.utility.training`. torch is loaded when
a network is trained.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from noisegate.errors import OptionError
from noisegate.schema.pixels import ImageShape
from noisegate.settings import Count, Positive, Settings, Within, settings

if TYPE_CHECKING:
    from torch import nn

NETWORKS_VERSION = SELECTION_VERSION = "2026.1"
NETWORKS = ("ConvNet", "LeNet", "AlexNet", "VGG11", "ResNet18", "MLP")
"""The networks of Private Set Generation, in the order of the paper's table."""
SELECTED_NETWORKS = (
    "cnn",
    "resnet",
    "resnet9",
    "wrn",
)  # a small network, ResNet18, ResNet9 and WRN-16-2
REPEATS, EPOCHS, AUGMENTED_EPOCHS = (
    3,
    300,
    1000,
)  # fresh starts of each network in the paper, and epochs
LEARNING_RATE = 0.01
LATER_RATE = 0.001
MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4
BATCH = 256
Device = Literal["auto", "cpu", "cuda", "mps"]


@settings
class Training(Settings):
    """Settings of the training of Private Set Generation's networks."""

    epochs: Count | None = None
    "Passes over the training images; None for the paper's 300, or 1000 with ``augment``."
    augment: bool = False
    """Whether to shift, scale or rotate each image at random in each pass, as the paper does for MNIST and
    FashionMNIST."""
    device: Device = "auto"
    """Device of the training; "auto" is a GPU if there is one. On a CPU, the same seed gives the same scores. On a GPU
    the scores may differ slightly, because sums are computed in another order."""

    @property
    def passes(self) -> int:
        """Number of epochs."""
        return self.epochs or (AUGMENTED_EPOCHS if self.augment else EPOCHS)

    def in_report(self) -> dict[str, Any]:
        """Returns all settings, including the fixed ones, as JSON values."""
        return {
            "optimizer": "SGD",
            "epochs": self.passes,
            "batch": BATCH,
            "learning_rate": LEARNING_RATE,
            "learning_rate_after_half": LATER_RATE,
            "momentum": MOMENTUM,
            "weight_decay": WEIGHT_DECAY,
            "augmentation": "crop, scale or rotate" if self.augment else None,
            "standardised_with": "mean and deviation of each channel of the training "
            "images",
            "scored": "after the last epoch",
        }


@settings
class NetworkOptions(Settings):
    """Options of an evaluation with networks."""

    image: ImageShape | None = None
    "Shape of the images in a table of pixels; None reads it from the names of the columns."
    repeats: Count = REPEATS
    "Number of trainings of each network from new initial weights, with consecutive seeds."
    training: Training = field(default_factory=Training)
    "Settings of the training."


@settings
class SelectionRecipe(Settings):
    """Settings of networks that are selected by validation images."""

    epochs: Count = 6
    "Passes over the training images. Over all epochs, the learning rate rises once and falls once."
    batch: Annotated[int, Within(ge=2), "a whole number, 2 or more"] = 128
    "Number of images in a step."
    learning_rates: Annotated[
        tuple[Positive, ...], Within(check=len), "positive numbers"
    ] = (3e-3,)
    "Highest learning rate of a training. With several rates, one network is trained for each, and the best is used."
    weight_decay: Annotated[float, Within(ge=0, lt=math.inf), "a number, 0 or more"] = (
        1e-2
    )
    "Weight decay of AdamW."
    held_out: Annotated[float, Within(gt=0, lt=1), "a share between 0 and 1"] = 1 / 12
    "Share of the training images that are used as validation images, to select the network."
    shift: Annotated[int, Within(ge=0), "a whole number, 0 or more"] = 0
    "Largest number of pixels by which an image is moved at random in each pass, along each side."
    device: Device = "auto"
    """Device of the training; "auto" is a GPU if there is one."""

    def in_report(self) -> dict[str, Any]:
        """Returns all settings, including the fixed ones, as JSON values."""
        return {
            **{
                name: value
                for name, value in self.to_json().items()
                if name not in ("device", "shift")
            },
            "optimizer": "AdamW",
            "schedule": "linear rise of the learning rate over a quarter of the steps, then half a cosine down",
            "augmentation": f"moved by up to {self.shift} pixels"
            if self.shift
            else None,
            "chosen": "the epoch with the highest accuracy on held-out images of the same source; of equals the last",
            "precision": "float32",
        }


def read_networks(names: str) -> tuple[str, ...]:
    """Returns some of `NETWORKS` in the order of the list, for instance of "convnet,mlp"."""
    known = {name.lower(): name for name in NETWORKS}
    asked = [name.strip() for name in names.split(",")]
    for name in asked:
        if name.lower() not in known:
            raise OptionError(
                f"network {name!r} is not known; expected some of {', '.join(known)}"
            )
    return tuple(full for full in NETWORKS if full.lower() in map(str.lower, asked))


def build_network(
    name: str, shape: ImageShape, classes: int, *, seed: int
) -> nn.Module:
    """Creates a network of `NETWORKS` or `SELECTED_NETWORKS` with initial weights, in float32 on the CPU.

    It maps images, (rows, channels, height, width), to logits, (rows, classes).

    Args:
        name: Name of the network.
        shape: Shape of the images, of any size. Small images are padded with zeros if the network needs it.
        classes: Number of classes.
        seed: Public seed of the initial weights.

    Raises:
        OptionError: there is no such network, or ``classes`` is below 1.
    """
    from noisegate_images.networks import classifiers

    full_name = name if name in SELECTED_NETWORKS else read_networks(name)[0]
    builders: dict[str, Callable[..., nn.Module]] = {
        "ConvNet": classifiers.build_convnet,
        "LeNet": classifiers.build_lenet,
        "AlexNet": classifiers.build_alexnet,
        "VGG11": classifiers.build_vgg11,
        "ResNet18": classifiers.build_resnet18,
        "MLP": classifiers.build_perceptron,
        "cnn": classifiers.build_small,
        "resnet": classifiers.build_resnet18,
        "resnet9": classifiers.build_resnet9,
        "wrn": classifiers.build_wide,
    }
    return builders[full_name](shape, classes, seed=seed)
