import sys
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from noisegate.schema import (
    Boolean,
    Categorical,
    Continuous,
    Date,
    Datetime,
    Integer,
    Ordinal,
    Schema,
)

sys.path.append(str(Path(__file__).parent))  # for image_files


@pytest.fixture
def schema():
    return Schema(
        (
            Integer(name="age", lower=17, upper=90, missing=True),
            Continuous(name="rate", lower=-1.5, upper=2.7, missing=True),
            Categorical(
                name="work",
                levels=("Private", "Self, own", "other"),
                other="other",
                missing=True,
            ),
            Ordinal(name="grade", levels=(1, 2, 3)),
            Boolean(name="member", missing=True),
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
