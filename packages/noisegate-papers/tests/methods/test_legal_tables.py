"""Whatever a schema allows is made, by each method in the same way: no label, one column, one record, one value."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from noisegate import Gate
from noisegate.methods.registry import METHODS, make_for
from noisegate.schema import Boolean, Continuous, Integer, Schema, pixel_schema

X, N, Y = (
    Continuous(name="x", lower=0.0, upper=1.0),
    Integer(name="n", lower=0, upper=5),
    Boolean(name="y"),
)
NUMBERS, LABELS = {"x": [0.1, 0.9] * 20}, {"y": [True, False] * 20}
TABLES = {
    "unlabelled": (Schema((X, Y)), NUMBERS | LABELS),
    "numeric label": (Schema((X, Y), label="x"), NUMBERS | LABELS),
    "one class": (Schema((X, Y), label="y"), NUMBERS | {"y": [True] * 40}),
    "one numeric column": (Schema((X,)), NUMBERS),
    "one column of whole numbers": (Schema((N,)), {"n": [0, 5] * 20}),
    "one coded column": (Schema((Y,)), LABELS),
    "all missing": (
        Schema(
            (Continuous(name="x", lower=0.0, upper=1.0, missing=True), Y), label="y"
        ),
        {"x": pa.nulls(40, pa.float64())} | LABELS,
    ),
    "constant": (Schema((X, Y), label="y"), {"x": [0.5] * 40} | LABELS),
    "one row": (Schema((X, Y), label="y"), {"x": [0.5], "y": [True]}),
    "missing label": (
        Schema((X, Boolean(name="y", missing=True)), label="y"),
        NUMBERS | {"y": [True, None] * 20},
    ),
}
OF_SUMS = {
    "dp-merf": {
        "frequencies": 50,
        "latent": 4,
        "hidden": (16,),
        "fit_options": {"steps": 10},
    },
    "dp-hp": {"components": 8, "fit_options": {"steps": 10}},
    "pairwise": {"fit_options": {"components": 8, "steps": 10}},
    "privbayes": {},
    "tab-pe": {"rounds": 2},
}
OF_STEPS = ("dp-gan", "dp-sinkhorn", "datalens", "pate-gan", "g-pate", "gs-wgan")


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", OF_SUMS)
def test_legal_tables_are_made(name, table, adjacency):
    schema, columns = TABLES[table]
    data = pa.table(columns)
    # Few records at a small budget: noise drowns everything, and still nothing may fail.
    gate = Gate(
        data, schema=schema, epsilon=0.01, adjacency=adjacency, records=data.num_rows
    )
    fitted = make_for(name, schema, OF_SUMS[name]).fit(gate, device="cpu")
    assert fitted.sample(100, seed=0).column_names == list(schema.names)
    assert fitted.certificate.check() <= 0.01 * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["no label", "numeric label", "images"])
@pytest.mark.parametrize("name", OF_STEPS)
def test_methods_of_steps_make_tables_without_classes_and_images(name, kind):
    random, more = np.random.default_rng(0), {}
    if kind == "images":
        schema, more = pixel_schema(4, 4, labels=("x", "y")), {"channels": (2, 2)}
        data = pd.DataFrame(
            random.integers(0, 256, (20, 16)), columns=list(schema.names[:-1])
        )
        data[schema.label] = ["x", "y"] * 10
    else:
        schema = Schema((X, N), label="n" if kind == "numeric label" else None)
        data = pd.DataFrame({"x": random.random(20), "n": random.integers(0, 6, 20)})
    largest = {"largest": 1} if name == "datalens" else {}
    method = make_for(
        name, schema, {**METHODS[name].audit_settings, **largest, "steps": 2, **more}
    )
    fitted = method.fit(
        Gate(data, schema=schema, epsilon=5.0, records=20), device="cpu"
    )
    assert fitted.sample(3, seed=0).column_names == list(schema.names)
