"""Locally linear maps of MNIST, trained through the gate or without privacy, and kept in a folder.

What the figures of DP-LLM ask for is trained once, whichever figure asks first. A classifier that went through the gate
is kept with its certificate; one without privacy (ε = ∞) is nothing that the package makes or saves: MNIST is public.
"""

from __future__ import annotations

import argparse
import math
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import numpy.typing as npt
import torch
from harness.images import labelled_rows
from harness.measuring import measured_seconds
from harness.options import choice, needed, option, optional
from harness.results import kept
from papers.catalogue import load
from papers.published import Loaded
from rich.progress import Progress
from without_privacy import train_without_privacy

from noisegate import Gate
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape
from noisegate_papers.methods.dp_llm import DPLLM
from noisegate_papers.models.locally_linear import LocallyLinear, locally_linear_scores

PAGE = tomllib.loads(
    (Path(__file__).parent / "expected.toml").read_text(encoding="utf-8")
)
# What the documentation of MNIST says about its training images: a public number, rounded as it happens.
RECORDS = 60_000
DELTA = 1e-5
SHAPE = ImageShape(height=28, width=28)
NAMES = {
    "fashion-mnist": (
        "top",
        "trousers",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "boot",
    ),
    "mnist": tuple("0123456789"),
}
"""What the classes of each data set are called."""
# A projection is read through once for each block, so blocks are large.
_BLOCK = 256

Pixels = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What is trained.

    Attributes:
        epsilon: ε; infinite for a model without privacy.
        maps: M.
        projection: D'; None for no projection.
        epochs: Passes over the training images, in the mean; the authors have 20.
        seed: Of the public randomness.
        dataset: "mnist" or "fashion-mnist".
        temperature: T; None for the authors' of the data set, 30 and 1.
    """

    epsilon: float
    maps: int = PAGE["settings"]["paper"]["maps"]
    projection: int | None = PAGE["settings"]["paper"]["projection"]
    epochs: int = PAGE["figure_5"]["epochs"]
    seed: int = 0
    dataset: str = "mnist"
    temperature: float | None = None

    @property
    def name(self) -> str:
        """What its files are called."""
        suffix = "" if self.temperature is None else f"-T{self.temperature:g}"
        return (
            f"{self.dataset}-eps{self.epsilon:g}-maps{self.maps}-to{self.projection or 'all'}"
            f"-epochs{self.epochs}{suffix}-seed{self.seed}"
        )

    @property
    def method(self) -> DPLLM:
        """The method with the authors' settings."""
        settings = PAGE["settings"]["paper"] | {
            "maps": self.maps,
            "projection": self.projection,
        }
        settings |= {"steps": self.epochs * round(1 / settings["sampling_probability"])}
        if self.dataset == "fashion-mnist":
            settings |= {"temperature": 1.0, "centre": 0.0}
        if self.temperature is not None:
            settings |= {"temperature": self.temperature}
        return DPLLM(**settings, seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class Maps:
    """What was trained, as maps of positions of pixels in [0, 1].

    Attributes:
        weights: (maps, classes, pixels).
        bias: (maps, classes).
        temperature: T.
        told: What is known of it: accuracy on the test images, ε from the certificate, seconds.
    """

    weights: Pixels
    bias: Pixels
    temperature: float
    told: Mapping[str, Any]

    def answers(self, images: Pixels) -> torch.Tensor:
        """Returns g, (images, maps, classes), of images in [0, 1], (images, pixels)."""
        return torch.einsum(
            "mkp,np->nmk", *map(torch.from_numpy, (self.weights, images))
        ) + torch.from_numpy(self.bias)

    def predictions(self, images: Pixels) -> npt.NDArray[np.int64]:
        """Returns the likeliest class of each image, (images,)."""
        parts = [
            locally_linear_scores(self.answers(part), self.temperature)
            .argmax(dim=1)
            .numpy()
            for part in np.array_split(images, max(len(images) // 1000, 1))
        ]
        return np.concatenate(parts)

    def strongest(self, image: Pixels, count: int) -> tuple[int, Pixels, Pixels]:
        """Returns the predicted class of an image, (pixels,), its strongest maps there and their weights σ."""
        found = int(self.predictions(image[None])[0])
        weights = torch.softmax(
            self.answers(image[None])[0, :, found] / self.temperature, dim=0
        ).numpy()
        best = np.argsort(-weights, kind="stable")[:count]
        return found, self.weights[best, found], weights[best]


def released_maps(classifier: LocallyLinear, told: Mapping[str, Any]) -> Maps:
    """Returns what is in a classifier that went through the gate, of images."""
    weights = classifier.weights * classifier.inputs.gradients
    bias = classifier.bias - classifier.inputs.centre * weights.sum(axis=2)
    return Maps(
        weights=weights,
        bias=bias.astype(np.float32),
        temperature=classifier.temperature,
        told=told,
    )


WITHOUT_PRIVACY = {
    "data": needed(Path),
    "out": needed(Path, "folder of pictures, and of what was trained"),
    "dataset": choice(NAMES),
    "epochs": 20,
    "projection": option(300, "D'; 0 for none, where single maps are smoother"),
    "temperature": optional(float, "T; the authors' is 1, for MNIST 30"),
    "seed": 0,
    "json": optional(Path),
}
"""Options of the figures without privacy."""
PUBLISHED = {"fashion-mnist": 0.87}
"""What the paper trains its classifiers of these figures to."""


def setup_of(options: argparse.Namespace) -> Setup:
    """Returns what is trained for a figure without privacy."""
    return Setup(
        epsilon=math.inf,
        epochs=options.epochs,
        dataset=options.dataset,
        projection=options.projection or None,
        temperature=options.temperature,
        seed=options.seed,
    )


@contextmanager
def training_bar(text: str = "training") -> Iterator[Callable[[int, int], None]]:
    """Shows a bar in the block; yields what tells it the steps that are done, and all."""
    with Progress(transient=True) as progress:
        task = progress.add_task(text)
        yield lambda done, steps: progress.update(task, completed=done, total=steps)


def prepared(
    setup: Setup,
    data: Path,
    out: Path,
    report: Callable[[int, int], None] = lambda done, steps: None,
    device: str = "cpu",
) -> Maps:
    """Returns what was trained by `setup`, from the folder `out` if it is there.

    Args:
        setup: What is trained.
        data: Folder with the images; see ../papers/README.md.
        out: Folder where it is kept: a run that was stopped goes on where it stood, and its steps are paid for once.
        report: Called with the number of steps that are done, and of all.
        device: Where gradients at the gate are computed: "cpu" or "cuda".
    """
    place = out / setup.name

    def train() -> dict[str, Any]:
        out.mkdir(parents=True, exist_ok=True)
        with measured_seconds() as seconds:
            if math.isfinite(setup.epsilon):
                told = _through_the_gate(setup, data, place, report, device)
            else:
                told = _without_privacy(setup, data, place, report)
            images, labels = test_images(setup.dataset, data)
            hits = _read(setup, place, {}).predictions(images) == labels
        return {**told, "accuracy": float(hits.mean()), "seconds": seconds["wall"]}

    return _read(setup, place, kept(out / f"{setup.name}.json", train))


def training_table(dataset: str, data: Path) -> tuple[Any, Schema]:
    """Returns the training images as a table, and its schema."""
    loaded = _loaded(dataset, data)
    return loaded.train, loaded.schema


def training_images(dataset: str, data: Path) -> tuple[Pixels, npt.NDArray[np.int64]]:
    """Returns the training images in [0, 1], (images, pixels), and their labels, (images,)."""
    return _arrays(_loaded(dataset, data).train)


def test_images(dataset: str, data: Path) -> tuple[Pixels, npt.NDArray[np.int64]]:
    """Returns the test images in [0, 1], (images, pixels), and their labels, (images,)."""
    return _arrays(_loaded(dataset, data).test)


@cache
def _loaded(dataset: str, data: Path) -> Loaded:
    return load(dataset, data, seed=0)


def _through_the_gate(
    setup: Setup,
    data: Path,
    place: Path,
    report: Callable[[int, int], None],
    device: str,
) -> dict[str, Any]:
    loaded, method = _loaded(setup.dataset, data), setup.method
    gate = Gate(
        loaded.train,
        schema=loaded.schema,
        epsilon=setup.epsilon,
        delta=DELTA,
        records=RECORDS,
    )
    partial = _beside(place, ".partial")
    partial.mkdir(exist_ok=True)
    options: dict[str, Any] = {
        "folder": partial,
        "microbatch": _BLOCK,
        "device": device,
    }
    release = method.query(
        gate, report=lambda done: report(done, method.steps), **options
    )
    method.classifier(release).save(place)
    for left in partial.iterdir():
        left.unlink()
    partial.rmdir()
    return {"epsilon": release.certificate.check()}


def _without_privacy(
    setup: Setup, data: Path, place: Path, report: Callable[[int, int], None]
) -> dict[str, Any]:
    images, labels = training_images(setup.dataset, data)
    weights, bias = train_without_privacy(setup.method, images, labels, report)
    np.savez(_beside(place, ".npz"), weights=weights, bias=bias)
    return {"epsilon": None}


def _read(setup: Setup, place: Path, told: Mapping[str, Any]) -> Maps:
    temperature = setup.method.temperature
    if not math.isfinite(setup.epsilon):
        with np.load(_beside(place, ".npz")) as kept:
            return Maps(
                weights=kept["weights"],
                bias=kept["bias"],
                temperature=temperature,
                told=told,
            )
    return released_maps(LocallyLinear.load(place), told)


def _beside(place: Path, ending: str) -> Path:
    """Returns a place with something after its name, which may have dots in it: ε is a part of it."""
    return place.with_name(place.name + ending)


def _arrays(table: Any) -> tuple[Pixels, npt.NDArray[np.int64]]:
    rows = labelled_rows(table)
    pixels = rows.features.reshape(len(rows.labels), -1)
    return (pixels / np.float32(255)).astype(np.float32), rows.labels
