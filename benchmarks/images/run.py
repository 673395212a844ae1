"""Private images in, synthetic labelled images out: accuracy of classifiers that saw synthetic images only.

    python benchmarks/images/run.py --data DIR --out DIR [--epsilon 1 0.2 10] [--seeds 3] [--method joint]

Fits a method to the 60,000 training images of MNIST through the gate, makes 60,000 images, trains a small convolutional
network (chosen by held-out synthetic images alone), scikit-learn's MLP and logistic regression on them, and tests each
once on the 10,000 test images. Nothing in the settings was chosen by looking at a real digit; see README.md.

Each run is written to --out and not repeated: stop and start as you like. Scores are computed on real data, outside the
guarantee.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from harness.options import choice, choices, fail, needed, optional, read_options
from harness.results import write_json
from papers.catalogue import load
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from noisegate import Gate, Synthesizer
from noisegate.methods.registry import method_named
from noisegate_evaluate import LabelledRows, read_classifiers, utility_scores
from noisegate_images.output.formats import SampleGrid

HERE = Path(__file__).parent
GENERATED = 60_000
SCORES = ("cnn", "mlp", "logistic")


def main() -> int:
    """Runs the benchmark; 0 when every expectation is met, else 1."""
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    met = True
    for epsilon in options.epsilon:
        runs = [_run(options, epsilon, seed) for seed in range(options.seeds)]
        met &= _print(options, epsilon, runs)
    return 0 if met else 1


def _run(options: argparse.Namespace, epsilon: float, seed: int) -> dict[str, Any]:
    """Returns the figures of one run, made now or read."""
    name = f"{options.tag or options.method}-{options.adjacency}-{epsilon:g}-{seed}"
    found = options.out / f"{name}.json"
    figures: dict[str, Any] = json.loads(found.read_text()) if found.exists() else {}
    wanted = [
        score
        for score in SCORES
        if score not in options.leave_out and score not in figures
    ]
    if found.exists() and not wanted:
        return figures
    loaded = load(options.data_set, options.data)
    model = options.out / name
    if not model.exists():
        figures["fit"] = _fit(options, loaded, epsilon, seed, model)
    synthesizer = Synthesizer.load(model)
    started = time.process_time()
    batches = list(synthesizer.images(options.images, seed=seed))
    figures["sampling_cpu"] = time.process_time() - started
    pixels = np.concatenate([batch.pixels for batch in batches])
    labels = np.concatenate([np.asarray(batch.labels) for batch in batches]).astype(
        np.int64
    )
    train = LabelledRows(features=pixels, labels=labels)
    figures |= {
        "certified_epsilon": synthesizer.certificate.epsilon,
        "discrepancy": synthesizer.summary.discrepancy,
    }
    for score in wanted:
        figures[score] = _score(score, train, _rows(loaded.test), seed)
        write_json(found, figures)
    _draw(synthesizer, options.out / f"{name}.png", seed)
    return figures


def _draw(synthesizer: Synthesizer, out: Path, seed: int) -> None:
    """Writes ten images of each class, if they are not there yet."""
    form = synthesizer.schema.images
    if out.exists() or form is None:
        return
    grid = SampleGrid(form=form, out=out)
    for batch in synthesizer.images(4000, seed=seed):
        grid.add(batch)
    grid.write()


def _fit(
    options: argparse.Namespace, loaded: Any, epsilon: float, seed: int, model: Path
) -> dict[str, float]:
    """Fits and saves; returns seconds."""
    started = time.perf_counter(), time.process_time()
    records = len(loaded.train) if options.adjacency == "replace-one" else None
    gate = Gate(
        loaded.train,
        schema=loaded.schema,
        epsilon=epsilon,
        adjacency=options.adjacency,
        records=records,
    )
    settings = {"image": (28, 28, 1), "seed": seed, **options.settings}
    with Progress(transient=True) as progress:
        task = progress.add_task(f"fit, ε = {epsilon:g}, seed {seed}", total=None)
        synthesizer = method_named(options.method)(**settings).fit(
            gate,
            device=options.device,
            report=lambda state: progress.update(
                task, total=state.steps, completed=state.step
            ),
        )
    synthesizer.save(model)
    return {
        "wall": time.perf_counter() - started[0],
        "cpu": time.process_time() - started[1],
    }


def _score(name: str, train: LabelledRows, test: LabelledRows, seed: int) -> float:
    with Progress(transient=True) as progress:
        task = progress.add_task(f"{name}, seed {seed}", total=1)
        report = utility_scores(
            read_classifiers(name),
            train,
            test,
            classes=10,
            seed=seed,
            jobs=1,
            progress=lambda _, done, total: progress.update(
                task, completed=done, total=total
            ),
        )
        return report.mean.accuracy


def _rows(table: Any) -> LabelledRows:
    pixels = np.stack([column.to_numpy() for column in table.columns[:-1]], axis=1)
    labels = table.column(table.num_columns - 1).to_numpy().astype(np.int64)
    return LabelledRows(
        features=pixels.astype(np.uint8).reshape(-1, 28, 28, 1), labels=labels
    )


def _print(
    options: argparse.Namespace, epsilon: float, runs: list[dict[str, Any]]
) -> bool:
    console, page = (
        Console(),
        Table(title=f"{options.data_set}, ε = {epsilon:g}", title_justify="left"),
    )
    for heading in (
        "",
        *(f"seed {seed}" for seed in range(len(runs))),
        "mean",
        "at least",
    ):
        page.add_column(heading, justify="right")
    expected = tomllib.loads((HERE / "expected.toml").read_text())["least"]
    of = next((entry for entry in expected if entry["epsilon"] == epsilon), {})
    met = True
    for score in SCORES:
        values = [run[score] for run in runs if score in run]
        if not values:
            continue
        mean, least = statistics.fmean(values), of.get(score)
        met &= least is None or mean >= least
        page.add_row(
            score,
            *(f"{v:.4f}" for v in values),
            f"{mean:.4f}",
            "" if least is None else f"{least:g}",
        )
    console.print(page)
    times = [run["fit"] for run in runs if "fit" in run]
    if times:
        seconds = {
            kind: statistics.fmean(time[kind] for time in times)
            for kind in ("wall", "cpu")
        }
        console.print(
            f"{options.method} ({options.adjacency}), {options.images:,} images; gate and fit {seconds['wall']:.0f} "
            f"s wall, {seconds['cpu']:.0f} s of processor time."
        )
    return met


def _options() -> argparse.Namespace:
    options = read_options(
        __doc__,
        data=needed(Path),
        out=needed(Path),
        data_set=choice(["mnist", "fashion-mnist"]),
        method="joint",
        settings={},
        tag=optional(str, "name of these settings in --out"),
        epsilon=[1.0, 0.2, 10.0],
        adjacency=choice(["replace-one", "add-remove"], "add-remove"),
        seeds=3,
        images=GENERATED,
        leave_out=choices(SCORES, []),
        device="cpu",
    )
    if options.seeds < 1 or options.images < 100:
        fail("--seeds must be at least 1, --images at least 100")
    return options


if __name__ == "__main__":
    sys.exit(main())
