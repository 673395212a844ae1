"""Table 1 of PSG: networks trained on private sets, beside DP-SGD on the records and real images without privacy.

    python benchmarks/psg/table_1.py --data DIR --out DIR [--rows psg dp-sgd real] [--epsilon 1 10]

Rows of the other methods: ../baselines/run.py. See README.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from psg.descent import classifier_of, descent_of, right
from psg.sets import Bench, Cell, method_of, parser_of, published, rows_of, run_cells

from noisegate_evaluate import LabelledRows

ROWS = ("psg", "dp-sgd", "real")
SETS = {1.0: (20,), 10.0: (10, 20)}
"""Images of each class by ε, as the paper has them."""


def main() -> int:
    """Makes the page; 0 when it ran, 2 when it cannot."""
    parser = parser_of(__doc__ or "")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument(
        "--epsilon", type=float, nargs="+", choices=sorted(SETS), default=sorted(SETS)
    )
    parser.add_argument("--samples-per-class", type=int, nargs="+", default=[10, 20])
    options = parser.parse_args()
    cells = []
    for epsilon in options.epsilon if "psg" in options.rows else ():
        for each in (
            each for each in SETS[epsilon] if each in options.samples_per_class
        ):
            given = {"steps": options.steps, "width": options.width}
            method = method_of(
                options.schedule, samples_per_class=each, epsilon=epsilon, **given
            )
            paper = published(
                "1",
                options.data_set,
                method="psg",
                epsilon=epsilon,
                samples_per_class=each,
            )
            told = {"row": f"PSG, ε = {epsilon:g}", "column": f"{each} of each class"}
            cells.append(Cell(**told, method=method, epsilon=epsilon, paper=paper))
    return run_cells(
        "PSG, Table 1", options, cells, more=lambda bench: _references(bench, options)
    )


def _references(bench: Bench, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the rows that need no set."""
    found = []
    for epsilon in options.epsilon if "dp-sgd" in options.rows else ():
        scores, recomputed = [], 0.0
        for seed in range(options.seeds):
            given = {
                "records": bench.records,
                "steps": options.steps,
                "width": options.width,
                "seed": seed,
            }
            model = classifier_of(
                bench, descent_of(options.schedule, **given), epsilon, name="dp-sgd"
            )
            scores.append(
                float(right(model, bench.loaded.test, bench.loaded.schema).mean())
            )
            recomputed = max(recomputed, model.certificate.check())
        paper = published("1", options.data_set, method="dp-sgd", epsilon=epsilon)
        told = {
            "row": f"DP-SGD, ε = {epsilon:g}",
            "column": "all records",
            "epsilon": epsilon,
        }
        found.append(told | {"recomputed": recomputed, "sets": scores, "paper": paper})
    for each in options.samples_per_class if "real" in options.rows else ():
        scores = [
            statistics.fmean(
                bench.accuracies(
                    bench.out / f"{bench.data_set}-real-{each}-{seed}", some, "ConvNet"
                )
            )
            for seed in range(options.seeds)
            for some in [
                _some(rows_of(bench.loaded.train, bench.loaded.schema), each, seed)
            ]
        ]
        paper = published("1", options.data_set, method="real", samples_per_class=each)
        found.append(
            {
                "row": "real, not private",
                "column": f"{each} of each class",
                "sets": scores,
                "paper": paper,
            }
        )
    return [one | {"accuracy": statistics.fmean(one["sets"])} for one in found]


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
    sys.exit(main())
