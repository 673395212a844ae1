"""Whether a method of teachers learns at all: its own code without noise, scored again and again on the way.

    python benchmarks/baselines/learning.py --method gs-wgan --data-set mnist --data DIR [--settings '{…}'] [--name N]

Every step goes through the gate as in a fit, with its shards, its clipping and its grid; only the noise is left out,
in this process and by this script alone, so that nothing made here is private. After every `--every` steps and at the
end, classifiers are trained on what the generator draws and scored on test records: accuracy of a convolutional network
for images, ROC-AUC and two-way distance for tables. Settings are chosen on "digits" (../simulated_digits.py) and
"survey" (that of `noisegate demo`); MNIST and Adult, of `--data`, are for the figure that is reported. With --name,
the curve is written to learning/N.json, and images to learning/N.png; where both data sets have their METHOD-mnist and
METHOD-adult, `--plot` makes one picture of them, learning/METHOD.png. learning.md has the table.
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
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import torch
from papers.catalogue import load
from papers.published import Loaded
from simulated_digits import simulated_digits

import noisegate
from noisegate import Gate, Schema
from noisegate.app.demo import write_survey
from noisegate.gate.transaction import Transaction
from noisegate.methods.registry import make_for
from noisegate.models.record_model import RecordModel
from noisegate.privacy.gradient_plan import steps_of
from noisegate.schema import pixel_schema
from noisegate.schema.decode import decode
from noisegate.sources.frames import read_table
from noisegate_evaluate import (
    LabelledRows,
    evaluate_tables,
    read_classifiers,
    utility_scores,
)

HERE = Path(__file__).parent
OUT = HERE / "learning"
IMAGES, TABLES = ("digits", "mnist"), ("survey", "adult")


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains, prints a line for every score, and writes the curve if it has a name."""
    options = _options(arguments)
    if options.plot:
        _plot(options.method)
        return 0
    loaded = _load(options)
    method = make_for(
        options.method, loaded.schema, {**options.settings, "seed": options.seed}
    )
    began, curve = time.perf_counter(), []
    taken = 0.0  # by scores, which are no part of the training
    for step, model in trained(method, loaded, options.every):
        before = time.perf_counter()
        scores = scored(model, loaded, options)
        now = time.perf_counter()
        curve.append(
            {"step": step, "seconds": round(before - began - taken, 1), **scores}
        )
        taken += now - before
        print(json.dumps(curve[-1]), flush=True)
        last = model
    if options.name:
        told = {
            "method": options.method,
            "data_set": options.data_set,
            "settings": options.settings,
        }
        told |= {
            "seed": options.seed,
            "made": options.made,
            "threads": torch.get_num_threads(),
        }
        told |= {
            "date": str(datetime.datetime.now(tz=datetime.UTC).date()),
            "noisegate": noisegate.__version__,
        }
        OUT.mkdir(exist_ok=True)
        text = json.dumps({**told, "noise": 0, "curve": curve}, indent=1) + "\n"
        (OUT / f"{options.name}.json").write_text(text, encoding="utf-8")
        if options.data_set in IMAGES:
            _draw(last, OUT / f"{options.name}.png")
    return 0


@contextmanager
def noiseless() -> Iterator[None]:
    """Leaves out the noise of every step in this process: for experiments, whose outcome is not private."""
    with patch.object(
        Transaction,
        "add_noise",
        lambda transaction, sums, event: (transaction.confirm(), sums)[1],
    ):
        yield


def trained(
    method: Any, loaded: Loaded, every: int
) -> Iterator[tuple[int, RecordModel]]:
    """Yields the number of steps and the model as it is then, after every so many steps and after the last one."""
    gate = Gate(
        loaded.train, schema=loaded.schema, epsilon=10.0, records=len(loaded.train)
    )
    plan = method.plan(gate.schema, gate.budget)
    training = method.training(
        gate.schema,
        plan,
        steps_of(plan).query.sampling_probability * len(loaded.train),
        "cpu",
    )
    session = method.session(gate, plan, journal=None, device="cpu")
    gan = method.gan(gate.schema)
    weights = np.asarray(gan.label_weights(gate.schema) or (1.0,))
    with noiseless(), session:
        for step in range(1, steps_of(plan).query.steps + 1):
            training.step(session.step(training.parameters()))
            if step % every == 0 or step == steps_of(plan).query.steps:
                generator = gan.generator(gate.schema)
                generator.load_state_dict(training.result())
                yield (
                    step,
                    gan.model_of(
                        generator.requires_grad_(False).eval(), weights, gate.schema
                    ),
                )


def scored(
    model: RecordModel, loaded: Loaded, options: argparse.Namespace
) -> dict[str, float]:
    """Returns the scores on test records of classifiers that saw records of the model only."""
    drawn = model.draw(options.made, torch.Generator().manual_seed(options.seed))
    if options.data_set in IMAGES:
        pixels = np.rint(drawn.numeric * 255).astype(np.uint8).reshape(-1, 28, 28, 1)
        train, test = (
            LabelledRows(features=pixels, labels=drawn.codes[:, 0].astype(np.int64)),
            _rows(loaded.test),
        )
        suite = {"classes": 10, "seed": options.seed, "jobs": 1}
        return {
            name: round(
                utility_scores(
                    read_classifiers(name), train, test, **suite
                ).mean.accuracy,
                4,
            )
            for name in options.classifiers.split(",")
        }
    report = evaluate_tables(
        decode(drawn, loaded.schema, stored=True),
        loaded.test,
        loaded.schema,
        train=loaded.train,
    )
    mean = report.downstream.mean
    distances = {
        f"distance_{order}": round(report.marginals.order(order).mean, 4)
        for order in (1, 2)
    }
    return {
        "roc_auc": round(mean.roc_auc, 4),
        "average_precision": round(mean.average_precision, 4),
        **distances,
    }


def _load(options: argparse.Namespace) -> Loaded:
    """Returns records to learn from, to be scored on, and their schema."""
    if options.data_set == "mnist":
        return load("mnist", options.data)
    if options.data_set == "digits":
        schema = pixel_schema(28, 28, labels=range(10))
        return Loaded(
            *(_table(count, seed, schema) for count, seed in ((20_000, 1), (4_000, 2))),
            schema,
        )
    if options.data_set == "adult":
        schema = Schema.from_toml(HERE.parent / "adult" / "schema.toml")
        return Loaded(
            *(
                read_table(options.data / f"{part}.csv", schema)
                for part in ("train", "test")
            ),
            schema,
        )
    schema = Schema.from_toml(
        Path(noisegate.__file__).parent / "discovery" / "demo_schema.toml"
    )
    with tempfile.TemporaryDirectory() as folder:
        return Loaded(
            *(read_table(path, schema) for path in write_survey(Path(folder))), schema
        )


def _table(count: int, seed: int, schema: Schema) -> pa.Table:
    images, labels = simulated_digits(count, seed=seed)
    pixels = images.reshape(count, -1).T.astype(np.int64)
    return pa.table(
        [*map(pa.array, pixels), pa.array(labels)], names=list(schema.names)
    )


def _rows(table: pa.Table) -> LabelledRows:
    pixels = np.stack(
        [column.to_numpy() for column in table.columns[:-1]], axis=1
    ).astype(np.uint8)
    labels = table.column(table.num_columns - 1).to_numpy().astype(np.int64)
    return LabelledRows(features=pixels.reshape(-1, 28, 28, 1), labels=labels)


def _draw(model: RecordModel, out: Path) -> None:
    """Writes eight images of each class, side by side, as a small grey picture."""
    from PIL import Image

    drawn = model.draw(400, torch.Generator().manual_seed(1))
    images, labels = (
        np.rint(drawn.numeric * 255).astype(np.uint8).reshape(-1, 28, 28),
        drawn.codes[:, 0],
    )
    rows = [
        np.concatenate(list(images[labels == digit][:8]), axis=0) for digit in range(10)
    ]
    Image.fromarray(np.concatenate(rows, axis=1)).save(out, optimize=True)


def _plot(method: str) -> None:
    """Writes both curves of a method beside the images it made, which then go."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(7.2, 2.8), width_ratios=(1.1, 1), layout="constrained"
    )
    for data_set, score, name in (
        ("mnist", "cnn", "MNIST, CNN"),
        ("adult", "roc_auc", "Adult, ROC-AUC"),
    ):
        file = OUT / f"{method}-{data_set}.json"
        curve = json.loads(file.read_text("utf-8"))["curve"] if file.exists() else []
        left.plot(
            [point["step"] for point in curve],
            [point[score] for point in curve],
            marker=".",
            label=name,
        )
    left.axhline(0.85, color="grey", linewidth=0.8, linestyle=":")
    left.set(xlabel="steps", ylim=(0, 1), title=f"{method}, without noise")
    left.legend(loc="lower right")
    right.axis("off")
    digits = OUT / f"{method}-mnist.png"
    if digits.exists():
        right.imshow(np.asarray(Image.open(digits)), cmap="gray")
        digits.unlink()
    figure.savefig(OUT / f"{method}.png", dpi=90)
    Image.open(OUT / f"{method}.png").convert("RGB").quantize(48).save(
        OUT / f"{method}.png", optimize=True
    )


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--method", required=True, choices=["datalens", "g-pate", "gs-wgan", "pate-gan"]
    )
    parser.add_argument("--data-set", default="digits", choices=[*IMAGES, *TABLES])
    parser.add_argument(
        "--data",
        type=Path,
        default=None,
        help="folder of MNIST or Adult; see ../papers/README.md",
    )
    parser.add_argument(
        "--settings",
        type=json.loads,
        default={},
        help="a JSON object, as for `noisegate fit --set`",
    )
    parser.add_argument(
        "--every", type=int, default=500, help="steps between two scores"
    )
    parser.add_argument(
        "--made", type=int, default=10_000, help="records that are drawn for a score"
    )
    parser.add_argument(
        "--classifiers", default="cnn", help="of images, as for `noisegate evaluate`"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--name",
        default=None,
        help="write learning/NAME.json, and of images learning/NAME.png",
    )
    parser.add_argument(
        "--plot",
        action="store_true",
        help="draw learning/METHOD.png of what was written before",
    )
    options = parser.parse_args(arguments)
    if options.data_set in ("mnist", "adult") and options.data is None:
        parser.error(f"--data-set {options.data_set} needs --data DIR")
    return options


if __name__ == "__main__":
    sys.exit(main())
