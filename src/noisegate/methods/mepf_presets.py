"""The names of DP-MEPF's presets, and what each changes in the fit: this library's, and the two set-ups of the paper.

Harder et al. (TMLR 2023), section 6, Tables 7 and 8, and the authors' program. "paper" is that of CIFAR-10 and CelebA,
"paper-grey" that of MNIST and FashionMNIST. Learning rates stand for one data set and ε each; Table 7 has those of the
others, whole, in benchmarks/dp_mepf/mepf_rates.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

Preset: TypeAlias = Literal["default", "paper", "paper-grey"]

RESNET18 = "torchvision:resnet18"
BLOCKS = tuple(f"layer{stage}.{block}" for stage in range(1, 5) for block in range(2))
"""The eight residual blocks of a ResNet18, whose outputs, after their ReLU, are the features of grey images."""

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
