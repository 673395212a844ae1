"""The image classifiers of PSG by name, as one fixed list with a version; torch is loaded when one is built.

PSG scores its synthetic images by six networks trained on them and tested on real images (Chen, Kerkouche and Fritz,
NeurIPS 2022, Table 2). Their sizes are those of the paper's public code; how they are trained is in
:mod:`~noisegate.evaluation.image_training`. A change of either is a new :data:`NETWORKS_VERSION`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisegate.errors import OptionError
from noisegate.schema.pixels import ImageShape

if TYPE_CHECKING:
    from torch import nn

NETWORKS_VERSION = "2026.1"

NETWORKS = ("ConvNet", "LeNet", "AlexNet", "VGG11", "ResNet18", "MLP")
"""In the order of the paper's table."""

SLOW = ("ResNet18", "VGG11", "AlexNet", "ConvNet")
"""Those that take longest to train, the longest first."""


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
    """Build a network with fresh weights, in float32 on the CPU.

    Args:
        name: one of :data:`NETWORKS`.
        shape: of the images; any. Small ones are padded with zeros where a network needs that.
        classes: number of classes.
        seed: of the weights; public.

    Returns:
        A module from (rows, channels, height, width) to logits, (rows, classes).

    Raises:
        OptionError: there is no such network, or ``classes`` is below 1.
    """
    from noisegate.networks.convnet import build_convnet
    from noisegate.networks.perceptron import build_perceptron
    from noisegate.networks.residual import build_resnet18
    from noisegate.networks.stacked import build_alexnet, build_lenet, build_vgg11

    (known,) = read_networks(name)
    if known == "ConvNet":
        return build_convnet(shape, classes, seed=seed)
    if known == "MLP":
        return build_perceptron(shape, classes, seed=seed)
    build = {"LeNet": build_lenet, "AlexNet": build_alexnet, "VGG11": build_vgg11, "ResNet18": build_resnet18}[known]
    return build(shape, classes, seed=seed)
