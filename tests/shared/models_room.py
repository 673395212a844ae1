"""A small classifier that was trained through the gate, and records that it never saw."""

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, continuous

from noisegate import Gate
from noisegate.schema import EncodedTable, Schema
from noisegate_papers.methods.dp_llm import DPLLM

LABEL = categorical("y", ("no", "yes", "other"))
REST = [
    continuous("v", missing=True),
    categorical("c", "rg", missing=True),
    boolean("flag"),
]
TRAINED_SCHEMA = Schema([continuous("u"), LABEL, *REST], label="y")


@pytest.fixture(scope="session")
def trained():
    random = np.random.default_rng(0)
    u = random.random(300)
    table = pa.table(
        {
            "u": u,
            "y": np.where(u > 0.5, "yes", "no"),
            "v": random.random(300),
            "c": ["r", "g", None] * 100,
            "flag": [True, False] * 150,
        }
    )
    method = DPLLM(
        maps=3,
        steps=3,
        sampling_probability=0.2,
        temperature=2.0,
        init_std=2.0,
        centre=0.25,
    )
    return method.fit(Gate(table, schema=TRAINED_SCHEMA, epsilon=20.0, records=300))


@pytest.fixture
def unseen():
    random = np.random.default_rng(1)
    numeric = random.random((6, 2))
    numeric[2, 1] = np.nan
    codes = np.stack(
        [random.integers(0, 3, 6), random.integers(0, 2, 6)], axis=1
    ).astype(np.int32)
    return EncodedTable(numeric, codes)
