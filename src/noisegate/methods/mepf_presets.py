"""The presets of DP-MEPF: this library's, and the two set-ups of the paper.

Harder et al. (TMLR 2023), section 6, Tables 7 and 8, and the authors' program. "paper" is that of CIFAR-10 and CelebA,
"paper-grey" that of MNIST and FashionMNIST. Learning rates stand for one data set and ε each; Table 7 has those of the
others, whole, in benchmarks/dp_mepf/mepf_rates.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from noisegate.settings import derived

Preset: TypeAlias = Literal["default", "paper", "paper-grey"]

RESNET18 = "torchvision:resnet18"
BLOCKS = tuple(f"layer{stage}.{block}" for stage in range(1, 5) for block in range(2))
"""The eight residual blocks of a ResNet18, whose outputs, after their ReLU, are the features of grey images."""

_SETTINGS: Mapping[Preset, Mapping[str, Any]] = {
    "default": {
        **{"network": "encoder", "moments": 1, "stopping": "none"},
        **{"generator": "convolutional", "latent": 32, "hidden": (200,)},
    },
    "paper": {
        **{"network": "torchvision:vgg19", "moments": 2, "stopping": "private"},
        **{"generator": "residual", "latent": 90, "hidden": ()},
    },
    # The paper's noise vector has 10 numbers beside the one-hot label, as DP-MERF's.
    "paper-grey": {
        **{"network": RESNET18, "moments": 2, "stopping": "none"},
        **{"generator": "convolutional", "latent": 10, "hidden": (500,)},
    },
}

_LOSS: Mapping[str, Any] = {
    **{"schedule": "constant", "loss": "moving-average", "average_eps": 1e-8, "average_reduction": "mean"},
    **{"ema_decay": 0.0, "class_power": 0.0, "check_every": 5000, "check_images": 5000},
}

FIT: Mapping[Preset, Mapping[str, Any]] = {
    "default": {},
    # Labelled CIFAR-10, φ₁ alone, ε of 5 or more.
    "paper": {**_LOSS, "steps": 200_000, "batch": 128, "learning_rate": 1e-3, "average_rate": 1e-4},
    # MNIST, any ε.
    "paper-grey": {**_LOSS, "steps": 100_000, "batch": 100, "learning_rate": 1e-5, "average_rate": 1e-4},
}
"""Changes to the fit, by preset."""


def by_preset(name: str) -> Any:
    """Returns a field whose default is what the preset has for the setting `name`; an unknown preset is refused later.

    Examples:
        >>> from noisegate import DPMEPF
        >>> DPMEPF(image=(28, 28, 1)).latent, DPMEPF(image=(28, 28, 1), preset="paper").latent
        (32, 90)
    """
    return derived(lambda given: _SETTINGS.get(given["preset"], _SETTINGS["default"])[name])
