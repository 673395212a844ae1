"""A ConvNet that DP-SGD trains on the records themselves: what the budget buys where no set is to be handed out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from psg.sets import IMAGE, Bench

from noisegate.records import Rows
from noisegate.schema import Schema
from noisegate.sources.tables.tables import TableSource
from noisegate_papers.methods.dp_sgd import DPSGD
from noisegate_papers.models.released_classifier import (
    ReleasedClassifier,
    load_classifier,
)

SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {"width": 128, "steps": 2400, "sampling_probability": 512 / 60_000},
    "laptop": {"width": 32, "steps": 300, "sampling_probability": 512 / 60_000},
}
"""The paper gives no settings of its DP-SGD. Learning rate and momentum are the method's own, and not tuned yet."""


def descent_of(
    schedule: str, *, records: int, steps: int | None, width: int | None, seed: int
) -> DPSGD:
    """Returns DP-SGD on about 512 images a step; `records` as far as the public knows."""
    settings = SETTINGS[schedule] | {
        "sampling_probability": 512 / records,
        "centre": 0.0,
        "image": IMAGE,
        "seed": seed,
    }
    given = {
        name: value
        for name, value in {"steps": steps, "width": width}.items()
        if value is not None
    }
    return DPSGD(**settings | given)


def model_folder(bench: Bench, method: DPSGD, epsilon: float, name: str) -> Path:
    """Returns where a classifier is kept."""
    return (
        bench.out
        / f"{bench.data_set}-{name}-{epsilon:g}-{method.width}-{method.steps}-{method.seed}"
        / "model"
    )


def classifier_of(
    bench: Bench,
    method: DPSGD,
    epsilon: float,
    *,
    name: str,
    records: pa.Table | None = None,
    schema: Schema | None = None,
) -> ReleasedClassifier:
    """Returns the classifier that is kept under a name in --out, or trains it; a stopped training goes on."""
    folder = model_folder(bench, method, epsilon, name).parent
    if (folder / "model").exists():
        return load_classifier(folder / "model")
    of = records or bench.loaded.train, schema or bench.loaded.schema
    found = method.classifier(bench.asked(method, epsilon, folder, of))
    found.save(folder / "model")
    return found


def right(
    classifier: ReleasedClassifier, table: pa.Table, schema: Schema
) -> npt.NDArray[np.bool_]:
    """Returns which labels of a table are predicted right, (rows,)."""
    place, found = schema.layout.label, []
    assert place is not None
    for rows in TableSource(table, schema).batches():
        unlabelled = Rows(rows.numeric, np.delete(rows.codes, place, axis=1))
        found.append(classifier.predictions(unlabelled) == rows.codes[:, place])
    return np.concatenate(found)
