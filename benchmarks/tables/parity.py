"""Whether a label that no pair of columns knows is learned: the parity of k yes-or-no columns, of 14,000 records.

    python benchmarks/tables/parity.py [--method tab-pe] [--columns 2 3 4 5 6 7] [--seeds 2] [--epsilon 1]

A twentieth of the labels is wrong, and three more columns say nothing. Prints the ROC-AUC of boosted trees and of a
random forest that saw as many synthetic records, on 6,000 real ones, and of how many synthetic labels the parity is.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.metrics import roc_auc_score

import noisegate
from noisegate.schema import Boolean, Schema

RECORDS, TEST = 14_000, 6_000


def records(columns: int, rows: int, seed: int) -> pd.DataFrame:
    """Returns records whose label is the parity of so many columns, but for a twentieth."""
    random = np.random.default_rng(seed)
    held = random.random((rows, columns + 3)) < 0.5
    frame = pd.DataFrame(held, columns=[f"x{place}" for place in range(columns + 3)])
    return frame.assign(
        odd=(held[:, :columns].sum(axis=1) % 2 == 1) ^ (random.random(rows) < 0.05)
    )


def main() -> None:
    """Prints a line for each number of columns."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--method", default="tab-pe")
    parser.add_argument("--columns", nargs="+", type=int, default=[2, 3, 4, 5, 6, 7])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epsilon", type=float, default=1.0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for columns in options.columns:
        found = [scores(columns, seed, options) for seed in range(options.seeds)]
        trees, forest, right = np.mean(found, axis=0)
        print(
            f"{columns}: trees {trees:.3f}, forest {forest:.3f}, labels right {right:.3f}",
            flush=True,
        )


def scores(
    columns: int, seed: int, options: argparse.Namespace
) -> tuple[float, float, float]:
    """Returns both areas, and the part of synthetic labels that are the parity."""
    real, test = records(columns, RECORDS, seed), records(columns, TEST, 100 + seed)
    schema = Schema(tuple(Boolean(name=name) for name in real.columns), label="odd")
    model = noisegate.fit(
        real, schema=schema, epsilon=options.epsilon, method=options.method
    )
    made = model.sample(RECORDS, seed=seed)
    inputs, label = made.drop(columns="odd").astype(float), made["odd"].astype(bool)
    areas = []
    for classifier in (
        HistGradientBoostingClassifier(random_state=0),
        RandomForestClassifier(random_state=0),
    ):
        shares = classifier.fit(inputs, label).predict_proba(
            test.drop(columns="odd").astype(float)
        )[:, 1]
        areas.append(float(roc_auc_score(test["odd"], shares)))
    return (
        areas[0],
        areas[1],
        float(((inputs.iloc[:, :columns].sum(axis=1) % 2 == 1) == label).mean()),
    )


if __name__ == "__main__":
    main()
