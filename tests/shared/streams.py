"""Streams of small tables."""

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import categorical, integer

from noisegate import fit_period, plan_stream
from noisegate.schema import Schema

LEVELS = tuple(f"level {index}" for index in range(15))
CODED = Schema(tuple(categorical(name, LEVELS) for name in "abcd"))
AGES = Schema(
    (categorical("a", LEVELS[:2]), integer("age", 0, 999)),
    label="a",
)
SETTINGS = {"cells": 8, "fit_options": {"steps": 1, "components": 2}}


def records(count, seed=0, schema=CODED):
    random = np.random.default_rng(seed)
    columns = {
        name: random.choice(LEVELS[:2] if schema is AGES else LEVELS, count)
        for name in schema.names
    }
    return pa.table(
        columns | ({"age": random.integers(0, 1000, count)} if schema is AGES else {})
    )


JANUARY = records(300, 1, AGES)
FEBRUARY = records(300, 2, AGES)
EMPTY = records(0, 3, AGES)


@pytest.fixture
def stream(tmp_path):
    """Returns what answers one period after the other, of records, or of those and what is withdrawn."""

    def answered(
        *periods, name="s", schema=CODED, epsilon=1.0, start=1, booked=None, **horizon
    ):
        plan = tmp_path / f"{name}.json"
        if not plan.exists():
            plan_stream(
                plan,
                schema=schema,
                epsilon=epsilon,
                method="pairwise",
                **SETTINGS,
                **horizon,
            )
        models = []
        for number, records_of_period in enumerate(periods, start):
            data, withdrawn = (
                records_of_period
                if isinstance(records_of_period, tuple)
                else (records_of_period, None)
            )
            after = tmp_path / f"{name}{number - 1}" if number > 1 else None
            options = {
                "stream": plan,
                "after": after,
                "out": tmp_path / f"{name}{number}",
                "withdrawn": withdrawn,
            }
            models.append(fit_period(data, **options, **(booked or {})))
        return models

    return answered
