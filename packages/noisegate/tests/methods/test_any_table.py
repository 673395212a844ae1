"""Tables of any kind and size, at any ε: a fit ends, what it draws keeps to the schema, and far fits say so."""

import warnings

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate import Gate, Pairwise, Schema
from noisegate.errors import FitWarning
from noisegate.schema.encode import encode

LABELS = ("none", "boolean", "three", "ten", "numeric", "rare")


def random_tables_made(seed):
    """A table of 1 to 9 dependent columns and 1 to 4,000 records, with its schema, a label of any kind, and ε."""
    random = np.random.default_rng(seed)
    rows = int(np.exp(random.uniform(0, np.log(4000))))
    hidden = random.normal(size=(rows, 2))
    columns = []
    values = {}
    for index in range(random.integers(1, 10)):
        name = f"c{index}"
        strength = random.choice([0.0, 0.5, 3.0])
        signal = strength * hidden @ random.normal(size=2) + random.normal(size=rows)
        missing = bool(random.random() < 0.3)
        kind = random.integers(4)
        if kind == 0:
            columns.append(
                continuous(
                    name, -5.0, float(random.choice([5.0, 1e6])), missing=missing
                )
            )
            values[name] = np.clip(
                np.exp(signal) if random.random() < 0.5 else signal, -5, 5
            )
        elif kind == 1:
            columns.append(
                integer(name, 0, int(random.choice([1, 9, 10**6])), missing=missing)
            )
            values[name] = np.clip((signal * 2).astype(np.int64), 0, columns[-1].upper)
        else:
            size = int(random.choice([1, 2, 7, 40]))
            columns.append(
                categorical(
                    name, tuple(f"l{level}" for level in range(size)), missing=missing
                )
            )
            values[name] = np.array(
                [
                    f"l{level}"
                    for level in np.clip((signal * 2 + size / 2), 0, size - 1).astype(
                        int
                    )
                ]
            )
        if missing:
            values[name] = pa.array(values[name], mask=random.random(rows) < 0.2)
    kind = random.choice(LABELS)
    chance = 1 / (1 + np.exp(-2 * hidden[:, 0]))
    if kind in ("boolean", "rare"):
        columns.append(boolean("y"))
        values["y"] = random.random(rows) < (
            chance if kind == "boolean" else 0.02 * chance
        )
    elif kind in ("three", "ten"):
        levels = 3 if kind == "three" else 10
        columns.append(
            categorical(
                "y", tuple(map(str, range(levels))), missing=bool(random.random() < 0.5)
            )
        )
        values["y"] = (
            np.clip(chance * levels + random.normal(size=rows), 0, levels - 1)
            .astype(int)
            .astype(str)
        )
    elif kind == "numeric":
        columns.append(continuous("y"))
        values["y"] = chance
    label = None if kind == "none" else "y"
    return (
        pa.table(values),
        Schema(tuple(columns), label=label),
        float(10 ** random.uniform(-2, 1.5)),
    )


def check(seed):
    table, schema, epsilon = random_tables_made(seed)
    count_is_public = bool(seed % 2)
    gate = Gate(
        table,
        schema=schema,
        epsilon=epsilon,
        **({"records": table.num_rows} if count_is_public else {}),
    )
    method = Pairwise(seed=seed, fit_options={"components": 60})
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        model = method.fit(gate)
    far = [
        caught for caught in caught_warnings if issubclass(caught.category, FitWarning)
    ]
    assert not [str(caught.message) for caught in caught_warnings if caught not in far]
    assert bool(far) == (2 < model.summary.discrepancy < np.inf)
    drawn = model.sample(200, seed=0)
    assert drawn.num_rows == 200
    assert drawn.schema.names == list(schema.names)
    encode({name: drawn[name].combine_chunks() for name in schema.names}, schema)


@pytest.mark.parametrize("seed", range(12))
def test_any_table_is_fitted_and_drawn(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 212))
def test_two_hundred_tables_are_fitted_and_drawn(seed):
    check(seed)
