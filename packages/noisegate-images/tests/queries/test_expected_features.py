"""The expected features that a generator is matched through are those that the gate computes of records."""

import numpy as np
import torch

from noisegate.schema import (
    Boolean,
    Categorical,
    Continuous,
    EncodedTable,
    Integer,
    Schema,
)
from noisegate.schema.layout import numeric_cells
from noisegate_images.queries.fourier import draw

COLUMNS = (
    Integer(name="count", lower=0, upper=5, missing=True),
    Continuous(name="rate", lower=0.0, upper=1.0, missing=True),
    Categorical(name="kind", levels=("a", "b", "c"), missing=True),
    Boolean(name="flag"),
)


def features(schema, kernel, exclude_label=False):
    layout = schema.layout
    scales = [(0.05, 0.5)] * len(layout.numeric)
    return draw(
        layout,
        count=80,
        kernel=kernel,
        length_scales=scales,
        exclude_label=exclude_label,
        seed=3,
    )


def test_fourier_over_intervals_is_the_mean_over_records():
    schema = Schema(COLUMNS)
    private = features(schema, "pairs")
    random = np.random.default_rng(5)
    probabilities = []
    for size in [numeric_cells(column).size for column in schema.layout.numeric] + [
        4,
        2,
    ]:
        share = random.uniform(size=size)
        probabilities.append(share / share.sum())
    rows = 200_000
    numeric = np.empty((rows, 2))
    for place, column in enumerate(schema.layout.numeric):
        cells = numeric_cells(column)
        chosen = random.choice(cells.size, rows, p=probabilities[place])
        low, high = (
            np.append(cells.low, np.nan)[chosen],
            np.append(cells.high, np.nan)[chosen],
        )
        numeric[:, place] = low + random.uniform(size=rows) * (high - low)
    codes = np.stack(
        [random.choice(len(p), rows, p=p) for p in probabilities[2:]], axis=1
    ).astype(np.int32)
    found = private(EncodedTable(numeric, codes)).mean(axis=0, dtype=np.float64)
    given = [torch.from_numpy(p[:, None].astype(np.float32)) for p in probabilities]
    expected = private.of_cells(schema.layout)(given).numpy()[:, 0]
    # One coordinate of a record has standard deviation at most 1/√F; six of those of the mean, for 160 coordinates.
    np.testing.assert_allclose(found, expected, atol=6 * 80**-0.5 * rows**-0.5)
