"""Methods for images: fit them, draw from them, and score what they draw."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.progress import Progress

from noisegate import Gate, Synthesizer
from noisegate_evaluate import LabelledRows, read_classifiers, utility_scores
from noisegate_images.output.formats import SampleGrid


def fit_with_progress(method: Any, gate: Gate, text: str, *, device: str) -> Any:
    """Fits a method at a gate, with a bar of its steps."""
    with Progress(transient=True) as progress:
        task = progress.add_task(text, total=None)

        def report(state: Any) -> None:
            # Methods on disjoint shards report the number of steps alone.
            step = state if isinstance(state, int) else state.step
            total = None if isinstance(state, int) else state.steps
            progress.update(task, total=total, completed=step)

        return method.fit(gate, device=device, report=report)


def fitted_once(
    model_folder: Path, method: Any, gate: Gate, *, device: str
) -> Synthesizer:
    """Returns the model in a folder, which is fitted and saved first where it is not there."""
    if not model_folder.exists():
        model_folder.parent.mkdir(parents=True, exist_ok=True)
        fitted = fit_with_progress(method, gate, model_folder.name, device=device)
        fitted.save(model_folder)
    return Synthesizer.load(model_folder)


def synthetic_rows(model: Any, n_images: int, *, seed: int) -> LabelledRows:
    """Draws images with their labels, whole numbers from 0 to 255."""
    batches = list(model.images(n_images, seed=seed))
    labels = np.concatenate([np.asarray(batch.labels) for batch in batches])
    return LabelledRows(
        features=np.concatenate([batch.pixels for batch in batches]),
        labels=labels.astype(np.int64),
    )


def labelled_rows(table: pa.Table) -> LabelledRows:
    """Returns a table of a column for each pixel and the label last as images, (images, side, side, channels)."""
    pixels = np.stack([column.to_numpy() for column in table.columns[:-1]], axis=1)
    is_grey = math.isqrt(pixels.shape[1]) ** 2 == pixels.shape[1]
    channels = 1 if is_grey else 3
    side = math.isqrt(pixels.shape[1] // channels)
    return LabelledRows(
        features=pixels.astype(np.uint8).reshape(-1, side, side, channels),
        labels=table.column(table.num_columns - 1).to_numpy().astype(np.int64),
    )


def accuracies(
    classifiers: Iterable[str],
    train: LabelledRows,
    test: LabelledRows,
    *,
    seed: int,
    classes: int = 10,
) -> dict[str, float]:
    """Trains classifiers on synthetic images alone; returns the accuracy of each on real ones."""
    scores = {}
    for name in classifiers:
        with Progress(transient=True) as progress:
            progress.add_task(f"{name}, seed {seed}", total=None)
            report = utility_scores(
                read_classifiers(name), train, test, classes=classes, seed=seed, jobs=1
            )
        scores[name] = report.mean.accuracy
    return scores


def draw_grid(model: Any, path: Path, *, seed: int, n_images: int = 4000) -> None:
    """Writes a picture of synthetic images, a column for each label."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    grid = SampleGrid(form=model.schema.images, out=path)
    for batch in model.images(n_images, seed=seed):
        grid.add(batch)
    grid.write()
