"""Compares settings of a method for images on simulated digits, which are public: where defaults come from.

    python benchmarks/images/choose.py '{}' '{"generator": "convolutional"}' [--method joint] [--steps 1500]

Each argument is a JSON object of settings. Private are 60,000 simulated digits (../simulated_digits.py), read through
the gate like any others; scored is a small convolutional network, chosen by held-out synthetic images, on 10,000 other
simulated digits, and scikit-learn's logistic regression.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from simulated_digits import simulated_digits

from noisegate import Gate
from noisegate.methods.registry import method_named
from noisegate.schema import pixel_schema
from noisegate_evaluate import LabelledRows, read_classifiers, utility_scores

SCHEMA = pixel_schema(28, 28, labels=range(10))
TRAIN_SEED, TEST_SEED = 0, 1


def main() -> None:
    """Prints a row for each object of settings."""
    options = _options()
    page = Table(
        title=f"{options.method}, ε = {options.epsilon:g}, {options.steps} steps",
        title_justify="left",
    )
    for heading in ("settings", "cnn", "logistic", "distance / noise", "cpu s"):
        page.add_column(heading, justify="left" if heading == "settings" else "right")
    test = _rows(*simulated_digits(10_000, seed=TEST_SEED))
    with tempfile.TemporaryDirectory() as folder:
        images, labels = simulated_digits(60_000, seed=TRAIN_SEED)
        private = Path(folder) / "private.npz"
        np.savez(private, images=images, labels=labels)
        for settings in options.settings:
            found = _run(options, private, settings, test)
            page.add_row(json.dumps(settings), *(f"{value:.4g}" for value in found))
    Console().print(page)


def _run(
    options: argparse.Namespace,
    private: Path,
    settings: dict[str, Any],
    test: LabelledRows,
) -> tuple[float, float, float, float]:
    """Returns both accuracies, the distance over the noise, and the processor time of gate and fit in seconds."""
    started = time.process_time()
    fit_options = {"steps": options.steps, **settings.get("fit_options", {})}
    method = method_named(options.method)(
        **{
            "image": (28, 28, 1),
            "seed": options.seed,
            **settings,
            "fit_options": fit_options,
        }
    )
    with Progress(transient=True) as progress:
        task = progress.add_task("fit", total=fit_options["steps"])
        made = method.fit(
            Gate(private, schema=SCHEMA, epsilon=options.epsilon),
            device="cpu",
            report=lambda state: progress.update(task, completed=state.step),
        )
    seconds = time.process_time() - started
    batches = list(made.images(options.images, seed=options.seed))
    train = _rows(
        np.concatenate([batch.pixels for batch in batches])[..., 0],
        np.concatenate([np.asarray(batch.labels) for batch in batches]),
    )
    suite = read_classifiers("cnn,logistic")
    models = utility_scores(
        suite, train, test, classes=10, seed=options.seed, jobs=1
    ).models
    accuracies = models["cnn"].accuracy, models["logistic regression"].accuracy
    return *accuracies, made.summary.discrepancy, seconds


def _rows(images: Any, labels: Any) -> LabelledRows:
    return LabelledRows(
        features=images.reshape(-1, 28, 28, 1), labels=labels.astype(np.int64)
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Settings of a method for images, on simulated digits."
    )
    parser.add_argument(
        "settings", type=json.loads, nargs="+", help="JSON objects of settings"
    )
    parser.add_argument("--method", default="joint")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument(
        "--images", type=int, default=20_000, help="synthetic images to train on"
    )
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
