import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate import DPMERF, Gate
from noisegate.schema import Schema

NUMBERS = [integer("age", 0, 20, missing=True), continuous("rate", -1.0, 3.0)]
SCHEMA = Schema(
    [*NUMBERS, categorical("work", "abc", missing=True), boolean("sick")], label="sick"
)


def people(rows):
    random = np.random.default_rng(1)
    return pa.table(
        {
            "age": pa.array(
                [None if i % 7 == 0 else i % 21 for i in range(rows)], pa.int64()
            ),
            "rate": random.uniform(-1, 3, rows),
            "work": [(None, "a", "b", "c")[i % 4] for i in range(rows)],
            "sick": [i % 3 == 0 for i in range(rows)],
        }
    )


@pytest.fixture(scope="session")
def method():
    return DPMERF(
        frequencies=50,
        latent=4,
        hidden=(16,),
        fit_options={"steps": 12, "stop_at_noise": False},
    )


@pytest.fixture(scope="session")
def release(method):
    return method.query(Gate(people(400), schema=SCHEMA, epsilon=5.0))
