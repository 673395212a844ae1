import sys
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer, ordinal

from noisegate.schema import (
    Date,
    Datetime,
    Schema,
)

sys.path.append(str(Path(__file__).parent))  # for image_files


@pytest.fixture
def schema():
    return Schema(
        (
            integer("age", 17, 90, missing=True),
            continuous("rate", -1.5, 2.7, missing=True),
            categorical(
                "work", ("Private", "Self, own", "other"), other="other", missing=True
            ),
            ordinal("grade", (1, 2, 3)),
            boolean("member", missing=True),
            Date(name="born", lower=date(1900, 1, 1), upper=date(2020, 12, 31)),
            Datetime(
                name="seen", lower=datetime(1960, 1, 1), upper=datetime(2030, 1, 1)
            ),
        ),
        label="grade",
    )


@pytest.fixture
def people():
    """300 records of the schema above, with an outlier and missing values now and then."""
    rows = range(300)
    return pa.table(
        {
            "age": pa.array(
                [None if i % 7 == 3 else 10 + i % 90 for i in rows], pa.int64()
            ),
            "rate": [None if i % 11 == 5 else (i - 150) / 70 for i in rows],
            "work": [
                (None, "Private", "Self, own", "nobody knows")[i % 4] for i in rows
            ],
            "grade": [1 + i * i % 3 for i in rows],
            "member": [(True, False, None)[i % 3] for i in rows],
            "born": [date(1950 + i % 60, 1 + i % 12, 1 + i % 28) for i in rows],
            "seen": [
                datetime(1969 + i % 20, 1, 1 + i % 28, 3, 4, 5, i * 31) for i in rows
            ],
        }
    )
