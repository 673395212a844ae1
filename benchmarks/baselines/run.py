"""One row of a baseline: any method, on images of the papers or Adult, beside what its paper prints.

    python benchmarks/baselines/run.py --method datalens --data DIR [--data-set mnist] [--epsilon 1 10] [--json FILE]

Fits the method to the training records through the gate, draws synthetic ones, trains classifiers on these alone and
scores them on the published test records; a classifier is scored itself. With --json a row that is in the file already
is not made again: stop and start as you like. --records, --settings and --made make a reduced run, which the row says.
Scores are computed on real data, outside the guarantee. rows.json has what was run, and page.py prints it.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
from harness.options import choice, needed, optional, read_options
from harness.printing import run_main
from harness.results import write_json
from papers.catalogue import IMAGES, load, published
from papers.published import Loaded
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from noisegate import Gate, Schema
from noisegate.atomic import new_file
from noisegate.methods.registry import make_for
from noisegate.records import Rows
from noisegate.sources.frames import read_table
from noisegate.sources.tables.tables import TableSource
from noisegate_evaluate import (
    LabelledRows,
    evaluate_tables,
    read_classifiers,
    utility_scores,
)
from noisegate_evaluate.utility.recipe import score
from noisegate_papers.models.locally_linear import LocallyLinear
from noisegate_papers.models.released_classifier import NetworkClassifier

HERE = Path(__file__).parent
TABLES = ("adult",)
MADE, ROUNDED = 32_561, 32_500
"""Records that are made of Adult, and as many as the public knows of, which methods that train step by step need."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the rows that are asked for and prints them beside the published ones; 2 when it cannot run."""
    options, console = (
        read_options(
            __doc__,
            arguments,
            method=needed(str),
            data=needed(Path),
            data_set=choice([*IMAGES, *TABLES], "mnist"),
            settings={},
            epsilon=[1.0, 10.0],
            adjacency=choice(["replace-one", "add-remove"], "add-remove"),
            seeds=1,
            first_seed=0,
            records=optional(int, "the first so many training records; reduced"),
            made=optional(int, "synthetic records; fewer than are private: reduced"),
            classifiers="cnn,mlp,logistic",
            grid=optional(Path, "folder for a picture of ten images of each class"),
            device="cpu",
            json=optional(Path),
        ),
        Console(),
    )
    rows: list[dict[str, Any]] = (
        json.loads(options.json.read_text("utf-8")) if _there(options.json) else []
    )
    loaded = _load(options.data_set, options.data, options.records)
    for epsilon in options.epsilon:
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            asked = _asked(options, epsilon, seed)
            if not any(
                all(row.get(name) == value for name, value in asked.items())
                for row in rows
            ):
                rows.append(asked | _row(options, loaded, epsilon, seed))
                if options.json:
                    with new_file(options.json, "--json", force=True) as file:
                        write_json(file, rows, indent=1)
    _print(console, options, rows)
    return 0


def _there(path: Path | None) -> bool:
    return path is not None and path.exists()


def _load(name: str, folder: Path, records: int | None) -> Loaded:
    """Returns private records, the first `records` of them, test records and schema."""
    if name in IMAGES:
        loaded = load(name, folder)
    else:
        schema = Schema.from_toml(HERE.parent / "adult" / "schema.toml")
        loaded = Loaded(
            *(read_table(folder / f"{part}.csv", schema) for part in ("train", "test")),
            schema,
        )
    return (
        loaded
        if records is None
        else loaded._replace(train=loaded.train.slice(0, records))
    )


def _public(name: str, of_table: int) -> int:
    return published(name).train_records if name in IMAGES else of_table


def _asked(options: argparse.Namespace, epsilon: float, seed: int) -> dict[str, Any]:
    """Returns what tells one row from another."""
    names = ("method", "data_set", "settings", "adjacency", "records", "made")
    return {name: getattr(options, name) for name in names} | {
        "epsilon": epsilon,
        "seed": seed,
    }


def _row(
    options: argparse.Namespace, loaded: Loaded, epsilon: float, seed: int
) -> dict[str, Any]:
    """Returns the figures of one run."""
    began = time.perf_counter(), time.process_time()
    exact = len(loaded.train) if options.adjacency == "replace-one" else None
    records = exact or options.records or _public(options.data_set, ROUNDED)
    gate = Gate(
        loaded.train,
        schema=loaded.schema,
        epsilon=epsilon,
        adjacency=options.adjacency,
        records=records,
    )
    method = make_for(options.method, loaded.schema, {**options.settings, "seed": seed})
    with Progress(transient=True) as progress:
        task = progress.add_task(
            f"{options.method}, epsilon {epsilon:g}, seed {seed}", total=None
        )

        def report(state: Any) -> None:
            done, steps = (
                (state, None) if isinstance(state, int) else (state.step, state.steps)
            )
            progress.update(task, total=steps, completed=done)

        model = method.fit(gate, device=options.device, report=report)
    seconds = {
        "wall": time.perf_counter() - began[0],
        "cpu": time.process_time() - began[1],
    }
    certified = {
        "certified_epsilon": model.certificate.check(),
        "delta": model.certificate.delta,
    }
    if options.grid is not None and options.data_set in IMAGES:
        _draw(
            model,
            options.grid
            / f"{options.method}-{options.data_set}-{epsilon:g}-{seed}.png",
            seed,
        )
    made = options.made or _public(options.data_set, MADE)
    scores = _scores(options, model, loaded, made, seed)
    reduced = (
        options.records is not None
        or options.made is not None
        or bool(options.settings)
    )
    told = {
        "seconds": {name: round(value) for name, value in seconds.items()},
        "steps": _steps(method),
    }
    return {**certified, **told, **scores, "reduced": reduced}


def _steps(method: Any) -> int | None:
    """Returns the steps of the training, or at most of the fit, or the rounds; None where there are none."""
    of = ((method, "steps"), (method.fit_settings(), "steps"), (method, "rounds"))
    return next(
        (found for where, name in of if (found := getattr(where, name, None))), None
    )


def _scores(
    options: argparse.Namespace, model: Any, loaded: Loaded, made: int, seed: int
) -> dict[str, float]:
    """Returns the scores of classifiers that saw synthetic records only, and of a table its distances."""
    if isinstance(model, NetworkClassifier | LocallyLinear):
        return _classified(model, loaded)
    if options.data_set in IMAGES:
        batches = list(model.images(made, seed=seed))
        pixels = np.concatenate([batch.pixels for batch in batches])
        labels = np.concatenate([np.asarray(batch.labels) for batch in batches]).astype(
            np.int64
        )
        train = LabelledRows(features=pixels, labels=labels)
        told = {}
        for name in options.classifiers.split(","):
            report = utility_scores(
                read_classifiers(name),
                train,
                _rows(loaded.test),
                classes=10,
                seed=seed,
                jobs=1,
            )
            told[name] = report.mean.accuracy
        return told
    report = evaluate_tables(
        model.sample(made, seed=seed), loaded.test, loaded.schema, train=loaded.train
    )
    assert report.downstream is not None
    mean = report.downstream.mean
    scores = {
        "roc_auc": mean.roc_auc,
        "average_precision": mean.average_precision,
        "f1": mean.f1,
    }
    return scores | {
        f"distance_{order}": report.marginals.order(order).mean for order in (1, 2)
    }


def _classified(
    classifier: NetworkClassifier | LocallyLinear, loaded: Loaded
) -> dict[str, float]:
    """Returns how well a classifier, which makes no record, does on real test records; its own accuracy is `own`."""
    label, several = (
        loaded.schema.layout.label,
        list(TableSource(loaded.test, loaded.schema).batches()),
    )
    assert label is not None
    parts = [
        classifier.probabilities(
            Rows(rows.numeric, np.delete(rows.codes, label, axis=1))
        )
        for rows in several
    ]
    found = score(
        np.concatenate([rows.codes[:, label] for rows in several]),
        np.concatenate(parts),
    ).to_json()
    return {"own": found.pop("accuracy"), **(found if len(parts[0][0]) == 2 else {})}


def _rows(table: pa.Table) -> LabelledRows:
    """Returns a table of pixels as images and labels."""
    pixels = np.stack([column.to_numpy() for column in table.columns[:-1]], axis=1)
    labels = table.column(table.num_columns - 1).to_numpy().astype(np.int64)
    channels = 1 if math.isqrt(pixels.shape[1]) ** 2 == pixels.shape[1] else 3
    side = math.isqrt(pixels.shape[1] // channels)
    return LabelledRows(
        features=pixels.astype(np.uint8).reshape(-1, side, side, channels),
        labels=labels,
    )


def _draw(model: Any, out: Path, seed: int) -> None:
    """Writes ten images of each class."""
    from noisegate_images.output.formats import SampleGrid

    out.parent.mkdir(parents=True, exist_ok=True)
    out.unlink(missing_ok=True)
    grid = SampleGrid(form=model.schema.images, out=out)
    for batch in model.images(4000, seed=seed):
        grid.add(batch)
    grid.write()


def _print(
    console: Console, options: argparse.Namespace, rows: list[dict[str, Any]]
) -> None:
    """Prints our rows and, below, what papers print for the method and the data set."""
    ours = [
        row
        for row in rows
        if (row["method"], row["data_set"]) == (options.method, options.data_set)
    ]
    fixed = {
        *_asked(options, 1.0, 0),
        "certified_epsilon",
        "delta",
        "seconds",
        "steps",
        "reduced",
    }
    scores = list(
        dict.fromkeys(name for row in ours for name in row if name not in fixed)
    )
    page = Table(title=f"{options.method} on {options.data_set}", title_justify="left")
    for heading in ("epsilon", "seeds", *scores, "cpu s", "protocol"):
        page.add_column(heading.replace("_", " "), justify="right")
    for epsilon, settings, records, made in dict.fromkeys(
        (row["epsilon"], json.dumps(row["settings"]), row["records"], row["made"])
        for row in ours
    ):
        key = {
            "epsilon": epsilon,
            "settings": json.loads(settings),
            "records": records,
            "made": made,
        }
        same = [
            row
            for row in ours
            if all(row[name] == value for name, value in key.items())
        ]
        found = ([row[name] for row in same if name in row] for name in scores)
        means = [
            f"{statistics.fmean(values):.4f}" if values else "" for values in found
        ]
        cpu = statistics.fmean(row["seconds"]["cpu"] for row in same)
        protocol = "reduced" if same[0]["reduced"] else "full"
        page.add_row(f"{epsilon:g}", str(len(same)), *means, f"{cpu:.0f}", protocol)
    console.print(page)
    for row in tomllib.loads((HERE / "published.toml").read_text("utf-8"))["row"]:
        if (row["method"], row["data_set"]) == (options.method, options.data_set):
            figures = ", ".join(
                f"{name} {value:g}" for name, value in row["figures"].items()
            )
            console.print(
                f"published at epsilon {row['epsilon']:g}: {figures} ({row['source']})"
            )


if __name__ == "__main__":
    run_main(main)
