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
import statistics
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.images import (
    accuracies,
    draw_grid,
    fit_with_progress,
    labelled_rows,
    synthetic_rows,
)
from harness.measuring import measured_seconds
from harness.options import ADJACENCY, choice, choices, needed, optional, read_options
from harness.printing import print_table
from harness.results import read_json, write_json
from papers.catalogue import load
from papers.published import Loaded

from noisegate import Gate, Synthesizer
from noisegate.methods.registry import method_named

HERE = Path(__file__).parent
SCORES = ("cnn", "mlp", "logistic")
Figures = dict[str, Any]


def main() -> int:
    """Runs the benchmark; 0 when every expectation is met, else 1."""
    options = read_options(
        __doc__,
        data=needed(Path),
        out=needed(Path, "folder for models and figures; what is there is kept"),
        data_set=choice(["mnist", "fashion-mnist"]),
        method="joint",
        settings={},
        tag=optional(str, "name of these settings in --out"),
        epsilon=[1.0, 0.2, 10.0],
        adjacency=ADJACENCY,
        seeds=3,
        images=60_000,
        leave_out=choices(SCORES, []),
        device="cpu",
    )
    met = True
    for epsilon in options.epsilon:
        runs = [_run(options, epsilon, seed) for seed in range(options.seeds)]
        met &= _print(options, epsilon, runs)
    return 0 if met else 1


def _run(options: argparse.Namespace, epsilon: float, seed: int) -> Figures:
    """Returns the figures of one run, made now or read."""
    name = f"{options.tag or options.method}-{options.adjacency}-{epsilon:g}-{seed}"
    path = options.out / f"{name}.json"
    figures: Figures = read_json(path, {})
    wanted = [
        score
        for score in SCORES
        if score not in options.leave_out and score not in figures
    ]
    if path.exists() and not wanted:
        return figures
    loaded = load(options.data_set, options.data)
    folder = options.out / name
    if not folder.exists():
        figures["fit"] = _fit(options, loaded, epsilon, seed, folder)
    model = Synthesizer.load(folder)
    start = time.process_time()
    train = synthetic_rows(model, options.images, seed=seed)
    figures["sampling_cpu"] = time.process_time() - start
    figures["certified_epsilon"] = model.certificate.epsilon
    figures["discrepancy"] = model.summary.discrepancy
    test = labelled_rows(loaded.test)
    for score in wanted:
        figures |= accuracies([score], train, test, seed=seed)
        write_json(path, figures)
    picture = options.out / f"{name}.png"
    if not picture.exists():
        draw_grid(model, picture, seed=seed)
    return figures


def _fit(
    options: argparse.Namespace, loaded: Loaded, epsilon: float, seed: int, folder: Path
) -> dict[str, float]:
    """Fits and saves; returns seconds."""
    is_public = options.adjacency == "replace-one"
    gate = Gate(
        loaded.train,
        schema=loaded.schema,
        epsilon=epsilon,
        adjacency=options.adjacency,
        records=len(loaded.train) if is_public else None,
    )
    settings = {"image": (28, 28, 1), "seed": seed, **options.settings}
    method = method_named(options.method)(**settings)
    text = f"fit, ε = {epsilon:g}, seed {seed}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with measured_seconds() as seconds:
        fit_with_progress(method, gate, text, device=options.device).save(folder)
    return seconds


def _print(options: argparse.Namespace, epsilon: float, runs: list[Figures]) -> bool:
    """Prints the scores; returns whether all that is expected is met."""
    expected = tomllib.loads((HERE / "expected.toml").read_text())["least"]
    minima = next((entry for entry in expected if entry["epsilon"] == epsilon), {})
    met = True
    rows = []
    for score in SCORES:
        values = [run[score] for run in runs if score in run]
        if values:
            mean = statistics.fmean(values)
            met &= mean >= minima.get(score, 0.0)
            texts = [f"{value:.4f}" for value in (*values, mean)]
            rows.append([score, *texts, minima.get(score, "")])
    seeds = [f"seed {seed}" for seed in range(len(runs))]
    title = f"{options.data_set}, ε = {epsilon:g}"
    print_table(title, ["", *seeds, "mean", "at least"], rows)
    seconds = [run["fit"] for run in runs if "fit" in run]
    if seconds:
        wall, cpu = (
            statistics.fmean(each[kind] for each in seconds) for kind in ("wall", "cpu")
        )
        print(
            f"{options.method} ({options.adjacency}), {options.images:,} images; gate and fit {wall:.0f} s wall, "
            f"{cpu:.0f} s of processor time."
        )
    return met


if __name__ == "__main__":
    sys.exit(main())
