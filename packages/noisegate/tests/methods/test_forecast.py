"""What is forecast from public facts is what the noise of a release does."""

import numpy as np
import pandas as pd
import pytest
from tests.shared.columns import boolean, categorical

from noisegate.answers.design import PAIRS, SINGLES
from noisegate.gate.gate import Gate
from noisegate.methods.forecast import expected_error
from noisegate.methods.pairwise import Pairwise
from noisegate.privacy.plan import Budget
from noisegate.schema import Schema

SCHEMA = Schema(
    (
        categorical("a", "abcdef"),
        categorical("b", "abcdefgh", missing=True),
        categorical("c", "abcd"),
        boolean("ill"),
    ),
    label="ill",
)


def frame(rows):
    random = np.random.default_rng(0)
    columns = {
        column.name: random.choice(column.levels, rows) for column in SCHEMA.columns[:3]
    }
    return pd.DataFrame(columns | {"ill": random.uniform(size=rows) < 0.5})


def test_the_noise_of_a_release_is_as_large_as_forecast():
    rows = 500
    method = Pairwise()
    records = frame(rows)
    expected = expected_error(method.plan(SCHEMA, Budget(epsilon=2.0)), rows)
    found = {SINGLES: [], PAIRS: []}
    for _ in range(20):
        release = method.query(Gate(records, schema=SCHEMA, epsilon=2.0))
        for table in method.measurements(release).tables:
            names = table.domain.names
            if len(names) == 1:
                continue
            coded = {column.name: column for column in SCHEMA.layout.coded}
            levels = [[*map(str, coded[name].levels)] for name in names]
            keys = [records[name].astype(str) for name in names]
            exact = pd.crosstab(keys[:-1], keys[-1]).reindex(
                columns=levels[-1], fill_value=0
            )
            shape = table.domain.shape
            # The missing cell is the last of a column, and empty.
            counts = np.zeros(shape)
            for cell, row in exact.iterrows():
                cell = cell if isinstance(cell, tuple) else (cell,)
                at = tuple(levels[axis].index(level) for axis, level in enumerate(cell))
                counts[at][: len(row)] = row
            off = (table.counts - counts) / rows
            found[SINGLES if len(shape) == 2 else PAIRS].append(
                (np.abs(off).sum() / 2, off.ravel()[::2].sum())
            )
    for name, errors in found.items():
        variation, half = np.asarray(errors).T
        assert variation.mean() == pytest.approx(
            expected[name].total_variation, rel=0.1
        )
        # 60 draws of a standard deviation, off by a tenth of itself; four of these.
        assert half.std() == pytest.approx(expected[name].noise_on_half, rel=0.4)
