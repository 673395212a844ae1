"""What the commands of this folder share: a private set, made once and kept, and the scores of networks trained on it.

A set lies in a folder of --out that is named after what it was made with; a training that was stopped goes on where it
stood, and its steps are paid for once. Scores lie beside it, one file a network and protocol.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from harness.results import write_json
from papers.catalogue import load
from papers.published import Loaded
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from noisegate import Gate, PrivateSetGeneration, Release, UserError
from noisegate.atomic import new_file
from noisegate.devices import choose_device
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape
from noisegate_evaluate import (
    LabelledRows,
    NetworkOptions,
    Training,
    networks,
    utility_scores,
)
from noisegate_papers.methods.classifiers import DPSGD

HERE = Path(__file__).parent
SHAPE = ImageShape(height=28, width=28)
IMAGE = SHAPE.height, SHAPE.width, SHAPE.channels
# What the documentation of both data sets says about their training images: public, and round as it happens.
RECORDS = 60_000
DELTA = 1e-5
DATA_SETS = ("mnist", "fashion-mnist")
Records: TypeAlias = tuple[pa.Table, Schema]

PAPER: Mapping[str, Any] = {
    "samples_per_class": 10,
    "width": 128,
    "depth": 3,
    "steps": 100_000,
    "sampling_probability": 256 / 60_000,
    "clip_norm": 0.1,
    "batches": 10,
    "outer": 10,
    "epochs": 50,
    "network_learning_rate": 0.01,
    "learning_rate": 0.038,
    "momentum": 0.5,
    "init_std": 0.62,
    "centre": 0.13,
}
"""The authors' settings for ten images of each digit at ε = 10, in our units; 20,000 steps at ε = 1.

They standardise with 0.1307 and 0.3081, our inputs are 2(x − centre): lengths are 0.62 of theirs, learning rates 0.62².
"""


def page_of_figures() -> dict[str, Any]:
    """Returns schedules and published figures."""
    return tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))


def method_of(
    schedule: str,
    *,
    samples_per_class: int,
    epsilon: float,
    seed: int = 0,
    **given: Any,
) -> PrivateSetGeneration:
    """Returns PSG by a schedule of expected.toml; what is given and not None goes before it."""
    settings = dict(page_of_figures()["schedule"][schedule])
    outer, epochs, runs = (
        settings.pop(name, {})
        for name in ("outer_by_samples", "epochs_by_samples", "runs_by_epsilon")
    )
    prior = settings.pop("with_prior", {})
    if outer:
        each = str(samples_per_class)
        settings["outer"], settings["epochs"] = (
            outer.get(each, 10),
            epochs.get(each, 10),
        )
    settings |= prior if given.get("prior") else {}
    if runs:
        # The authors have figures for two budgets; between them, and beside, the nearer one's rounds are taken.
        nearest = min(
            runs, key=lambda known: abs(np.log(float(known)) - np.log(epsilon))
        )
        settings["steps"] = runs[nearest] * settings["outer"] * PAPER["batches"]
    chosen = {name: value for name, value in given.items() if value is not None}
    return PrivateSetGeneration(
        samples_per_class=samples_per_class, image=IMAGE, seed=seed, **settings | chosen
    )


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where sets are made, kept and scored; a set is of `records` images as far as the public knows."""

    data_set: str
    data: Path
    out: Path
    device: str = "auto"
    repeats: int = 3
    augment: bool = False
    epochs: int | None = None
    records: int = RECORDS

    @property
    def loaded(self) -> Loaded:
        """Training images, test images and schema."""
        return _loaded(self.data_set, self.data)

    @property
    def protocol(self) -> str:
        """How networks are trained on a set, in words."""
        training = Training(augment=self.augment, epochs=self.epochs)
        changed = "altered" if self.augment else "unaltered"
        return f"{self.repeats} networks each, {training.passes} epochs on {changed} images, scored after the last"

    def folder(
        self, method: PrivateSetGeneration, epsilon: float, part: str = ""
    ) -> Path:
        """Returns where the set of a method is kept; `part` says of which records it is, if not of all."""
        asked = json.dumps([method.to_json(), self.records], sort_keys=True)
        told = f"{self.data_set}{part}-{epsilon:g}-{method.samples_per_class}-{method.width}-{method.steps}"
        return (
            self.out
            / f"{told}-{method.seed}-{hashlib.sha256(asked.encode()).hexdigest()[:8]}"
        )

    def release(
        self,
        method: PrivateSetGeneration,
        epsilon: float,
        *,
        part: str = "",
        records: Records | None = None,
    ) -> Release:
        """Returns the release in the folder, or makes it there, going on where an earlier run was stopped."""
        folder = self.folder(method, epsilon, part)
        done = folder / "release"
        if done.exists():
            return Release.load(done)
        release = self.asked(
            method, epsilon, folder, records or (self.loaded.train, self.loaded.schema)
        )
        done.mkdir()
        release.save(done)
        return release

    def asked(
        self,
        method: PrivateSetGeneration | DPSGD,
        epsilon: float,
        folder: Path,
        of: Records,
    ) -> Release:
        """Returns the release of a method whose steps are kept in a folder, with the seconds that it took."""
        folder.mkdir(parents=True, exist_ok=True)
        table, schema = of
        gate, started = (
            Gate(
                table, schema=schema, epsilon=epsilon, delta=DELTA, records=self.records
            ),
            time.monotonic(),
        )
        with Progress(transient=True) as bar:
            task = bar.add_task(folder.name, total=method.steps)
            release = method.query(
                gate,
                folder=folder,
                device=str(choose_device(self.device)),
                report=lambda steps: bar.update(task, completed=steps),
            )
        (folder / "seconds").write_text(f"{time.monotonic() - started:.0f}\n")
        return release

    def images(
        self, method: PrivateSetGeneration, epsilon: float, **options: Any
    ) -> LabelledRows:
        """Returns the set as it is handed out, whole numbers from 0 to 255, with its labels."""
        release = self.release(method, epsilon, **options)
        classes = release.schema.layout.classes
        table = method.fit_release(release).sample(
            method.samples_per_class * classes, seed=0
        )
        return rows_of(table, release.schema)

    def accuracies(
        self, folder: Path, train: LabelledRows, network: str
    ) -> list[float]:
        """Returns the accuracy on the test images of networks trained on some images, kept in a folder."""
        told = Training(augment=self.augment, epochs=self.epochs, device=self.device)
        file = (
            folder
            / f"{network}-{self.repeats}-{told.passes}{'-altered' if self.augment else ''}.json"
        )
        if not file.exists():
            folder.mkdir(parents=True, exist_ok=True)
            suite = networks(
                [network], NetworkOptions(repeats=self.repeats, training=told)
            )
            report = utility_scores(
                suite, train, rows_of(self.loaded.test, self.loaded.schema), classes=10
            )
            with new_file(file, "--out") as beside:
                beside.write_text(
                    json.dumps([scores.accuracy for scores in report.runs[network]])
                )
        return [float(one) for one in json.loads(file.read_text())]


@cache
def _loaded(name: str, folder: Path) -> Loaded:
    return load(name, folder)


def rows_of(table: pa.Table, schema: Schema) -> LabelledRows:
    """Returns images, (images, 28, 28, 1), and their labels."""
    *names, label = schema.names
    pixels = np.stack([table[name].to_numpy() for name in names], axis=1)
    pixels = pixels.astype(np.uint8).reshape(-1, *IMAGE)
    return LabelledRows(
        features=pixels, labels=table[label].to_numpy().astype(np.int64)
    )


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One figure of a page: what is trained on which images, and what the paper says."""

    row: str
    column: str
    method: PrivateSetGeneration
    epsilon: float
    network: str = "ConvNet"
    paper: float | None = None


def published(
    table: str, data_set: str, network: str = "ConvNet", **told: Any
) -> float | None:
    """Returns the figure of the paper's table for a data set and what else its entry says; None where it has none."""
    for entry in page_of_figures()["published"]:
        if (
            entry["table"] == table
            and entry["data_set"] == data_set
            and all(entry.get(k) == v for k, v in told.items())
        ):
            figure = entry["accuracy"].get(network)
            return None if figure is None else float(figure)
    return None


def parser_of(text: str) -> argparse.ArgumentParser:
    """Returns a parser with the options that all commands of this folder have."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        help="folder of the data set; see ../papers/README.md",
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="where sets and scores are kept"
    )
    parser.add_argument("--data-set", choices=DATA_SETS, default="mnist")
    parser.add_argument(
        "--schedule", choices=sorted(page_of_figures()["schedule"]), default="laptop"
    )
    parser.add_argument(
        "--steps", type=int, default=None, help="instead of those of the schedule"
    )
    parser.add_argument(
        "--width", type=int, default=None, help="instead of that of the schedule"
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=1,
        help="sets of each kind; set i has public seed i and fresh noise",
    )
    parser.add_argument(
        "--repeats", type=int, default=3, help="networks that are trained on each set"
    )
    parser.add_argument(
        "--augment", action="store_true", help="alter the images, as the authors do"
    )
    parser.add_argument(
        "--epochs",
        type=int,
        default=None,
        help="default: 300, or 1000 with --augment, as the authors",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")
    parser.add_argument(
        "--json", type=Path, default=None, help="write all figures there"
    )
    return parser


def bench_of(options: argparse.Namespace) -> Bench:
    """Returns the bench that the options speak of."""
    if options.seeds < 1 or options.repeats < 1:
        raise SystemExit("--seeds and --repeats must be at least 1")
    options.out.mkdir(parents=True, exist_ok=True)
    names = ("data_set", "data", "out", "device", "repeats", "augment", "epochs")
    return Bench(**{name: getattr(options, name) for name in names})


def run_cells(
    title: str,
    options: argparse.Namespace,
    cells: Sequence[Cell],
    more: Callable[[Bench], list[dict[str, Any]]] = lambda bench: [],
) -> int:
    """Makes and scores every cell, prints the page and writes --json; 0 when it ran, 2 when it cannot.

    `more` makes figures that are not of sets, with row, column, accuracy and what the paper says.
    """
    console = Console()
    try:
        bench = bench_of(options)
        found = [
            _figures(bench, cell, options.seeds, console) for cell in cells
        ] + more(bench)
    except UserError as error:
        console.print(f"[red]{error}[/red]")
        return 2
    print_page(
        console,
        f"{title}, {options.data_set}: {told_of(options)}; {bench.protocol}",
        found,
    )
    if options.json:
        content = {
            "title": title,
            "data_set": options.data_set,
            "schedule": told_of(options),
            "cells": found,
        }
        write_json(options.json, content | {"protocol": bench.protocol}, indent=1)
    return 0


def told_of(options: argparse.Namespace) -> str:
    """Returns the schedule in words, which say whether it is reduced."""
    if options.schedule == "paper" and options.steps is None and options.width is None:
        return "the paper's schedule"
    changed = {
        name: getattr(options, name)
        for name in ("steps", "width")
        if getattr(options, name) is not None
    }
    return f"reduced schedule {options.schedule!r}" + "".join(
        f", {name} {value}" for name, value in changed.items()
    )


def _figures(bench: Bench, cell: Cell, seeds: int, console: Console) -> dict[str, Any]:
    means, recomputed = [], 0.0
    for seed in range(seeds):
        method = replace(cell.method, seed=seed)
        images = bench.images(method, cell.epsilon)
        recomputed = max(
            recomputed, bench.release(method, cell.epsilon).certificate.check()
        )
        scores = bench.accuracies(
            bench.folder(method, cell.epsilon), images, cell.network
        )
        means.append(statistics.fmean(scores))
    told = {
        "row": cell.row,
        "column": cell.column,
        "network": cell.network,
        "epsilon": cell.epsilon,
    }
    found = told | {
        "recomputed": recomputed,
        "sets": means,
        "accuracy": statistics.fmean(means),
        "paper": cell.paper,
    }
    console.print(
        f"{cell.row}, {cell.column}: {found['accuracy']:.4f}" + _beside(cell.paper)
    )
    return found | {"steps": cell.method.steps, "width": cell.method.width}


def _beside(paper: float | None) -> str:
    return "" if paper is None else f" ({paper:.3f})"


def print_page(
    console: Console, title: str, found: Sequence[Mapping[str, Any]]
) -> None:
    """Prints accuracies by row and column, the paper's in brackets."""
    columns = list(dict.fromkeys(one["column"] for one in found))
    page = Table(title=f"{title}; in brackets the paper", title_justify="left")
    page.add_column("")
    for column in columns:
        page.add_column(column, justify="right")
    for row in dict.fromkeys(one["row"] for one in found):
        by_column = {one["column"]: one for one in found if one["row"] == row}
        cells = [by_column.get(column) for column in columns]
        page.add_row(
            row,
            *(
                "" if one is None else f"{one['accuracy']:.4f}{_beside(one['paper'])}"
                for one in cells
            ),
        )
    console.print(page)
