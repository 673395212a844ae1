"""One row of a table: DP-MEPF fitted to images through the gate, and what classifiers and distances say of its own."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from harness.results import write_json
from mepf_rates import rates
from rich.progress import Progress

from noisegate import Gate, Synthesizer
from noisegate.methods.registry import method_named
from noisegate.records import Images
from noisegate.schema import Schema, pixel_schema
from noisegate.sources.sources import open_source
from noisegate_evaluate import LabelledRows, images_of, read_classifiers, utility_scores
from noisegate_evaluate.images import ImageFeatures
from noisegate_evaluate.metrics.frechet import frechet_distance
from noisegate_images.output.formats import SampleGrid

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
    if model.exists():
        return Synthesizer.load(model)
    method = method_named(row.method)(**row.options())
    schema = row.schema()
    gate = Gate(
        train,
        schema=schema,
        epsilon=row.epsilon,
        delta=row.delta,
        adjacency=row.adjacency,
        records=records,
    )
    with Progress(transient=True) as progress:
        task = progress.add_task(
            f"{row.data}, epsilon {row.epsilon:g}, seed {row.seed}", total=None
        )

        def report(state: Any) -> None:
            progress.update(task, total=state.steps, completed=state.step)

        made: Synthesizer = method.fit(gate, device=device, report=report)  # type: ignore[arg-type]
    made.save(model)
    return made


def accuracies(
    row: Row, made: Synthesizer, test: Path, *, images: int, classifiers: str
) -> dict[str, float]:
    """Returns the accuracy of classifiers that saw `images` synthetic images alone, on real ones, each by its name."""
    train, schema = _drawn(row, made, images), row.schema()
    real = images_of(open_source(test, schema, show_values=False).batches(), schema)
    rows, others = _labelled(train), _labelled(real)
    found = {}
    for name in classifiers.split(","):
        with Progress(transient=True) as progress:
            progress.add_task(f"{name} on {images:,} synthetic images", total=None)
            report = utility_scores(
                read_classifiers(name),
                rows,
                others,
                classes=row.classes,
                seed=row.seed,
                jobs=1,
            )
        found[name] = report.mean.accuracy
    return found


def frechet(
    row: Row, made: Synthesizer, train: Path, *, images: int, features: ImageFeatures
) -> dict[str, float]:
    """Returns the Fréchet distance of synthetic images to all those in `train`, as the paper measures it."""
    schema = row.schema()
    parts = open_source(train, schema, show_values=False).batches()
    with Progress(transient=True) as progress:
        progress.add_task(f"features {features.name} of real images", total=None)
        real = np.concatenate(
            [features(images_of([part], schema).pixels) for part in parts]
        )
    distance = frechet_distance(features(_drawn(row, made, images).pixels), real)
    return {f"frechet distance, {features.name}": distance}


def _drawn(row: Row, made: Synthesizer, images: int) -> Images:
    batches = list(made.images(images, seed=row.seed))
    labels = (
        np.concatenate([np.asarray(each.labels, np.int32) for each in batches])
        if row.classes
        else None
    )
    return Images(np.concatenate([each.pixels for each in batches]), labels)


def _labelled(images: Images) -> LabelledRows:
    assert images.labels is not None
    return LabelledRows(
        features=images.pixels, labels=np.asarray(images.labels, np.int64)
    )


def draw(made: Synthesizer, out: Path, *, seed: int) -> None:
    """Writes a picture of synthetic images, a column for each label."""
    assert made.schema.images is not None
    out.unlink(missing_ok=True)
    grid = SampleGrid(form=made.schema.images, out=out)
    for batch in made.images(2000, seed=seed):
        grid.add(batch)
    grid.write()


class Book:
    """Rows on disk: one that is there is not made again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = (
            json.loads(path.read_text("utf-8")) if path.exists() else []
        )

    def row(
        self,
        asked: Row,
        extra: Mapping[str, Any],
        make: Callable[[], Mapping[str, Any]],
    ) -> dict[str, Any]:
        """Returns the row, made and written where it is not there yet."""
        key = json.loads(json.dumps(asdict(asked) | dict(extra)))
        known = next((row for row in self.rows if row["asked"] == key), None)
        if known is None:
            began = time.perf_counter(), time.process_time()
            found = dict(make())
            seconds = {
                "wall": time.perf_counter() - began[0],
                "cpu": time.process_time() - began[1],
            }
            known = {
                "asked": key,
                "reduced": asked.reduced,
                "seconds": seconds,
                **found,
            }
            self.rows.append(known)
            write_json(self.path, self.rows, indent=1)
        return known
