"""What copies keep of associations and of Pearson's correlations, with numbers joined within their cells and without.

    python benchmarks/tables/kept.py --tables DIR [--names adult loans ...] [--epsilon 1] [--releases 3]

DIR is OUT/tables of `run.py`, which makes the tables. Of associations (rank correlations, Cramér's V, correlation
ratios) and Pearson's correlations above .3 of real records: the mean part that is kept, none with the wrong sign; and
the mean error of all. Both copies are of one fit: samples of it differ by `copula` alone.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import noisegate
from noisegate import Schema
from noisegate.sources.frames import read_table
from noisegate_evaluate.metrics.analyses import associations


def main() -> None:
    """Prints a line for each table, and the means."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--names", nargs="+")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--releases", type=int, default=3)
    options = parser.parse_args()
    names = options.names or sorted(
        path.parent.name for path in options.tables.glob("*/done")
    )
    print(
        "table, then of associations and of Pearson's correlations: kept before, after; error before, after"
    )
    for name in names:
        folder = options.tables / name
        schema = Schema.from_toml(folder / "schema.toml")
        real = read_table(folder / "train.csv", schema)
        found = []
        for seed in range(options.releases):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made: Any = noisegate.synthesize(
                    folder / "train.csv",
                    schema=schema,
                    epsilon=options.epsilon,
                    method="pairwise",
                    seed=seed,
                )
            for joined in (False, True):
                model = made.model
                if hasattr(model, "mixture"):
                    model = replace(
                        model, mixture=replace(model.mixture, copula=joined)
                    )
                else:
                    model = replace(model, copula=joined)
                found.append(
                    kept_figures(
                        replace(made, model=model).sample(len(real), seed=0),
                        real,
                        schema,
                    )
                )
        means = np.array(found).reshape(options.releases, 2, 4).mean(axis=0)
        ranks, pearson = means[:, :2].T.ravel(), means[:, 2:].T.ravel()
        print(
            f"{name:10} {' '.join(f'{one:6.3f}' for one in (*ranks, *pearson))}",
            flush=True,
        )


def kept_figures(copy: pa.Table, real: pa.Table, schema: Schema) -> list[float]:
    """Returns kept and error of associations, then of Pearson's correlations; kept is nan where none is above .3."""
    ranks = [
        associations(one, schema.columns, schema, signed=True) for one in (copy, real)
    ]
    return [
        *_kept_and_error(*ranks),
        *_kept_and_error(_pearson(copy, schema), _pearson(real, schema)),
    ]


def _kept_and_error(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    upper = np.triu(np.isfinite(theirs), 1)
    made, truth = np.nan_to_num(ours[upper]), theirs[upper]
    strong = np.abs(truth) >= 0.3
    kept = np.clip(made[strong] / truth[strong], 0, 1)
    return float(kept.mean()) if strong.any() else float("nan"), float(
        np.abs(made - truth).mean()
    )


def _pearson(table: pa.Table, schema: Schema) -> np.ndarray:
    frame = table.select(
        [column.name for column in schema.columns if column.numeric]
    ).to_pandas()
    return np.asarray(frame.apply(lambda one: one.astype(float)).corr().to_numpy())


if __name__ == "__main__":
    main()
