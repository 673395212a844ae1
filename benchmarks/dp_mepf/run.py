"""DP-MEPF as the paper runs it, on any images: MNIST, CIFAR-10 in colour, your own.

    python benchmarks/dp_mepf/run.py TRAIN TEST --size 28 --channels 1 --out DIR --network encoder
    python benchmarks/dp_mepf/run.py TRAIN TEST --size 32 --channels 3 --out DIR --schedule full --device cuda

TRAIN (private) and TEST are anything that `noisegate fit` reads: Parquet with an image column, class folders, .npz,
torchvision's files. The preset is the paper's: two moments, private early stopping, residual generator, moving average;
`--schedule full` runs its 200,000 steps, `reduced` as many as `--steps` says. VGG-19's weights are looked for where
torch keeps downloads, and are never downloaded. See README.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from noisegate import Gate, Synthesizer
from noisegate.data.sources import open_source
from noisegate.evaluation import ImageReport, evaluate_images, images_of, named_features, read_classifiers
from noisegate.methods.mepf import DPMEPF
from noisegate.models.output.grid import SampleGrid
from noisegate.records import Images
from noisegate.schema import ImageForm, Schema, pixel_schema

LEARNING_RATES = {3: (1e-3, 1e-4), 1: (1e-5, 1e-4)}
"""By channels, of the generator and of the moving average: labelled CIFAR-10, and MNIST, in the authors' program."""


def main() -> int:
    """Fits, or takes the models that are there, and prints their scores."""
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    schema = pixel_schema(options.size, options.size, options.channels, labels=range(options.classes))
    for epsilon in options.epsilon:
        name = f"{options.schedule}-{epsilon:g}-{options.seed}"
        model, found = options.out / name, options.out / f"{name}.json"
        figures: dict[str, Any] = json.loads(found.read_text()) if found.exists() else {}
        if not model.exists():
            figures["fit"] = _fit(options, schema, epsilon, model)
        made = Synthesizer.load(model)
        if "report" not in figures:
            report = _score(options, schema, made)
            Console().print(report.render())
            figures |= {"certified_epsilon": made.certificate.check(), "discrepancy": made.summary.discrepancy}
            figures["report"] = report.to_json()
            found.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
            grid = SampleGrid(form=_form(schema), out=options.out / f"{name}.png")
            for batch in made.images(2000, seed=options.seed):
                grid.add(batch)
            grid.write()
        Console().print_json(json.dumps(figures))
    return 0


def _fit(options: argparse.Namespace, schema: Schema, epsilon: float, model: Path) -> dict[str, float]:
    """Fits and saves; returns seconds."""
    rate, average_rate = LEARNING_RATES[options.channels]
    fit: dict[str, Any] = {"learning_rate": rate, "average_rate": average_rate}
    if options.schedule == "reduced":
        # Fewer steps need larger ones; chosen as the rate of the default preset, and not by any score.
        fit |= {"steps": options.steps, "check_every": max(options.steps // 10, 1), "check_images": 1000}
        fit |= {"learning_rate": 2e-3, "average_rate": 1e-3}
    shape = (options.size, options.size, options.channels)
    method = DPMEPF(preset="paper", image=shape, network=options.network, seed=options.seed, fit_options=fit)
    started = time.perf_counter(), time.process_time()
    gate = Gate(options.train, schema=schema, epsilon=epsilon, adjacency=options.adjacency, records=options.records)
    with Progress(transient=True) as progress:
        task = progress.add_task(f"fit, ε = {epsilon:g}", total=None)
        synthesizer = method.fit(
            gate,
            device=options.device,
            report=lambda state: progress.update(task, total=state.steps, completed=state.step),
        )
    synthesizer.save(model)
    return {"wall": time.perf_counter() - started[0], "cpu": time.process_time() - started[1]}


def _score(options: argparse.Namespace, schema: Schema, made: Synthesizer) -> ImageReport:
    """Returns what classifiers and distances say; on real data, outside the guarantee."""
    batches = list(made.images(options.images, seed=options.seed))
    labels = np.concatenate([np.asarray(batch.labels, dtype=np.int32) for batch in batches])
    synthetic = Images(np.concatenate([batch.pixels for batch in batches]), labels)
    test = open_source(options.test, schema, show_values=False)
    with Progress(transient=True) as progress:
        task = progress.add_task("scores", total=None)
        return evaluate_images(
            synthetic,
            images_of(test.batches(), schema),
            schema,
            classifiers=read_classifiers(options.classifiers),
            features=named_features(options.features, options.weights),
            seed=options.seed,
            progress=lambda name, done, total: progress.update(task, description=name, completed=done, total=total),
        )


def _form(schema: Schema) -> ImageForm:
    assert schema.images is not None
    return schema.images


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="DP-MEPF with the paper's preset.")
    parser.add_argument("train", type=Path, help="private images")
    parser.add_argument("test", type=Path, help="other images of the same kind")
    parser.add_argument("--out", type=Path, required=True, help="folder for models and figures; what is there is kept")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--channels", type=int, default=3, choices=[1, 3])
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    parser.add_argument("--adjacency", default="add-remove", choices=["add-remove", "replace-one"])
    parser.add_argument("--records", type=int, default=None, help="the number of images, public under replace-one")
    parser.add_argument("--network", default="torchvision:vgg19", help='or "encoder", the one of the package')
    parser.add_argument("--schedule", default="reduced", choices=["reduced", "full"])
    parser.add_argument("--steps", type=int, default=1000, help="of the reduced schedule")
    parser.add_argument("--images", type=int, default=50_000, help="synthetic images to train on")
    parser.add_argument("--classifiers", default="cnn,mlp,logistic")
    parser.add_argument("--features", default="encoder", help='of the distances; "inception-v3" needs weights')
    parser.add_argument("--weights", type=Path, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
