"""The convolutional networks that DP-LLM's explanations are compared with: without privacy, and trained by DP-SGD."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from harness.results import kept
from maps import (
    DELTA,
    RECORDS,
    SHAPE,
    Pixels,
    test_images,
    training_images,
    training_table,
)
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.functional import cross_entropy

from noisegate import Gate
from noisegate.devices import seeded
from noisegate_images.networks.classifiers import RowsToImages
from noisegate_images.training.adam import Adam
from noisegate_papers.methods.dp_sgd import DPSGD
from noisegate_papers.models.released_classifier import NetworkClassifier

CLASSES = 10
_BATCH, _LEARNING_RATE = 64, 1e-3
PRIVATE = {"width": 16, "sampling_probability": 0.01, "centre": 0.0}
"""Of the network trained by DP-SGD, beside its defaults: small samples and half the channels, for time."""


def build_cnn(seed: int) -> nn.Sequential:
    """Returns the network of section 4.1: 5 x 5 convolutions of 20 and 50 channels, max pooling, and 500 units."""
    with seeded(seed):
        return nn.Sequential(
            RowsToImages(SHAPE),
            *(nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
            *(nn.Linear(50 * 4 * 4, 500), nn.ReLU(), nn.Linear(500, CLASSES)),
        )


def prepared_cnn(
    dataset: str,
    data: Path,
    out: Path,
    *,
    epochs: int,
    seed: int,
    report: Callable[[int, int], None],
) -> tuple[nn.Sequential, float]:
    """Returns the network in evaluation mode and its accuracy on the test images, from the folder `out` if it is there.

    Its last weights count: no moment of the training is chosen on test images.
    """
    network = build_cnn(seed)
    place = out / f"{dataset}-cnn-epochs{epochs}-seed{seed}.safetensors"

    def train() -> dict[str, float]:
        images, labels = training_images(dataset, data)
        _train(network, images, labels, epochs=epochs, seed=seed, report=report)
        save_file(network.state_dict(), place)
        return {"accuracy": _accuracy(network, *test_images(dataset, data))}

    out.mkdir(parents=True, exist_ok=True)
    accuracy = kept(place.with_suffix(".json"), train)["accuracy"]
    network.load_state_dict(load_file(place))
    return network.eval(), accuracy


def prepared_private_cnn(
    data: Path,
    out: Path,
    epsilon: float,
    steps: int,
    report: Callable[[int, int], None],
) -> tuple[nn.Module, float]:
    """Returns a network trained by DP-SGD on MNIST and its accuracy, from the folder `out` if it is there.

    It takes positions in [0, 1], (images, pixels), times two, which is no matter to what its gradients show.
    """
    place = out / f"mnist-dp-cnn-eps{epsilon:g}-steps{steps}"

    def train() -> dict[str, float]:
        table, schema = training_table("mnist", data)
        method = DPSGD(image=(28, 28, 1), steps=steps, **PRIVATE)
        gate = Gate(table, schema=schema, epsilon=epsilon, delta=DELTA, records=RECORDS)
        classifier = method.fit(gate, report=lambda done: report(done, steps))
        classifier.save(place)
        images, labels = test_images("mnist", data)
        return {
            "accuracy": _accuracy(classifier.module, 2 * images, labels),
            "epsilon": classifier.certificate.check(),
        }

    out.mkdir(parents=True, exist_ok=True)
    accuracy = kept(out / f"{place.name}.json", train)["accuracy"]
    return NetworkClassifier.load(place).module, accuracy


def _accuracy(
    network: nn.Module, images: Pixels, labels: npt.NDArray[np.int64]
) -> float:
    hits = predictions(network, images) == torch.from_numpy(labels)
    return float(hits.float().mean())


@torch.no_grad()
def predictions(network: nn.Module, images: Pixels) -> torch.Tensor:
    """Returns the likeliest class of each image, (images,)."""
    return torch.cat(
        [network(part).argmax(dim=1) for part in torch.from_numpy(images).split(500)]
    )


def _train(
    network: nn.Sequential,
    images: Pixels,
    labels: npt.NDArray[np.int64],
    *,
    epochs: int,
    seed: int,
    report: Callable[[int, int], None],
) -> None:
    rows, wanted = torch.from_numpy(images), torch.from_numpy(labels)
    adam = Adam(dict(network.named_parameters()), learning_rate=_LEARNING_RATE)
    generator = torch.Generator().manual_seed(seed)
    done, steps = 0, epochs * (len(rows) // _BATCH)
    for _ in range(epochs):
        order = torch.randperm(len(rows), generator=generator)
        for chosen in order[: len(rows) // _BATCH * _BATCH].split(_BATCH):
            adam.descend(cross_entropy(network(rows[chosen]), wanted[chosen]))
            done += 1
            report(done, steps)
