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
from harness.images import labelled_rows
from harness.options import choice, needed, option, optional
from harness.printing import print_table
from harness.results import kept, write_json
from papers.catalogue import load
from papers.published import Loaded
from rich.progress import Progress

from noisegate import Gate, PrivateSetGeneration, Release
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
from noisegate_papers.methods.dp_sgd import DPSGD

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
        return labelled_rows(table)

    def accuracies(
        self, folder: Path, train: LabelledRows, network: str
    ) -> list[float]:
        """Returns the accuracy on the test images of networks trained on some images, kept in a folder."""
        told = Training(augment=self.augment, epochs=self.epochs, device=self.device)
        file = (
            folder
            / f"{network}-{self.repeats}-{told.passes}{'-altered' if self.augment else ''}.json"
        )

        def score() -> list[float]:
            options = NetworkOptions(repeats=self.repeats, training=told)
            report = utility_scores(
                networks([network], options),
                train,
                labelled_rows(self.loaded.test),
                classes=10,
            )
            return [scores.accuracy for scores in report.runs[network]]

        return list(map(float, kept(file, score)))


@cache
def _loaded(name: str, folder: Path) -> Loaded:
    return load(name, folder)


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


OPTIONS = {
    "data": needed(Path),
    "out": needed(Path, "where sets and scores are kept"),
    "data_set": choice(DATA_SETS),
    "schedule": choice(sorted(page_of_figures()["schedule"]), "laptop"),
    "steps": optional(int, "instead of those of the schedule"),
    "width": optional(int, "instead of that of the schedule"),
    "seeds": option(1, "sets of each kind; set i has public seed i and fresh noise"),
    "repeats": option(3, "networks that are trained on each set"),
    "augment": option(False, "alter the images, as the authors do"),
    "epochs": optional(int, "default: 300, or 1000 with --augment, as the authors"),
    "device": "auto",
    "json": optional(Path, "write all figures there"),
}
"""Options that all commands of this folder have."""


def bench_of(options: argparse.Namespace) -> Bench:
    """Returns the bench that the options speak of."""
    options.out.mkdir(parents=True, exist_ok=True)
    names = ("data_set", "data", "out", "device", "repeats", "augment", "epochs")
    return Bench(**{name: getattr(options, name) for name in names})


def cell_of(
    options: argparse.Namespace,
    row: str,
    column: str,
    *,
    samples_per_class: int,
    epsilon: float,
    paper: float | None,
    network: str = "ConvNet",
    settings: Mapping[str, Any] | None = None,
) -> Cell:
    """Returns the figure of a set by the schedule of the options, with further settings of the method."""
    given = {"steps": options.steps, "width": options.width, **(settings or {})}
    method = method_of(
        options.schedule, samples_per_class=samples_per_class, epsilon=epsilon, **given
    )
    return Cell(
        row=row,
        column=column,
        method=method,
        epsilon=epsilon,
        network=network,
        paper=paper,
    )


def prior_settings(prior: str) -> dict[str, Any]:
    """Returns the settings of a network that makes the images of fixed noise; none for "none"."""
    return {} if prior == "none" else {"prior": True, "prior_network": prior}


def run_cells(
    title: str,
    options: argparse.Namespace,
    cells: Sequence[Cell],
    more: Callable[[Bench], list[dict[str, Any]]] = lambda bench: [],
) -> None:
    """Makes and scores every cell, prints the page and writes --json.

    `more` makes figures that are not of sets, with row, column, accuracy and what the paper says.
    """
    bench = bench_of(options)
    figures = [_figures(bench, cell, options.seeds) for cell in cells] + more(bench)
    schedule = schedule_text(options)
    print_page(f"{title}, {options.data_set}: {schedule}; {bench.protocol}", figures)
    content = {
        "title": title,
        "data_set": options.data_set,
        "schedule": schedule,
        "cells": figures,
        "protocol": bench.protocol,
    }
    write_json(options.json, content, indent=1)


def schedule_text(options: argparse.Namespace) -> str:
    """Returns the schedule in words, which say whether it is reduced."""
    if options.schedule == "paper" and options.steps is None and options.width is None:
        return "the paper's schedule"
    text = f"reduced schedule {options.schedule!r}"
    for name in ("steps", "width"):
        if getattr(options, name) is not None:
            text += f", {name} {getattr(options, name)}"
    return text


def _figures(bench: Bench, cell: Cell, n_seeds: int) -> dict[str, Any]:
    means = []
    recomputed = 0.0
    for seed in range(n_seeds):
        method = replace(cell.method, seed=seed)
        images = bench.images(method, cell.epsilon)
        certificate = bench.release(method, cell.epsilon).certificate
        recomputed = max(recomputed, certificate.check())
        folder = bench.folder(method, cell.epsilon)
        means.append(statistics.fmean(bench.accuracies(folder, images, cell.network)))
    accuracy = statistics.fmean(means)
    print(f"{cell.row}, {cell.column}: {accuracy:.4f}{_in_brackets(cell.paper)}")
    return {
        "row": cell.row,
        "column": cell.column,
        "network": cell.network,
        "epsilon": cell.epsilon,
        "recomputed": recomputed,
        "sets": means,
        "accuracy": accuracy,
        "paper": cell.paper,
        "steps": cell.method.steps,
        "width": cell.method.width,
    }


def _in_brackets(paper: float | None) -> str:
    return "" if paper is None else f" ({paper:.3f})"


def print_page(title: str, figures: Sequence[Mapping[str, Any]]) -> None:
    """Prints accuracies by row and column, the paper's in brackets."""
    columns = list(dict.fromkeys(figure["column"] for figure in figures))
    texts = {
        (figure["row"], figure["column"]): (
            f"{figure['accuracy']:.4f}{_in_brackets(figure['paper'])}"
        )
        for figure in figures
    }
    rows = [
        [row, *(texts.get((row, column), "") for column in columns)]
        for row in dict.fromkeys(figure["row"] for figure in figures)
    ]
    print_table(f"{title}; in brackets the paper", ["", *columns], rows)
