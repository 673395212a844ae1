"""Cervical cancer risk factors (UCI): split 80/20; the biopsy is the label, a missing answer stays missing.

The papers drop the 105 records with ten or more missing answers and fill the others with medians of all records,
training and test; here nothing is dropped and nothing is filled in.
"""

from __future__ import annotations

from pathlib import Path

from noisegate import Schema
from papers.published import Loaded, Published
from papers.reading import read_headed

CERVICAL = Published(
    name="cervical",
    page="https://archive.ics.uci.edu/dataset/383/cervical+cancer+risk+factors",
    # The second is Kaggle's copy, which DP-HP's code reads.
    files=("risk_factors_cervical_cancer.csv", "kag_risk_factors_cervical_cancer.csv"),
    train_records=686,
    train_share=0.8,
)
SCHEMA = Path(__file__).with_name("cervical.toml")


def load(folder: Path, *, seed: int) -> Loaded:
    """Returns Cervical; 12 numeric and 23 yes-or-no columns, and the biopsy.

    Raises:
        DataError: if the file is missing or broken.
    """
    schema = Schema.from_toml(SCHEMA)
    path = CERVICAL.find(folder, *CERVICAL.files)
    return CERVICAL.split(read_headed(path, schema.names), schema, seed=seed)
