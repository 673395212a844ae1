"""Networks that score images, as recipes.

Private Set Generation has six, scored after the last epoch; three more are chosen by held-out images of their own
source. The training itself is in :mod:`~noisegate.evaluation.utility.training`; torch is loaded when one is trained.
"""

from __future__ import annotations

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

SELECTED_NETWORKS = ("cnn", "resnet", "resnet9", "wrn")
"""A small network, ResNet18, ResNet9 and WRN-16-2."""


def read_networks(names: str) -> tuple[str, ...]:
    """Read some of :data:`NETWORKS`, separated by commas, in capitals or not, for instance "convnet,mlp".

    Returns:
        Their names, each once, in the order of the list.

    Raises:
        OptionError: one of them is unknown, or there is none.
    """
    known = {name.lower(): name for name in NETWORKS}
    asked = [name.strip() for name in names.split(",")]
    for name in asked:
        if name.lower() not in known:
            raise OptionError(f"network {name!r} is not known; expected some of {', '.join(known)}")
    return tuple(full for full in NETWORKS if full.lower() in map(str.lower, asked))


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
    from noisegate.networks import classifiers as room

    (known,) = read_networks(name)
    networks = (room.build_convnet, room.build_lenet, room.build_alexnet, room.build_vgg11)
    builders = (*networks, room.build_resnet18, room.build_perceptron)
    network: nn.Module = builders[NETWORKS.index(known)](shape, classes, seed=seed)
    return network


def build_selected(name: str, shape: ImageShape, classes: int, *, seed: int) -> nn.Module:
    """Build a network of :data:`SELECTED_NETWORKS`, as :func:`build_network` does.

    Raises:
        OptionError: there is no such network, or ``classes`` is below 1.
    """
    from noisegate.networks import classifiers as room

    if name not in SELECTED_NETWORKS:
        raise OptionError(f"network {name!r} is not known; expected some of {', '.join(SELECTED_NETWORKS)}")
    builders = (room.build_small, room.build_resnet18, room.build_resnet9, room.build_wide)
    return builders[SELECTED_NETWORKS.index(name)](shape, classes, seed=seed)


@dataclass(frozen=True, kw_only=True)
class Network(Recipe):
    """A network, trained from several fresh starts; on a CPU with one thread, where a seed gives the same scores.

    One of :data:`NETWORKS` with :class:`Training`, one of :data:`SELECTED_NETWORKS` with :class:`SelectionRecipe`.
    """

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

    def answer(
        self, train: LabelledRows, test: LabelledRows, *, classes: int, seed: int, progress: EpochDone | None = None
    ) -> Answer:
        """Train from one fresh start; ``seed`` decides weights, held-out images, their order and changes."""
        from noisegate.evaluation.utility import training

        shape = ImageShape(height=train.image[0], width=train.image[1], channels=train.image[2])
        if isinstance(self.training, Training):
            network = build_network(self.name, shape, classes, seed=seed).to(self.device)
            return training.last_answer(network, train, test, self.training, seed=seed, progress=progress)
        if len(train.labels) < 4:
            raise UntrainableError(f"there are {len(train.labels)} training images, of which some must be held out")

        def fresh() -> nn.Module:
            return build_selected(self.name, shape, classes, seed=seed).to(self.device)

        return training.selected_answer(fresh, train, test, self.training, seed=seed, progress=progress)
