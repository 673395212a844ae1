"""Scores settings of DP-MERF on simulated digits, which are public: this is where the defaults for images come from.

Each line of settings is fitted to private simulated digits, through the gate, and six quick classifiers are trained on
synthetic and tested on other simulated digits. Nothing here has seen a real digit.

    python benchmarks/dp_merf/choose_images.py --epsilon 1 --set '{"length_scale": 5}' --set '{"length_scale": 10}'
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from simulated_digits import Images, Labels, simulated_digits

from noisegate import DPMERF, Gate
from noisegate.schema import Schema, pixel_schema

SCHEMA = pixel_schema(28, 28, labels=range(10))
BASE = {"generator": "convolutional", "image": (28, 28, 1)}


def pixel_table(images: Images, labels: Labels, schema: Schema = SCHEMA) -> pa.Table:
    """Returns images, (rows, height, width), and labels as a table of the columns of `schema`."""
    pixels = images.reshape(len(images), -1).T.astype(np.int64)
    return pa.table(
        [*map(pa.array, pixels), pa.array(labels)], names=list(schema.names)
    )


def pixels_of(table: pa.Table) -> tuple[npt.NDArray[np.float64], Labels]:
    """Returns the intensities in [0, 1], (rows, pixels), and the labels of a table of pixels."""
    *pixels, labels = (column.to_numpy() for column in table.columns)
    return np.stack(pixels, axis=1) / 255, labels


def score(made: pa.Table, images: Images, labels: Labels) -> dict[str, float]:
    """Returns the accuracy on `images` of each quick classifier trained on `made`."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier
    from sklearn.tree import DecisionTreeClassifier

    models: dict[str, Any] = {
        "logistic": LogisticRegression(max_iter=40),
        "mlp": MLPClassifier(max_iter=8, random_state=0),
        "forest": RandomForestClassifier(30, random_state=0),
        "bayes": GaussianNB(),
        "lda": LinearDiscriminantAnalysis(
            solver="eigen", shrinkage=0.5, n_components=9
        ),
        "tree": DecisionTreeClassifier(random_state=0),
    }
    train, answers = pixels_of(made)
    test = images.reshape(len(images), -1) / 255
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few iterations are meant
        return {
            name: float((model.fit(train, answers).predict(test) == labels).mean())
            for name, model in models.items()
        }


def run(
    settings: dict[str, Any], table: pa.Table, epsilon: float, rows: int
) -> dict[str, Any]:
    """Returns the scores and times of one line of settings; `rows` synthetic and test images."""
    start = time.process_time()
    gate = Gate(
        table,
        schema=SCHEMA,
        epsilon=epsilon,
        delta=1e-5,
        adjacency="replace-one",
        records=table.num_rows,
    )
    fitted = DPMERF(**{**BASE, **settings}).fit(gate, device="cpu")
    seconds = time.process_time() - start
    scores = score(fitted.sample(rows, seed=0), *simulated_digits(rows, seed=2))
    mean = float(np.mean(list(scores.values())))
    return {
        "settings": settings,
        "mean": mean,
        **scores,
        "discrepancy": fitted.summary.discrepancy,
        "cpu_s": seconds,
    }


def main() -> None:
    """Prints one JSON line for each line of settings."""
    parser = argparse.ArgumentParser(
        description="Compare settings of DP-MERF for images on simulated digits."
    )
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--records", type=int, default=60_000)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument(
        "--set",
        type=json.loads,
        action="append",
        default=[],
        help="settings of DPMERF as JSON",
    )
    arguments = parser.parse_args()
    table = pixel_table(*simulated_digits(arguments.records, seed=1))
    for settings in arguments.set or [{}]:
        print(
            json.dumps(run(settings, table, arguments.epsilon, arguments.rows)),
            flush=True,
        )


if __name__ == "__main__":
    main()
