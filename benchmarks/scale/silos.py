"""Adult in silos that may not pool: the pooled table, merged releases and secure sums, at one ε.

    python benchmarks/scale/silos.py --data DIR [--epsilon 1] [--seeds 3] [--silos 3 10] [--json FILE]

DIR holds train.csv and test.csv of the UCI table "Adult". Each seed deals the training rows to the silos anew, and each
run draws fresh noise. All runs ask by the same plan. Scores are computed on real data, outside the guarantee. Rows that
FILE holds already are not run again.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
from harness.options import needed, optional, read_options
from harness.results import write_json

from noisegate import Gate, Schema, merge, release
from noisegate.gate.silos.keys import write_key
from noisegate.methods.registry import make_for
from noisegate.sources.frames import read_table
from noisegate_evaluate import evaluate_tables

HERE = Path(__file__).parent
COLLUDING = 1
FIGURES = {
    "roc_auc": "ROC-AUC",
    "f1": "F1",
    "distance_1": "1-way distance",
    "distance_2": "2-way distance",
}


def main() -> int:
    """Runs what is missing, and prints the table."""
    options = read_options(
        __doc__,
        data=needed(Path, "folder with train.csv and test.csv"),
        epsilon=1.0,
        seeds=3,
        silos=[3, 10],
        json=optional(Path),
    )
    schema = Schema.from_toml(HERE.parent / "adult" / "schema.toml")
    train, test = (
        read_table(options.data / name, schema) for name in ("train.csv", "test.csv")
    )
    rows = (
        json.loads(options.json.read_text())
        if options.json and options.json.exists()
        else []
    )
    for seed in range(options.seeds):
        for way, silos in [
            ("pooled", 1),
            *((way, n) for n in options.silos for way in ("merged", "secure sum")),
        ]:
            if any(
                (row["way"], row["silos"], row["seed"]) == (way, silos, seed)
                for row in rows
            ):
                continue
            started = time.perf_counter()
            synthetic = _made(way, silos, seed, schema, train, options.epsilon)
            seconds = time.perf_counter() - started
            report = evaluate_tables(synthetic, test, schema)
            mean = report.downstream.mean
            figures = {"roc_auc": mean.roc_auc, "f1": mean.f1}
            figures |= {
                f"distance_{order}": report.marginals.order(order).mean
                for order in (1, 2)
            }
            rows.append(
                {
                    "way": way,
                    "silos": silos,
                    "seed": seed,
                    "seconds": seconds,
                    **figures,
                }
            )
            write_json(options.json, rows, indent=1)
    _print(rows)
    return 0


def _made(
    way: str, silos: int, seed: int, schema: Schema, train: pa.Table, epsilon: float
) -> pa.Table:
    """Returns as many synthetic records as there are real ones."""
    method = make_for("auto", schema, {"seed": seed}).settled(schema, epsilon)
    if way == "pooled":
        model = method.fit(Gate(train, schema=schema, epsilon=epsilon))
        return model.sample(len(train), seed=seed)
    order = np.random.default_rng(seed).permutation(len(train))
    parts = {f"silo-{place}": train.take(order[place::silos]) for place in range(silos)}
    with tempfile.TemporaryDirectory() as folder:
        masked = {
            name: _keys(name, Path(folder)) if way == "secure sum" else {}
            for name in parts
        }
        after = None
        while after is None or not hasattr(after, "sample"):
            asked = {
                "schema": schema,
                "method": method,
                "epsilon": epsilon,
                "after": after,
            }
            answers = [
                release(part, silo=name, **asked, **masked[name])
                for name, part in parts.items()
            ]
            after = merge(
                answers, after=after, stated_by="the benchmark, which dealt the rows"
            )
    return after.sample(len(train), seed=seed)


def _keys(silo: str, folder: Path) -> dict[str, object]:
    write_key(silo, folder / f"{silo}.key")
    return {"secure_sum": folder, "key": folder / f"{silo}.key", "colluding": COLLUDING}


def _print(rows: list[dict]) -> None:
    print(f"| | {' | '.join(FIGURES.values())} |\n| --- |{' --- |' * len(FIGURES)}")
    for way, silos in dict.fromkeys((row["way"], row["silos"]) for row in rows):
        runs = [row for row in rows if (row["way"], row["silos"]) == (way, silos)]
        cells = [_spread([run[name] for run in runs]) for name in FIGURES]
        print(
            f"| {way if silos == 1 else f'{way}, {silos} silos'} | {' | '.join(cells)} |"
        )


def _spread(values: list[float]) -> str:
    return f"{statistics.fmean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


if __name__ == "__main__":
    sys.exit(main())
