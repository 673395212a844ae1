"""What a diffusion or transport baseline learns when nothing hides it: its curve without noise, and pictures.

    python benchmarks/baselines/learning_images.py --method dpdm --data DIR [--data-set mnist] [--every 100]

Runs the method's own code through the gate, samples, clipping and rounding included, with noise of standard deviation
0: nothing that it makes is private, and no user option leads here. Every so many steps records are drawn from what is
trained so far, a classifier learns from these alone, and its score on real test records is written down. `digits` and
`survey` are public stand-ins, simulated and of `noisegate demo`, to choose settings on; figures to report are of MNIST
and Adult. Writes NAME-DATA.json, and for images NAME-DATA.png, into --out.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from papers.images import SCHEMA
from papers.published import Loaded
from PIL import Image
from run import HERE, ROUNDED, _load, _rows
from simulated_digits import simulated_digits

from noisegate import Gate, Schema
from noisegate.app import demo
from noisegate.atomic import new_file
from noisegate.methods.registry import make_for
from noisegate.privacy import noise
from noisegate.schema import decode
from noisegate.sources.frames import read_table
from noisegate_evaluate import (
    LabelledRows,
    evaluate_tables,
    read_classifiers,
    utility_scores,
)

mpl.use("Agg")
IMAGES = ("mnist", "digits")
SIMULATED, HELD_OUT = 60_000, 2000
"""Simulated digits to learn from, as many as MNIST has, and to score on."""
# Images of each class in the picture.
_PICTURED = 8
Greys = npt.NDArray[np.uint8]


@contextmanager
def without_noise() -> Iterator[None]:
    """Leaves every sum as it is within the block."""
    with mock.patch.object(noise, "add_noise", lambda sums, **_: np.array(sums)):
        yield


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains without noise, scores every so many steps, and writes the curve."""
    options = _options(arguments)
    loaded = _data(options.data_set, options.data)
    records = len(loaded.train) if options.data_set != "adult" else ROUNDED
    method = make_for(
        options.method, loaded.schema, {**options.settings, "seed": options.seed}
    )
    gate = Gate(loaded.train, schema=loaded.schema, epsilon=10.0, records=records)
    trained, curve, spent = list[Any](), list[dict[str, Any]](), {"scoring": 0.0}
    began = time.perf_counter(), time.process_time()
    start = type(method).training

    def training(self: Any, *given: Any, **named: Any) -> Any:
        trained.append((start(self, *given, **named), given[1].plan))
        return trained[-1][0]

    def report(state: Any) -> None:
        if state.step % options.every and state.step != method.steps:
            return
        paused = time.process_time()
        model = _model(method, loaded.schema, *trained[-1])
        made = options.made if state.step == method.steps else options.glimpse
        found = _scores(options, model, loaded, made)
        spent["scoring"] += time.process_time() - paused
        training_cpu = time.process_time() - began[1] - spent["scoring"]
        curve.append(
            {
                "step": state.step,
                "cpu_seconds": round(training_cpu),
                "made": made,
                **found,
            }
        )
        print(json.dumps(curve[-1]), flush=True)
        told = _written(options, curve, method, began)
        if options.data_set in IMAGES:
            plot(
                told,
                _sheet(model, options.seed),
                options.out / f"{options.method}-{options.data_set}.png",
            )

    with without_noise(), mock.patch.object(type(method), "training", training):
        method.fit(gate, device=options.device, report=report)
    return 0


def _data(name: str, folder: Path | None) -> Loaded:
    """Returns records to learn from and to score on, with their schema."""
    if name == "digits":
        images, labels = simulated_digits(SIMULATED + HELD_OUT, seed=1)
        columns = [pa.array(column) for column in images.reshape(len(images), -1).T]
        table = pa.table(
            [*columns, pa.array([str(label) for label in labels])],
            names=list(SCHEMA.names),
        )
        return Loaded(table.slice(0, SIMULATED), table.slice(SIMULATED), SCHEMA)
    if name == "survey":
        return Loaded(*_survey())
    assert folder is not None
    return _load(name, folder, None)


def _survey() -> tuple[pa.Table, pa.Table, Schema]:
    """Returns the survey of `noisegate demo`: every fifth answer is kept aside to score on."""
    schema = Schema.from_toml(
        resources.files("noisegate.app.drafts").joinpath("demo_schema.toml")
    )
    with tempfile.TemporaryDirectory() as folder:
        train, test = (
            read_table(path, schema) for path in demo.write_survey(Path(folder))
        )
    return train, test, schema


def _model(method: Any, schema: Schema, training: Any, plan: Any) -> Any:
    """Returns the model that what is trained so far would be."""
    arrays = {
        name: value.detach().cpu().numpy() for name, value in training.result().items()
    }
    return method.model(
        SimpleNamespace(schema=schema, values={plan.name: plan.pack(arrays)})
    )


def _scores(
    options: argparse.Namespace, model: Any, loaded: Loaded, made: int
) -> dict[str, float]:
    """Returns what classifiers that saw `made` records of a model reach on real test records."""
    drawn = model.draw(made, torch.Generator().manual_seed(options.seed))
    if options.data_set in IMAGES:
        pixels = np.rint(drawn.numeric * 255).astype(np.uint8).reshape(-1, 28, 28, 1)
        train = LabelledRows(features=pixels, labels=drawn.codes[:, 0].astype(np.int64))
        test, told = _rows(loaded.test), {}
        for name in options.classifiers.split(","):
            report = utility_scores(
                read_classifiers(name),
                train,
                test,
                classes=10,
                seed=options.seed,
                jobs=1,
            )
            told[name] = round(report.mean.accuracy, 4)
        return told
    table = decode(drawn, loaded.schema, stored=True)
    report = evaluate_tables(table, loaded.test, loaded.schema, train=loaded.train)
    assert report.downstream is not None
    told = {"roc_auc": report.downstream.mean.roc_auc, "f1": report.downstream.mean.f1}
    return {name: round(value, 4) for name, value in told.items()} | {
        f"distance_{order}": round(report.marginals.order(order).mean, 4)
        for order in (1, 2)
    }


def _written(
    options: argparse.Namespace,
    curve: list[dict[str, Any]],
    method: Any,
    began: tuple[float, float],
) -> dict[str, Any]:
    """Writes what was reached so far, with how, and returns it."""
    seconds = {
        "wall": time.perf_counter() - began[0],
        "cpu": time.process_time() - began[1],
    }
    told = {
        "method": options.method,
        "data_set": options.data_set,
        "noise": 0,
        "settings": options.settings,
        "steps": method.steps,
        "sampling_probability": method.sampling_probability,
        "seed": options.seed,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "threads": torch.get_num_threads(),
        "seconds": {name: round(value) for name, value in seconds.items()},
        "curve": curve,
    }
    with new_file(
        options.out / f"{options.method}-{options.data_set}.json", "--out", force=True
    ) as file:
        file.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return told


def _sheet(model: Any, seed: int) -> Greys:
    """Returns some images of each class, a class a column, white on black, (height, width) uint8."""
    drawn = model.draw(400, torch.Generator().manual_seed(seed + 1))
    images, labels = drawn.numeric.reshape(-1, 28, 28), drawn.codes[:, 0]
    columns = [
        np.concatenate([*images[labels == label][:_PICTURED]]) for label in range(10)
    ]
    return np.asarray(np.rint(np.concatenate(columns, axis=1) * 255), dtype=np.uint8)


def plot(told: dict[str, Any], sheet: Greys, path: Path) -> None:
    """Draws the learning curve of a JSON file beside images of the last step, as a PNG of some 40 kB."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(7.2, 2.6), dpi=100, layout="constrained"
    )
    steps, scores = ([one[name] for one in told["curve"]] for name in ("step", "cnn"))
    left.plot(steps, scores, marker="o", color="black")
    left.set(
        xlabel="steps",
        ylabel="accuracy on real test images",
        ylim=(0, 1),
        title=f"{told['method']}, no noise",
    )
    left.axhline(0.1, color="grey", linewidth=0.8, linestyle=":")
    right.imshow(sheet, cmap="grey", interpolation="nearest")
    right.set_axis_off()
    figure.savefig(path)
    plt.close(figure)
    Image.open(path).convert("L").quantize(16).save(path, optimize=True)


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--method", required=True, help="dpdm, dp-feta or dp-sinkhorn")
    parser.add_argument(
        "--data", type=Path, default=None, help="folder of the data set"
    )
    parser.add_argument(
        "--data-set", default="mnist", choices=[*IMAGES, "adult", "survey"]
    )
    parser.add_argument(
        "--settings",
        type=json.loads,
        default={},
        help="a JSON object, as for `noisegate fit --set`",
    )
    parser.add_argument(
        "--every", type=int, default=100, help="steps between two scores"
    )
    parser.add_argument(
        "--glimpse",
        type=int,
        default=2000,
        help="records that are drawn for a score on the way",
    )
    parser.add_argument(
        "--made",
        type=int,
        default=10_000,
        help="records that are drawn for the last score",
    )
    parser.add_argument("--classifiers", default="cnn", help="of images")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=HERE / "learning")
    options = parser.parse_args(arguments)
    if options.data is None and options.data_set in ("mnist", "adult"):
        parser.error(f"--data-set {options.data_set} needs --data")
    options.out.mkdir(parents=True, exist_ok=True)
    return options


if __name__ == "__main__":
    sys.exit(main())
