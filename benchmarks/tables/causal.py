"""Tables from structural causal models and other formulas, to judge verdicts on: what ties columns is known.

Bounds and levels follow from the formulas below and from no sample.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from noisegate import Schema
from noisegate.schema import Boolean, Categorical, Column, Continuous

Table = tuple[pa.Table, Schema]


def causal(
    rows: int,
    *,
    seed: int,
    columns: int = 10,
    classes: int = 2,
    rare: float | None = None,
) -> Table:
    """Numeric columns, each a rough function of two before it, and a label of five of them with interactions.

    tanh(x / 3) brings every value between -1 and 1; the second column is cut into five levels. With `rare`, the second
    of two classes has about this share of the records.
    """
    random = np.random.default_rng(seed)
    values = np.zeros((rows, columns))
    for place in range(columns):
        parents = random.choice(place, min(place, 2), replace=False) if place else []
        for parent in parents:
            slope, bend = random.normal(), 2 * random.normal()
            values[:, place] += (
                np.tanh(bend * values[:, parent]) + 0.5 * slope * values[:, parent]
            )
        values[:, place] = (values[:, place] + random.normal(size=rows)) / np.sqrt(
            1 + len(parents)
        )
    first, second, third, *_ = causes = random.choice(columns, 5, replace=False)
    weights, products, folds = (
        random.normal(size=(5, classes)),
        *random.normal(size=(2, classes)),
    )
    scores = values[:, causes] @ weights + 1.5 * np.outer(
        values[:, first] * values[:, second], products
    )
    scores += np.outer(np.abs(values[:, third]), folds)
    if rare is not None:
        scores[:, 1] += np.quantile(scores[:, 0] - scores[:, 1], 1 - 0.5 * rare) - 4
    label = (1.5 * scores + random.gumbel(size=scores.shape)).argmax(axis=1)
    cells: dict[str, np.ndarray] = {
        f"x{place}": np.round(np.tanh(values[:, place] / 3), 4)
        for place in range(columns)
    }
    cells["x1"] = np.array(list("abcde"))[
        np.digitize(values[:, 1], (-1.5, -0.5, 0.5, 1.5))
    ]
    levels = tuple(f"class {place}" for place in range(classes))
    schema: list[Column] = [
        Continuous(name=name, lower=-1.0, upper=1.0) for name in cells if name != "x1"
    ]
    schema += [
        Categorical(name="x1", levels=tuple("abcde")),
        Categorical(name="y", levels=levels),
    ]
    return pa.table(cells | {"y": np.array(levels)[label]}), Schema(
        tuple(schema), label="y"
    )


def exclusive(rows: int, *, seed: int) -> Table:
    """Six columns of four levels each, independent, and a label that is mostly the exclusive or of two of them."""
    random = np.random.default_rng(seed)
    codes = random.integers(0, 4, size=(rows, 6))
    label = ((codes[:, 0] > 1) ^ (codes[:, 1] > 1)) ^ (random.random(rows) < 0.15)
    cells = {f"c{place}": np.array(list("abcd"))[codes[:, place]] for place in range(6)}
    columns = [Categorical(name=name, levels=tuple("abcd")) for name in cells]
    return pa.table(cells | {"y": label}), Schema(
        (*columns, Boolean(name="y")), label="y"
    )


def answers(rows: int, *, seed: int, columns: int = 16) -> Table:
    """Questions of yes or no behind which are three hidden traits, and a label that they add up to."""
    random = np.random.default_rng(seed)
    traits = random.normal(size=(rows, 3)) @ random.normal(size=(3, columns))
    yes = traits + random.normal(size=(rows, columns)) > 0.7 * random.normal(
        size=columns
    )
    odds = 0.8 * (yes - 0.5) @ random.normal(size=columns) - 0.5
    cells = {f"q{place}": yes[:, place] for place in range(columns)}
    schema = Schema([Boolean(name=name) for name in (*cells, "y")], label="y")
    return pa.table(
        cells | {"y": random.random(rows) < 1 / (1 + np.exp(-odds))}
    ), schema


SIMULATED: dict[str, Callable[[int], Table]] = {
    "answers": lambda rows: answers(rows, seed=1),
    "causal": lambda rows: causal(rows, seed=3),
    "causal-8-classes": lambda rows: causal(rows, seed=6, columns=8, classes=8),
    "causal-rare": lambda rows: causal(rows, seed=5, columns=7, rare=0.04),
    "causal-20-columns": lambda rows: causal(rows, seed=8, columns=20),
    "exclusive": lambda rows: exclusive(rows, seed=2),
}
