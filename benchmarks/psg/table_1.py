"""Table 1 of PSG: networks trained on private sets, beside DP-SGD on the records and real images without privacy.

    python benchmarks/psg/table_1.py --data DIR --out DIR [--rows psg dp-sgd real] [--epsilon 1 10]

Rows of the other methods: ../baselines/run.py. See README.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from harness.images import labelled_rows
from harness.options import choices, read_options
from harness.printing import run_main
from psg.descent import classifier_of, descent_of, right
from psg.sets import OPTIONS, Bench, cell_of, published, run_cells

from noisegate_evaluate import LabelledRows

ROWS = ("psg", "dp-sgd", "real")
SETS = {1.0: (20,), 10.0: (10, 20)}
"""Images of each class by ε, as the paper has them."""


def main() -> None:
    """Makes the page."""
    options = read_options(
        __doc__,
        **OPTIONS,
        rows=choices(ROWS),
        epsilon=choices(sorted(SETS)),
        samples_per_class=[10, 20],
    )
    cells = [
        cell_of(
            options,
            f"PSG, ε = {epsilon:g}",
            f"{each} of each class",
            samples_per_class=each,
            epsilon=epsilon,
            paper=published(
                "1",
                options.data_set,
                method="psg",
                epsilon=epsilon,
                samples_per_class=each,
            ),
        )
        for epsilon in options.epsilon
        for each in SETS[epsilon]
        if "psg" in options.rows and each in options.samples_per_class
    ]
    run_cells(
        "PSG, Table 1",
        options,
        cells,
        more=lambda bench: [
            row | {"accuracy": statistics.fmean(row["sets"])}
            for row in _references(bench, options)
        ],
    )


def _references(bench: Bench, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yields the rows that need no set."""
    for epsilon in options.epsilon if "dp-sgd" in options.rows else ():
        scores = []
        recomputed = 0.0
        for seed in range(options.seeds):
            method = descent_of(
                options.schedule,
                records=bench.records,
                steps=options.steps,
                width=options.width,
                seed=seed,
            )
            model = classifier_of(bench, method, epsilon, name="dp-sgd")
            hits = right(model, bench.loaded.test, bench.loaded.schema)
            scores.append(float(hits.mean()))
            recomputed = max(recomputed, model.certificate.check())
        yield {
            "row": f"DP-SGD, ε = {epsilon:g}",
            "column": "all records",
            "epsilon": epsilon,
            "recomputed": recomputed,
            "sets": scores,
            "paper": published("1", options.data_set, method="dp-sgd", epsilon=epsilon),
        }
    for each in options.samples_per_class if "real" in options.rows else ():
        train = labelled_rows(bench.loaded.train)
        scores = []
        for seed in range(options.seeds):
            folder = bench.out / f"{bench.data_set}-real-{each}-{seed}"
            drawn = _some(train, each, seed)
            scores.append(statistics.fmean(bench.accuracies(folder, drawn, "ConvNet")))
        yield {
            "row": "real, not private",
            "column": f"{each} of each class",
            "sets": scores,
            "paper": published(
                "1", options.data_set, method="real", samples_per_class=each
            ),
        }


def _some(rows: LabelledRows, each: int, seed: int) -> LabelledRows:
    """Returns so many images of each class, drawn at random."""
    random = np.random.default_rng(seed)
    classes = np.unique(rows.labels)
    drawn = np.concatenate(
        [
            random.choice(np.flatnonzero(rows.labels == one), each, replace=False)
            for one in classes
        ]
    )
    return LabelledRows(features=rows.features[drawn], labels=rows.labels[drawn])


if __name__ == "__main__":
    run_main(main)
