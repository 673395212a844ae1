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
import statistics
import sys
import tomllib
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from harness.images import (
    accuracies,
    draw_grid,
    fit_with_progress,
    labelled_rows,
    synthetic_rows,
)
from harness.measuring import measured_seconds
from harness.options import ADJACENCY, choice, needed, optional, read_options
from harness.printing import print_table, run_main
from harness.results import Row
from harness.results import Rows as RowFile
from papers.catalogue import IMAGES, load, published
from papers.published import Loaded

from noisegate import Gate, Schema
from noisegate.methods.registry import make_for
from noisegate.records import Rows
from noisegate.sources.frames import read_table
from noisegate.sources.tables.tables import TableSource
from noisegate_evaluate import evaluate_tables
from noisegate_evaluate.utility.recipe import score
from noisegate_papers.models.locally_linear import LocallyLinear
from noisegate_papers.models.released_classifier import NetworkClassifier

HERE = Path(__file__).parent
TABLES = ("adult",)
MADE, ROUNDED = 32_561, 32_500
"""Records that are made of Adult, and as many as the public knows of, which methods that train step by step need."""
ASKED = ("method", "data_set", "settings", "adjacency", "records", "made")
"""Options that tell one row from another, with epsilon and seed."""


def main() -> None:
    """Makes the rows that are asked for and prints them beside the published ones."""
    options = read_options(
        __doc__,
        method=needed(str, "any registered method"),
        data=needed(Path),
        data_set=choice([*IMAGES, *TABLES]),
        settings={},
        epsilon=[1.0, 10.0],
        adjacency=ADJACENCY,
        seeds=1,
        first_seed=0,
        records=optional(int, "the first so many training records; reduced"),
        made=optional(int, "synthetic records; fewer than are private: reduced"),
        classifiers="cnn,mlp,logistic",
        grid=optional(Path, "folder for a picture of ten images of each class"),
        device="cpu",
        json=optional(Path, "file of rows; what is in it is not made again"),
    )
    file = RowFile(options.json)
    loaded = _load(options.data_set, options.data, options.records)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for epsilon, seed in product(options.epsilon, seeds):
        key = {name: getattr(options, name) for name in ASKED}
        key |= {"epsilon": epsilon, "seed": seed}
        file.make(key, partial(_figures, options, loaded, epsilon, seed))
    same = {"method": options.method, "data_set": options.data_set}
    _print(same, [row for row in file.rows if same.items() <= row.items()])


def _load(name: str, folder: Path, records: int | None) -> Loaded:
    """Returns private records, the first `records` of them, test records and schema."""
    if name in IMAGES:
        loaded = load(name, folder)
    else:
        schema = Schema.from_toml(HERE.parent / "adult" / "schema.toml")
        train = read_table(folder / "train.csv", schema)
        test = read_table(folder / "test.csv", schema)
        loaded = Loaded(train, test, schema)
    if records is None:
        return loaded
    return loaded._replace(train=loaded.train.slice(0, records))


def _public(name: str, of_table: int) -> int:
    return published(name).train_records if name in IMAGES else of_table


def _figures(
    options: argparse.Namespace, loaded: Loaded, epsilon: float, seed: int
) -> Row:
    """Returns the figures of one run."""
    records = options.records or _public(options.data_set, ROUNDED)
    if options.adjacency == "replace-one":
        records = len(loaded.train)
    gate = Gate(
        loaded.train,
        schema=loaded.schema,
        epsilon=epsilon,
        adjacency=options.adjacency,
        records=records,
    )
    method = make_for(options.method, loaded.schema, {**options.settings, "seed": seed})
    text = f"{options.method}, epsilon {epsilon:g}, seed {seed}"
    with measured_seconds() as seconds:
        model = fit_with_progress(method, gate, text, device=options.device)
    if options.grid is not None and options.data_set in IMAGES:
        name = f"{options.method}-{options.data_set}-{epsilon:g}-{seed}.png"
        draw_grid(model, options.grid / name, seed=seed)
    is_reduced = options.records is not None or options.made is not None
    return {
        "certified_epsilon": model.certificate.check(),
        "delta": model.certificate.delta,
        "seconds": {name: round(value) for name, value in seconds.items()},
        "steps": _steps(method),
        **_scores(options, model, loaded, seed),
        "reduced": is_reduced or bool(options.settings),
    }


def _steps(method: Any) -> int | None:
    """Returns the steps of the training, or at most of the fit, or the rounds; None where there are none."""
    for owner, name in (
        (method, "steps"),
        (method.fit_settings(), "steps"),
        (method, "rounds"),
    ):
        if count := getattr(owner, name, None):
            return int(count)
    return None


def _scores(
    options: argparse.Namespace, model: Any, loaded: Loaded, seed: int
) -> dict[str, float]:
    """Returns the scores of classifiers that saw synthetic records only, and of a table its distances."""
    if isinstance(model, NetworkClassifier | LocallyLinear):
        return _classified(model, loaded)
    n_made = options.made or _public(options.data_set, MADE)
    if options.data_set in IMAGES:
        return accuracies(
            options.classifiers.split(","),
            synthetic_rows(model, n_made, seed=seed),
            labelled_rows(loaded.test),
            seed=seed,
        )
    synthetic = model.sample(n_made, seed=seed)
    report = evaluate_tables(synthetic, loaded.test, loaded.schema, train=loaded.train)
    assert report.downstream is not None
    scores = report.downstream.mean
    return {
        "roc_auc": scores.roc_auc,
        "average_precision": scores.average_precision,
        "f1": scores.f1,
        "distance_1": report.marginals.order(1).mean,
        "distance_2": report.marginals.order(2).mean,
    }


def _classified(
    classifier: NetworkClassifier | LocallyLinear, loaded: Loaded
) -> dict[str, float]:
    """Returns how well a classifier, which makes no record, does on real test records; its own accuracy is `own`."""
    label = loaded.schema.layout.label
    assert label is not None
    labels = []
    probabilities = []
    for rows in TableSource(loaded.test, loaded.schema).batches():
        unlabelled = Rows(rows.numeric, np.delete(rows.codes, label, axis=1))
        labels.append(rows.codes[:, label])
        probabilities.append(classifier.probabilities(unlabelled))
    scores = score(np.concatenate(labels), np.concatenate(probabilities)).to_json()
    own = {"own": scores.pop("accuracy")}
    return {**own, **scores} if probabilities[0].shape[1] == 2 else own


def _print(same: Row, rows: list[Row]) -> None:
    """Prints our rows and, below, what papers print for the method and the data set."""
    described = {"certified_epsilon", "delta", "seconds", "steps", "reduced"}
    described |= {*ASKED, "epsilon", "seed"}
    scores = list(
        dict.fromkeys(name for row in rows for name in row if name not in described)
    )
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        key = row["epsilon"], json.dumps(row["settings"]), row["records"], row["made"]
        groups.setdefault(key, []).append(row)
    lines = []
    for (epsilon, *_), group in groups.items():
        values = [[row[name] for row in group if name in row] for name in scores]
        means = [f"{statistics.fmean(each):.4f}" if each else "" for each in values]
        cpu = statistics.fmean(row["seconds"]["cpu"] for row in group)
        protocol = "reduced" if group[0]["reduced"] else "full"
        lines.append([f"{epsilon:g}", len(group), *means, f"{cpu:.0f}", protocol])
    headings = [name.replace("_", " ") for name in scores]
    print_table(
        f"{same['method']} on {same['data_set']}",
        ["epsilon", "seeds", *headings, "cpu s", "protocol"],
        lines,
        n_left=0,
    )
    for row in tomllib.loads((HERE / "published.toml").read_text("utf-8"))["row"]:
        if same.items() <= row.items():
            figures = ", ".join(
                f"{name} {value:g}" for name, value in row["figures"].items()
            )
            print(
                f"published at epsilon {row['epsilon']:g}: {figures} ({row['source']})"
            )


if __name__ == "__main__":
    run_main(main)
