"""The models of the gradient benchmark, as plain torch modules of flat images, with made-up records."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from noisegate.schema.pixels import ImageShape
from noisegate_images.networks.classifiers import build_convnet
from noisegate_papers.models.locally_linear import locally_linear_scores

PIXELS, CLASSES, MAPS, TEMPERATURE = 784, 10, 10, 10.0
RECORDS, RATE, BATCH = 2560, 0.1, 256
NORM, RATE_OF_LEARNING = 1.0, 0.1


class LocallyLinearScores(nn.Module):
    """DP-LLM's model: ten linear maps of each class, weighed by a softmax over maps."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.Linear(PIXELS, MAPS * CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Returns the score of each class, (rows, classes)."""
        return locally_linear_scores(
            self.maps(images).reshape(-1, MAPS, CLASSES), TEMPERATURE
        )


def _convnet() -> nn.Module:
    network = build_convnet(
        ImageShape(height=28, width=28, channels=1), CLASSES, seed=0
    )
    return nn.Sequential(nn.Unflatten(1, (1, 28, 28)), network)


def _perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(PIXELS, 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, CLASSES),
    )


MODELS: dict[str, Callable[[], nn.Module]] = {
    "convnet": _convnet,
    "dp-llm": LocallyLinearScores,
    "mlp": _perceptron,
}


def records() -> tuple[np.ndarray, np.ndarray]:
    """Returns made-up images, (records, pixels), float32 in [0, 1], and their labels."""
    random = np.random.default_rng(0)
    return random.random((RECORDS, PIXELS), dtype=np.float32), random.integers(
        0, CLASSES, RECORDS
    )
