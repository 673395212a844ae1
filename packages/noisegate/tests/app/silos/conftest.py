"""Three hospitals with tables of their own, and one plan."""

import random

import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, integer

from noisegate import Pairwise, Schema, release

SCHEMA = Schema(
    (integer("age", 0, 99), categorical("job", "abc"), boolean("ill")), label="ill"
)
SIZES = {"north": 900, "south": 500, "west": 100}


def table(rows, seed):
    draw = random.Random(seed)
    ages = [draw.randint(0, 99) for _ in range(rows)]
    ill = [draw.random() < age / 100 for age in ages]
    return pa.table(
        {"age": ages, "job": draw.choices("abc", weights=(5, 3, 1), k=rows), "ill": ill}
    )


TABLES = {name: table(rows, seed) for seed, (name, rows) in enumerate(SIZES.items())}
ONE_ROUND = {"schema": SCHEMA, "method": Pairwise(cells=128)}
"""Cells for every age: there is no histogram to cut them from, and all is asked at once."""


@pytest.fixture
def answers():
    """Returns the releases of one round of all silos; ε may be each silo's own."""

    def released(epsilon=1.0, silos=tuple(SIZES), after=None, **request):
        request = request or {"schema": SCHEMA, "method": Pairwise(cells=6)}
        epsilon_of = (
            epsilon if isinstance(epsilon, dict) else dict.fromkeys(silos, epsilon)
        )
        return [
            release(
                TABLES[name],
                silo=name,
                epsilon=epsilon_of[name],
                after=after,
                **request,
            )
            for name in silos
        ]

    return released
