"""Private continual learning on SplitMNIST: five parties, two digits each, and small synthetic sets as the only memory.

Each party makes a private set of its own images with PSG (Chen, Kerkouche, Fritz, NeurIPS 2022, section 5.2) and hands
it on. After each stage a network is trained on the sets so far, and tested on all digits that it has met.

What holds: each set comes with the certificate of its stage, (ε, δ) for one image of that party. The parties' images
are disjoint by their digit, so under add/remove-one whoever sees all five sets learns no more about an image than its
stage allows (parallel composition); the five budgets do not add up. Under replace-one an image could change party, and
would touch two stages.

    python examples/continual_learning.py --data DIR [--samples-per-class 10] [--epsilon 10] [--steps 1000]

DIR holds mnist/train.parquet and mnist/test.parquet, with columns image (a structure whose `bytes` are a PNG) and
label. A step takes about a second of one core.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from noisegate import Gate, PrivateSetGeneration, Synthesizer
from noisegate.schema.pixels import ImageShape, pixel_schema
from noisegate_evaluate import (
    LabelledRows,
    NetworkOptions,
    Training,
    networks,
    utility_scores,
)

STAGES = ((5, 6), (1, 2), (0, 8), (9, 3), (4, 7))
"""The digits of each party, in the order of the authors' program."""

SHAPE = ImageShape(height=28, width=28)
# About how many images of a digit there are, in public: MNIST says 60,000 of ten digits.
PER_DIGIT = 1 / 10


def main() -> None:
    """Runs the five stages, prints the accuracy after each, and draws it."""
    options = _options()
    train, test = (
        read_images(options.data / "mnist" / f"{part}.parquet")
        for part in ("train", "test")
    )
    train = LabelledRows(
        features=train.features[: options.rows], labels=train.labels[: options.rows]
    )
    memory: list[LabelledRows] = []
    accuracies: list[float] = []
    for stage, digits in enumerate(STAGES):
        made = private_set(train, digits, options, seed=stage)
        print(
            f"stage {stage + 1}, digits {digits}: epsilon = {made.certificate.check():.3f}, recomputed"
        )
        memory.append(rows_of(made, 2 * options.samples_per_class))
        met = [digit for digits in STAGES[: stage + 1] for digit in digits]
        accuracies.append(accuracy(memory, test, met, options.epochs))
        print(
            f"  accuracy on the test images of {sorted(met)}: {accuracies[-1]:.3f}",
            flush=True,
        )
    draw(accuracies, options)


def read_images(path: Path) -> LabelledRows:
    """Returns images, (images, 784) in [0, 1], and their digits."""
    table = pq.read_table(path)
    images = [
        np.asarray(Image.open(io.BytesIO(cell["bytes"]))).reshape(-1)
        for cell in table["image"].to_pylist()
    ]
    return LabelledRows(
        features=np.stack(images).astype(np.float32) / 255,
        labels=table["label"].to_numpy().astype(np.int64),
    )


def private_set(
    train: LabelledRows,
    digits: tuple[int, int],
    options: argparse.Namespace,
    *,
    seed: int,
) -> Synthesizer:
    """Returns the synthetic set of the party that has these digits."""
    schema = pixel_schema(SHAPE.height, SHAPE.width, labels=digits)
    mine = np.isin(train.labels, digits)
    pixels = np.rint(train.features[mine].T * 255).astype(np.int64)
    table = pa.table(
        [*map(pa.array, pixels), pa.array(train.labels[mine])], names=list(schema.names)
    )
    # A public number, not the party's own: its images are about a fifth of all.
    records = max(1, round(options.rows * PER_DIGIT * len(digits)))
    method = PrivateSetGeneration(
        samples_per_class=options.samples_per_class,
        image=(SHAPE.height, SHAPE.width, SHAPE.channels),
        width=options.width,
        steps=options.steps,
        sampling_probability=min(1.0, 256 / records),
        seed=seed,
    )
    gate = Gate(
        table, schema=schema, epsilon=options.epsilon, delta=1e-5, records=records
    )
    return method.fit(gate)


def rows_of(made: Synthesizer, size: int) -> LabelledRows:
    """Returns each image of a set of `size` once."""
    table = made.sample(size, seed=0)
    *names, label = made.schema.names
    pixels = np.stack([table[name].to_numpy() for name in names], axis=1)
    return LabelledRows(
        features=pixels.astype(np.float32) / 255,
        labels=table[label].to_numpy().astype(np.int64),
    )


def accuracy(
    memory: list[LabelledRows], test: LabelledRows, met: list[int], epochs: int
) -> float:
    """Returns the accuracy, on the test images of the digits met so far, of a ConvNet trained on the sets alone."""
    features = np.concatenate([rows.features for rows in memory])
    labels = np.concatenate([rows.labels for rows in memory])
    shown = np.isin(test.labels, met)
    form = (-1, SHAPE.height, SHAPE.width, SHAPE.channels)
    report = utility_scores(
        networks(
            ["ConvNet"], NetworkOptions(repeats=1, training=Training(epochs=epochs))
        ),
        LabelledRows(features=features.reshape(form), labels=labels),
        LabelledRows(
            features=test.features[shown].reshape(form), labels=test.labels[shown]
        ),
        classes=10,
        jobs=1,
    )
    return float(report.runs["ConvNet"][0].accuracy)


def draw(accuracies: list[float], options: argparse.Namespace) -> None:
    """Writes the accuracy after each stage as a picture."""
    figure, axes = plt.subplots(figsize=(5, 3.5))
    axes.plot(range(1, len(accuracies) + 1), accuracies, marker="o")
    axes.set(
        xlabel="training stage",
        ylabel="accuracy on the digits so far",
        ylim=(0, 1),
        xticks=range(1, 6),
    )
    axes.set_title(
        f"SplitMNIST, ε = {options.epsilon:g} for each party, {options.samples_per_class} images a digit"
    )
    figure.tight_layout()
    figure.savefig(options.out, dpi=150)
    print(f"drawn: {options.out}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Private continual learning with synthetic sets."
    )
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        help="folder with mnist/train.parquet and test.parquet",
    )
    parser.add_argument("--samples-per-class", type=int, default=10)
    parser.add_argument("--epsilon", type=float, default=10.0, help="of each party")
    parser.add_argument(
        "--steps", type=int, default=1000, help="noisy gradients of each party"
    )
    parser.add_argument(
        "--width",
        type=int,
        default=32,
        help="channels of the network that gradients are matched on",
    )
    parser.add_argument(
        "--rows",
        type=int,
        default=60_000,
        help="how many of the training images are used in all",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        default=300,
        help="of the network that is tested after each stage",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("continual_learning.png"),
        help="where the picture goes",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
