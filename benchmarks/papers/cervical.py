"""Cervical cancer risk factors (UCI): split 80/20; the biopsy is the label, a missing answer stays missing.

The papers drop the 105 records with ten or more missing answers and fill the others with medians of all records,
training and test; here nothing is dropped and nothing is filled in.
"""

from __future__ import annotations

from pathlib import Path

from noisegate import Schema
from papers.published import SETS, Loaded
from papers.reading import read_headed

CERVICAL = SETS["cervical"]
SCHEMA = Path(__file__).with_name("cervical.toml")


def load(folder: Path, *, seed: int) -> Loaded:
    """Returns Cervical; 12 numeric and 23 yes-or-no columns, and the biopsy.

    Raises:
        DataError: if the file is missing or broken.
    """
    schema = Schema.from_toml(SCHEMA)
    path = CERVICAL.find(folder, *CERVICAL.files)
    return CERVICAL.split(read_headed(path, schema.names), schema, seed=seed)
