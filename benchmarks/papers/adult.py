"""Adult (UCI): the training file, split 90/10 as DP-MERF's code does; the published test file stays held out.

The papers have 22,561 of its 32,561 records (DP-MERF, from SDGym) or count 48,842 with the test file (DP-HP, Table 3).
"""

from __future__ import annotations

from pathlib import Path

from noisegate import Schema
from papers.published import SETS, Loaded
from papers.reading import read_headed, read_plain

ADULT = SETS["adult"]
SCHEMA = Path(__file__).parents[1] / "adult" / "schema.toml"


def load(folder: Path, *, seed: int) -> Loaded:
    """Returns Adult; 14 columns and the income, over 50K the positive class.

    Raises:
        DataError: if the file is missing or broken.
    """
    schema = Schema.from_toml(SCHEMA)
    path = ADULT.find(folder, *ADULT.files)
    # The schema lists the columns in the order of the published file.
    records = (read_headed if path.suffix == ".csv" else read_plain)(path, schema.names)
    return ADULT.split(records, schema, seed=seed)
