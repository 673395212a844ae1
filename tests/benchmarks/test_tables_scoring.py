import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from scipy.stats import wasserstein_distance
from scoring import wasserstein

from noisegate import Schema
from noisegate.schema import Boolean, Continuous, Integer

SCHEMA = Schema(
    (Continuous(name="a", lower=-10.0, upper=10.0), Integer(name="b", lower=0, upper=4), Boolean(name="y")), label="y"
)


def table(rows: int, seed: int, shift: float = 0.0) -> pa.Table:
    random = np.random.default_rng(seed)
    values = np.clip(random.normal(shift, 2, rows), -10, 10)
    return pa.table(
        {"a": values, "b": random.integers(0, 5, rows), "y": random.random(rows) < 1 / (1 + np.exp(-values))}
    )


def test_wasserstein_is_that_of_scipy_in_units_of_the_range() -> None:
    left, right = table(400, 0), table(300, 1, shift=1.5)
    expected = [
        wasserstein_distance(left[name].to_numpy(), right[name].to_numpy()) / width
        for name, width in (("a", 20), ("b", 4))
    ]
    assert wasserstein(left, right, SCHEMA) == pytest.approx(np.mean(expected))
    assert wasserstein(left, left, SCHEMA) == 0.0
