"""What is drawn from saved models, and what their certificates say."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

from .cases import FITS, fit_options, records_of
from .names import HERE, Certificate, Synthesizer, printed, program

MODELS = HERE / "models"
ROWS = 5
SEED = 7
WHERE: dict[str, dict[str, Any]] = {
    "pairwise": {"job": "teacher", "age": (20, 40)},
    "pairwise-labelled": {"answer": "yes"},
    "mst": {"stage": "II"},
    "privbayes": {"stage": "II"},
    "tab-pe": {"stage": "II"},
    "merf-table": {"answer": "yes"},
    "joint": {"label": "down"},
}
"""Fits of which records with these values are drawn too."""


def cases() -> Iterator[str]:
    """Yields the fits."""
    return iter(FITS)


def write(fit: str) -> None:
    """Fits a model, once, and keeps it."""
    if not (MODELS / fit).exists():
        MODELS.mkdir(exist_ok=True)
        code, out, err = program("fit", *fit_options(fit), "--out", MODELS / fit)
        assert code == 0, out + err


def drawn(fit: str) -> dict[str, Any]:
    """Returns what a saved model draws; of a classifier, what it says of records."""
    if FITS[fit][0] in ("dp-llm", "dp-sgd"):
        return _predicted(fit)
    synthesizer = Synthesizer.load(MODELS / fit)
    if synthesizer.schema.images is not None:
        batch = next(iter(synthesizer.images(ROWS, seed=SEED)))
        labels = {} if batch.labels is None else {"labels": list(batch.labels)}
        found: dict[str, Any] = {"pixels": batch.pixels.tolist(), **labels}
    else:
        found = {"sample": columns(synthesizer.sample(ROWS, seed=SEED))}
    if fit in WHERE:
        found["where"] = columns(synthesizer.sample(ROWS, seed=SEED, where=WHERE[fit]))
    return found


def _predicted(fit: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "predicted.csv"
        code, _, err = program("predict", MODELS / fit, records_of(fit), "--out", out)
        assert code == 0, err
        predicted: dict[str, Any] = {"predicted": columns(csv.read_csv(out))}
        if FITS[fit][0] == "dp-llm":
            predicted["explained"] = printed("explain", MODELS / fit) | {"model": fit}
        return predicted


def columns(table: pa.Table) -> dict[str, list[Any]]:
    """Returns a table as JSON values, by column: dates as days, moments as seconds since 1970."""
    return {
        name: [_cell(cell) for cell in table.column(name).to_pylist()]
        for name in table.column_names
    }


def _cell(cell: Any) -> Any:
    if isinstance(cell, datetime):
        return cell.replace(tzinfo=UTC).timestamp()
    return (cell - date(1970, 1, 1)).days if isinstance(cell, date) else cell


def certified(fit: str) -> dict[str, Any]:
    """Returns what `noisegate verify` says of a saved model, and the digest of its certificate."""
    verified = printed("verify", MODELS / fit)
    held = json.loads((MODELS / fit / "certificate.json").read_text())
    assert verified["ok"]
    assert verified["certificate"] == held
    return {
        "digest": Certificate.from_json(held).digest(),
        "recomputed_epsilon": verified["recomputed_epsilon"],
    }
