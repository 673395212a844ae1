"""What a copy keeps of a regression that is known: simulated records, an OLS of a number on the other columns.

    python benchmarks/tables/regression.py [--records 2000 10000 50000] [--sets 4] [--epsilon 1]

Prints the mean absolute error of the seven coefficients against those that the records were made by, over several data
sets, with the records' own error beside it. Nothing is private; no setting was chosen on these data sets alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
from harness.options import read_options

import noisegate
from noisegate.schema import Boolean, Categorical, Continuous, Schema

LEVELS = {"a": 0.0, "b": 0.3, "c": 0.1, "d": -0.4}
TRUTH = np.array([0.5, -0.3, 0.0, 0.4, *list(LEVELS.values())[1:]])
SCHEMA = Schema(
    (
        *(Continuous(name=name, lower=-4, upper=4) for name in ("x1", "x2", "u")),
        Continuous(name="w", lower=-5, upper=5),
        Boolean(name="g"),
        Categorical(name="c", levels=tuple(LEVELS)),
        Boolean(name="y"),
    ),
    label="y",
)


def simulated(records: int, seed: int) -> pa.Table:
    """Returns records in which `w` is a linear function of the others, and noise."""
    random = np.random.default_rng(seed)
    x1, u, g = (
        random.normal(size=records),
        random.normal(size=records),
        random.random(records) < 0.4,
    )
    x2 = 0.5 * x1 + 0.9 * random.normal(size=records)
    c = np.array(list(LEVELS))[
        (np.clip(x1 + random.normal(size=records), -1.9, 1.9) // 1 + 2).astype(int)
    ]
    w = (
        0.5 * x1
        - 0.3 * x2
        + 0.4 * g
        + np.array([LEVELS[each] for each in c])
        + 0.8 * random.normal(size=records)
    )
    y = random.random(records) < 1 / (1 + np.exp(0.5 - 0.8 * x1 - 0.6 * g + 0.5 * x2))
    numbers = {"x1": x1, "x2": x2, "u": u, "w": w}
    return pa.table(
        {name: np.clip(value, -4, 4) for name, value in numbers.items()}
        | {"g": g, "c": c, "y": y}
    )


def coefficients(table: pa.Table) -> np.ndarray:
    """Returns the coefficients of an OLS of w on x1, x2, u, g and the levels b, c and d."""
    levels = np.array(table["c"].to_pylist())
    columns = [np.asarray(table[name], dtype=float) for name in ("x1", "x2", "u", "g")]
    columns += [(levels == level).astype(float) for level in list(LEVELS)[1:]]
    design = np.column_stack([np.ones(len(levels)), *columns])
    return np.linalg.lstsq(design, np.asarray(table["w"], dtype=float), rcond=None)[0][
        1:
    ]


def main() -> None:
    """Prints a line for each number of records."""
    options = read_options(
        __doc__,
        records=[2_000, 10_000, 50_000],
        sets=4,
        epsilon=1.0,
    )
    for records in options.records:
        errors = []
        for seed in range(options.sets):
            real = simulated(records, seed)
            copy = noisegate.synthesize(
                real, schema=SCHEMA, epsilon=options.epsilon, method="pairwise"
            ).sample(60_000, seed=0)
            errors.append(
                [np.abs(coefficients(table) - TRUTH).mean() for table in (copy, real)]
            )
        mean, spread = np.mean(errors, axis=0), np.std(errors, axis=0)
        print(
            f"{records:>7,} records: {mean[0]:.3f} ± {spread[0]:.3f} (real records {mean[1]:.3f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
