"""Census-Income (KDD) (UCI): the training file, split 80/20, as the papers do by way of SDGym.

The papers also drop 60 % of the records below 50,000 dollars (DP-MERF, Table 4), which asks every record for its true
label at no cost to the budget; that is left out.
"""

from __future__ import annotations

from pathlib import Path

from noisegate import Schema
from papers.published import SETS, Loaded
from papers.reading import read_mapped, read_plain

CENSUS = SETS["census"]
SCHEMA = Path(__file__).with_name("census.toml")
# The documentation says of the instance weight, the 25th field, that classifiers should not use it.
WEIGHT, WEIGHT_FIELD = "instance weight", 24
INCOMES = {"- 50000": "-50000", "50000+": "50000+"}


def load(folder: Path, *, seed: int) -> Loaded:
    """Returns Census; 40 columns and the income, over 50,000 dollars the positive class.

    Raises:
        DataError: if the file is missing or broken.
    """
    schema = Schema.from_toml(SCHEMA)
    path = CENSUS.find(folder, *CENSUS.files)
    fields = [*schema.names[:WEIGHT_FIELD], WEIGHT, *schema.names[WEIGHT_FIELD:]]
    records = read_plain(path, fields).select(list(schema.names))
    income = read_mapped(records["income"], INCOMES, f"{path}, income")
    return CENSUS.split(records.set_column(40, "income", income), schema, seed=seed)
