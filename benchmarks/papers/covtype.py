"""Covertype (UCI): the first 20,000 lines, as DP-MERF's code takes them, split 70/30.

The four wilderness areas and the forty soil types stand in the file as one column of 0 and 1 each, of which exactly one
is 1 (covtype.info). Here they are the two attributes that they code: no synthetic record can then say none or two.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisegate import Schema
from noisegate.errors import DataError
from noisegate.schema.checks import TEXT_PADDING
from papers.published import SETS, Loaded
from papers.reading import read_plain

COVTYPE = SETS["covtype"]
SCHEMA = Path(__file__).with_name("covtype.toml")
FIRST = 20_000
AREAS = tuple(f"wilderness_area_{number}" for number in range(1, 5))
SOILS = tuple(f"soil_type_{number}" for number in range(1, 41))


def load(folder: Path, *, seed: int) -> Loaded:
    """Returns Covertype; 10 numeric and 2 categorical columns, and the cover type, 1 to 7.

    Raises:
        DataError: if the file is missing or broken.
    """
    schema = Schema.from_toml(SCHEMA)
    path = COVTYPE.find(folder, *COVTYPE.files)
    numbers, label = schema.names[:10], schema.names[-1]
    fields = read_plain(path, (*numbers, *AREAS, *SOILS, label)).slice(0, FIRST)
    records = fields.select([*numbers, label])
    for name, flags in (("soil_type", SOILS), ("wilderness_area", AREAS)):
        records = records.add_column(
            10, name, pa.array(_set_flag(fields, flags, path) + 1)
        )
    return COVTYPE.split(records, schema, seed=seed)


def _set_flag(fields: pa.Table, flags: tuple[str, ...], path: Path) -> np.ndarray:
    """Which of the flags of each record is 1, (records,)."""
    ones = [
        pc.equal(pc.utf8_trim(fields[flag], characters=TEXT_PADDING), "1")
        for flag in flags
    ]
    table = np.column_stack([one.to_numpy() for one in ones])
    wrong = np.flatnonzero(table.sum(axis=1) != 1)
    if len(wrong):
        raise DataError(
            f"{path}, record {wrong[0] + 1}: exactly one of {flags[0]} to {flags[-1]} must be 1; take the file as it "
            "is published"
        )
    places: np.ndarray = table.argmax(axis=1)
    return places
