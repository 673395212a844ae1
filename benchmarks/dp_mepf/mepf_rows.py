"""One row of a table: DP-MEPF fitted to images through the gate, and what classifiers and distances say of its own."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from harness.images import accuracies, fitted_once, synthetic_rows
from harness.measuring import measured_seconds
from harness.options import choice, option, optional
from harness.results import Rows
from mepf_rates import rates

from noisegate import Gate, Synthesizer
from noisegate.methods.registry import method_named
from noisegate.schema import Schema, pixel_schema
from noisegate.sources.sources import open_source
from noisegate_evaluate import LabelledRows, images_of, named_features
from noisegate_evaluate.metrics.frechet import frechet_distance

STOPPING: dict[str, dict[str, Any]] = {
    "none": {"stopping": "none"},
    "private": {"stopping": "private"},
    "inception": {"stopping": "private", "stopping_network": "inception:v3"},
}
"""Settings of early stopping: off, by channels of the encoder, or by Inception's last pooling layer as in the paper."""
SMALL: dict[str, Any] = {
    "preset": "default",
    **{"generator": "sub-pixel", "channels": (32, 16), "hidden": ()},
    "fit_options": {
        "steps": 1600,
        "batch": 100,
        "learning_rate": 1e-2,
        "ema_decay": 0.995,
        "check_batches": 8,
    },
}
"""For a processor: the package's encoder, the squared distance, a small generator, 1,600 steps."""


MOST_IMAGES = 5000
"""Synthetic images that a distance is measured of."""

NETWORK = {
    "preset": choice(
        ["paper", "small"], text="small: 1,600 steps of a small generator"
    ),
    "network": optional(str, '"encoder", "torchvision:NAME"; the preset\'s'),
    "weights": optional(str, "file of its weights"),
    "sha256": optional(str, "digest of that file"),
}
MEASURING = {
    "json": optional(Path, "file of rows; --out/rows.json where none is given"),
    "steps": optional(int),
    "images": option(60_000, "synthetic images; 5,000 of them for distances"),
    "features_weights": optional(Path, "file of Inception's weights"),
    "device": "auto",
}
"""Options of the commands of this folder: what is matched, and how it is measured."""


def network_of(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the settings of the network that are given."""
    names = ("network", "weights", "sha256")
    given = {name: getattr(options, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def preset_of(name: str, channels: int) -> str:
    """Returns the preset of the method: the paper has another one for grey images."""
    return "paper-grey" if (name, channels) == ("paper", 1) else name


@dataclass(frozen=True, kw_only=True)
class Row:
    """What tells one row from another.

    Attributes:
        data: Name of the set, whose learning rates are taken; see `mepf_rates.RATES`.
        shape: Height, width and channels.
        classes: How many labels there are; 0 for images alone.
        epsilon: Of the guarantee, with δ.
        moments: 1 for φ₁, 2 for φ₁ and φ₂.
        preset: "paper", "paper-grey" or "small", which is `SMALL`.
        stopping: One of `STOPPING`.
        steps: Of a reduced schedule; None for that of the preset.
        settings: Further settings of the method.
        method: "dp-mepf", or "dp-mepf-trained" with an encoder of its own.
    """

    data: str
    shape: tuple[int, int, int]
    classes: int
    epsilon: float
    moments: int
    preset: str
    stopping: str = "none"
    steps: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    method: str = "dp-mepf"
    adjacency: str = "add-remove"
    delta: float = 1e-5
    seed: int = 0

    @property
    def reduced(self) -> bool:
        """Whether it is another schedule than the paper's."""
        return self.preset == "small" or self.steps is not None

    def schema(self) -> Schema:
        """Returns the schema of the images."""
        height, width, channels = self.shape
        return pixel_schema(
            height,
            width,
            channels,
            labels=range(self.classes) if self.classes else None,
        )

    def options(self) -> dict[str, Any]:
        """Returns the settings of the method: preset, learning rates of Table 7, stopping."""
        if self.preset == "small":
            given = {**SMALL, "fit_options": dict(SMALL["fit_options"])}
        else:
            name = (
                self.data
                if self.classes or not self.data.startswith("cifar10")
                else "cifar10-unlabelled"
            )
            of = rates(name, self.moments, self.epsilon)
            given = {
                "preset": self.preset,
                "fit_options": {
                    "learning_rate": of.generator,
                    "average_rate": of.average,
                },
            }
        if self.steps is not None:
            given["fit_options"] |= {
                "steps": self.steps,
                "check_every": max(self.steps // 4, 1),
            }
            if (
                self.preset != "small"
            ):  # fewer steps need larger ones; not chosen by any score
                given["fit_options"] |= {
                    "learning_rate": 2e-3,
                    "average_rate": 1e-3,
                    "check_images": 1000,
                }
        common = {"image": self.shape, "seed": self.seed, "moments": self.moments}
        return {**given, **common, **STOPPING[self.stopping], **self.settings}


def fitted(
    row: Row, train: Path, model: Path, *, device: str, records: int | None = None
) -> Synthesizer:
    """Returns the model in a folder, fitted and saved where it is not there yet."""
    gate = Gate(
        train,
        schema=row.schema(),
        epsilon=row.epsilon,
        delta=row.delta,
        adjacency=row.adjacency,
        records=records,
    )
    method = method_named(row.method)(**row.options())
    return fitted_once(model, method, gate, device=device)


def measured(
    options: argparse.Namespace, row: Row, model: Synthesizer, train: Path
) -> dict[str, float]:
    """Returns the Fréchet distance to all those in `train`, in the features of --features, as the paper measures it."""
    features = named_features(options.features, options.features_weights)
    schema = row.schema()
    parts = open_source(train, schema, show_values=False).batches()
    real = np.concatenate(
        [features(images_of([part], schema).pixels) for part in parts]
    )
    n_images = min(options.images, MOST_IMAGES)
    batches = model.images(n_images, seed=row.seed)
    synthetic = np.concatenate([batch.pixels for batch in batches])
    distance = frechet_distance(features(synthetic), real)
    return {f"frechet distance, {features.name}": distance}


def scored(
    row: Row, model: Synthesizer, test: Path, *, images: int, classifiers: str
) -> dict[str, float]:
    """Returns the accuracy of classifiers that saw `images` synthetic images alone, on real ones, each by its name."""
    schema = row.schema()
    real = images_of(open_source(test, schema, show_values=False).batches(), schema)
    return accuracies(
        classifiers.split(","),
        synthetic_rows(model, images, seed=row.seed),
        LabelledRows(features=real.pixels, labels=np.asarray(real.labels, np.int64)),
        seed=row.seed,
        classes=row.classes,
    )


def row_of(
    book: Rows, asked: Row, extra: Mapping[str, Any], make: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Returns the row of a fit and of what else tells it from others, made and written where it is not there yet."""
    key = {"asked": json.loads(json.dumps(asdict(asked) | dict(extra)))}
    known = book.find(key)
    if known is not None:
        return known
    with measured_seconds() as seconds:
        figures = make()
    return book.add({**key, "reduced": asked.reduced, "seconds": seconds, **figures})
