"""A simulated table of patients, for examples. It contains no real person.

Its schema is public: bounds and levels are those of the simulation.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

    from noisegate.schema import Schema

SCHEMA_FILE = "schema.toml"
TRAIN_FILE = "patients.csv"
TEST_FILE = "patients-test.csv"

_RECORD_COUNT = 20_000
_TEST_EVERY = 5
"""One record in so many is held out to test on."""
_SEED = 1
_REGIONS = ("north", "east", "south", "west")
_REGION_SHARES = (0.2, 0.15, 0.25, 0.4)


class SimulatedPatients(NamedTuple):
    """A table to try things on, and what is publicly known about its columns."""

    table: pa.Table
    schema: Schema


def simulated_patients() -> SimulatedPatients:
    """Simulates a table of 20,000 patients, always the same.

    Returns:
        The table, a PyArrow table, and its schema.

    Examples:
        >>> import noisegate
        >>> table, schema = noisegate.simulated_patients()
        >>> table.num_rows, table.column_names
        (20000, ['age', 'sex', 'region', 'smoker', 'bmi', 'stay_days', 'readmitted'])
        >>> plan = noisegate.plan(schema, epsilon=1.0, records=20_000)
        >>> plan.verdict.word
        'usable'
    """
    import numpy as np
    import pyarrow as pa

    from noisegate.schema import Schema
    from noisegate.schema.kinds.boolean import Boolean
    from noisegate.schema.kinds.categorical import Categorical
    from noisegate.schema.kinds.decimal import Decimal
    from noisegate.schema.kinds.integer import Integer

    random = np.random.Generator(np.random.Philox(_SEED))
    count = _RECORD_COUNT
    age = np.clip(random.normal(58, 18, count).round(), 18, 100).astype(np.int64)
    is_female = random.random(count) < 0.52
    is_smoker = random.random(count) < np.where(age < 60, 0.28, 0.14)
    bmi = np.clip(random.normal(23.5 + 0.05 * age, 4.0), 14, 60).round(1)
    mean_stay = np.exp(0.4 + 0.015 * age + 0.25 * is_smoker)
    stay_days = np.clip(random.poisson(mean_stay), 1, 60)
    risk = -5.8 + 0.04 * age + 0.9 * is_smoker + 0.06 * (bmi - 25) + 0.12 * stay_days
    is_readmitted = random.random(count) < 1 / (1 + np.exp(-risk))
    region = random.choice(_REGIONS, count, p=_REGION_SHARES)
    table = pa.table(
        {
            "age": age,
            "sex": np.where(is_female, "female", "male"),
            "region": region,
            "smoker": is_smoker,
            "bmi": bmi,
            "stay_days": stay_days,
            "readmitted": is_readmitted,
        }
    )
    schema = Schema(
        [
            Integer(name="age", lower=18, upper=100),
            Categorical(name="sex", levels=("female", "male")),
            Categorical(name="region", levels=_REGIONS),
            Boolean(name="smoker"),
            Decimal(name="bmi", lower=14.0, upper=60.0, step=0.1),
            Integer(name="stay_days", lower=1, upper=60),
            Boolean(name="readmitted"),
        ],
        label="readmitted",
    )
    return SimulatedPatients(table, schema)


def write_example(folder: Path) -> None:
    """Writes the example: records to fit, records to test on, and the schema.

    Args:
        folder: An empty folder.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv

    table, schema = simulated_patients()
    is_test = np.arange(table.num_rows) % _TEST_EVERY == 0
    schema.to_toml(folder / SCHEMA_FILE)
    pa.csv.write_csv(table.filter(pa.array(~is_test)), folder / TRAIN_FILE)
    pa.csv.write_csv(table.filter(pa.array(is_test)), folder / TEST_FILE)
