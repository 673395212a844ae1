"""Networks as recipes: the six of Private Set Generation, and three that held-out images of their own source choose.

How they are trained is in :mod:`~noisegate.evaluation.utility.psg` and :mod:`~noisegate.evaluation.utility.selected`;
torch is loaded when one is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from noisegate.errors import OptionError
from noisegate.evaluation.utility.network_settings import SelectionRecipe, Training
from noisegate.evaluation.utility.recipe import Answer, EpochDone, LabelledRows, Recipe, UntrainableError
from noisegate.schema.pixels import ImageShape

if TYPE_CHECKING:
    from torch import nn

NETWORKS_VERSION = "2026.1"

NETWORKS = ("ConvNet", "LeNet", "AlexNet", "VGG11", "ResNet18", "MLP")
"""Those of Private Set Generation, in the order of the paper's table."""

SELECTION_VERSION = "2026.1"

SELECTED_NETWORKS = ("cnn", "resnet", "wrn")
"""A small network, ResNet18 and WRN-16-2."""

LEAST_IMAGES = 4


def read_networks(names: str) -> tuple[str, ...]:
    """Read which networks are meant.

    Args:
        names: separated by commas, in capitals or not, for instance "convnet,mlp".

    Returns:
        Their names, each once, in the order of :data:`NETWORKS`.

    Raises:
        OptionError: one of them is unknown, or there is none.
    """
    known = {name.lower(): name for name in NETWORKS}
    asked = [name.strip() for name in names.split(",")]
    for name in asked:
        if name.lower() not in known:
            raise OptionError(f"network {name!r} is not known; expected some of {', '.join(known)}")
    chosen = {known[name.lower()] for name in asked}
    return tuple(name for name in NETWORKS if name in chosen)


def build_network(name: str, shape: ImageShape, classes: int, *, seed: int) -> nn.Module:
    """Build a network of :data:`NETWORKS` with fresh weights, in float32 on the CPU.

    Args:
        name: of the network.
        shape: of the images; any. Small ones are padded with zeros where a network needs that.
        classes: number of classes.
        seed: of the weights; public.

    Returns:
        A module from (rows, channels, height, width) to logits, (rows, classes).

    Raises:
        OptionError: there is no such network, or ``classes`` is below 1.
    """
    from noisegate.networks.classifiers import (
        build_alexnet,
        build_convnet,
        build_lenet,
        build_perceptron,
        build_resnet18,
        build_vgg11,
    )

    (known,) = read_networks(name)
    builders: tuple[Callable[..., nn.Module], ...]
    builders = (build_convnet, build_lenet, build_alexnet, build_vgg11, build_resnet18, build_perceptron)
    return builders[NETWORKS.index(known)](shape, classes, seed=seed)


@dataclass(frozen=True, kw_only=True)
class _NetworkRecipe(Recipe):
    """A network, trained from several fresh starts; on a CPU with one thread, where a seed gives the same scores."""

    restarted: ClassVar[bool] = True
    rows: ClassVar[str] = "images"

    training: Training | SelectionRecipe

    @property
    def device(self) -> str:
        """Where it runs.

        Raises:
            OptionError: there is no such device here.
        """
        from noisegate.devices import choose_device

        return choose_device(self.training.device).type


@dataclass(frozen=True, kw_only=True)
class Network(_NetworkRecipe):
    """One of :data:`NETWORKS`, scored with the weights after the last epoch."""

    training: Training

    def answer(
        self, train: LabelledRows, test: LabelledRows, *, classes: int, seed: int, progress: EpochDone | None = None
    ) -> Answer:
        """Train from one fresh start, whose weights, order of the images and augmentation ``seed`` decides."""
        from noisegate.evaluation.utility.psg import trained_scores

        network = build_network(self.name, _shape(train), classes, seed=seed).to(self.device)
        return Answer(scores=trained_scores(network, train, test, self.training, seed=seed, progress=progress))


@dataclass(frozen=True, kw_only=True)
class SelectedNetwork(_NetworkRecipe):
    """One of :data:`SELECTED_NETWORKS`, with the weights of the epoch that held-out training images choose."""

    training: SelectionRecipe

    def answer(
        self, train: LabelledRows, test: LabelledRows, *, classes: int, seed: int, progress: EpochDone | None = None
    ) -> Answer:
        """Train on a share of some images, choose by the rest of them, and ask the chosen network once about others.

        The seed is of the weights, of the draw of the held-out images, their order and shifts.
        """
        from noisegate.evaluation.utility.selected import build_selected, selected_answer

        if len(train.labels) < LEAST_IMAGES:
            raise UntrainableError(f"there are {len(train.labels)} training images, of which some must be held out")

        def fresh() -> nn.Module:
            return build_selected(self.name, _shape(train), classes, seed=seed).to(self.device)

        return selected_answer(fresh, train, test, self.training, seed=seed, progress=progress)


def _shape(rows: LabelledRows) -> ImageShape:
    height, width, channels = rows.image
    return ImageShape(height=height, width=width, channels=channels)
