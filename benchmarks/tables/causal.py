"""Records of a structural causal model: what ties their columns is known.

Bounds and levels follow from the formulas below and from no sample.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from noisegate import Schema
from noisegate.schema import Categorical, Column, Continuous

N_COLUMNS = 10
N_CLASSES = 2
_SEED = 3
_LEVELS = tuple("abcde")
_LEVEL_ENDS = (-1.5, -0.5, 0.5, 1.5)


def schema() -> Schema:
    """Returns what is public: nine numbers between -1 and 1, a column of five levels, a label of two classes."""
    columns: list[Column] = [
        Continuous(name=f"x{index}", lower=-1.0, upper=1.0)
        for index in range(N_COLUMNS)
        if index != 1
    ]
    columns.append(Categorical(name="x1", levels=_LEVELS))
    columns.append(Categorical(name="y", levels=_class_names()))
    return Schema(tuple(columns), label="y")


def causal(n_records: int) -> pa.Table:
    """Simulates numbers, each a rough function of two before it, and a label of five of them with interactions.

    tanh(x / 3) brings every number between -1 and 1; the second column is cut into five levels.
    """
    random = np.random.default_rng(_SEED)
    values = np.zeros((n_records, N_COLUMNS))
    for index in range(N_COLUMNS):
        parents = random.choice(index, min(index, 2), replace=False) if index else []
        for parent in parents:
            slope = random.normal()
            bend = 2 * random.normal()
            values[:, index] += np.tanh(bend * values[:, parent])
            values[:, index] += 0.5 * slope * values[:, parent]
        values[:, index] += random.normal(size=n_records)
        values[:, index] /= np.sqrt(1 + len(parents))
    labels = _draw_labels(values, random)
    cells: dict[str, np.ndarray] = {
        f"x{index}": np.round(np.tanh(values[:, index] / 3), 4)
        for index in range(N_COLUMNS)
    }
    cells["x1"] = np.array(_LEVELS)[np.digitize(values[:, 1], _LEVEL_ENDS)]
    cells["y"] = np.array(_class_names())[labels]
    return pa.table(cells)


def _draw_labels(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Draws a class of each record, (records,), from the values of five columns."""
    causes = random.choice(N_COLUMNS, 5, replace=False)
    first, second, third = causes[:3]
    weights = random.normal(size=(5, N_CLASSES))
    product_weights, fold_weights = random.normal(size=(2, N_CLASSES))
    scores = values[:, causes] @ weights
    scores += 1.5 * np.outer(values[:, first] * values[:, second], product_weights)
    scores += np.outer(np.abs(values[:, third]), fold_weights)
    return (1.5 * scores + random.gumbel(size=scores.shape)).argmax(axis=1)


def _class_names() -> tuple[str, ...]:
    return tuple(f"class {index}" for index in range(N_CLASSES))
