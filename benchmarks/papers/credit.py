"""Credit card fraud (Kaggle, mlg-ulb): split 80/20; the time of the transaction is left out, as in the papers.

The papers also drop 99.5 % of the transactions that are no fraud (DP-MERF, Table 4), which asks every record for its
true label at no cost to the budget; that is left out.
"""

from __future__ import annotations

from pathlib import Path

from noisegate import Schema
from noisegate.schema import Categorical, Continuous
from papers.published import SETS, Loaded
from papers.reading import read_headed

CREDIT = SETS["credit"]
COMPONENTS = 28
# The description gives no bounds: V1 to V28 are "the result of a PCA transformation". Of inputs with unit variance a
# component has at most the variance of them all, 28, so a standard deviation of 5.3; the bound is about six of them.
LARGEST_COMPONENT = 30.0
# In euro; no bound is given. A round one for a single payment by card.
LARGEST_AMOUNT = 10_000.0


def schema() -> Schema:
    """Returns what the description tells: 28 components, an amount, and whether it is a fraud."""
    components = [
        Continuous(name=f"V{number}", lower=-LARGEST_COMPONENT, upper=LARGEST_COMPONENT)
        for number in range(1, COMPONENTS + 1)
    ]
    amount = Continuous(name="Amount", lower=0.0, upper=LARGEST_AMOUNT)
    return Schema(
        (*components, amount, Categorical(name="Class", levels=(0, 1))),
        label="Class",
        ignore=("Time",),
    )


def load(folder: Path, *, seed: int) -> Loaded:
    """Returns Credit; 29 numeric columns and the class, 1 for a fraud.

    Raises:
        DataError: if the file is missing or broken.
    """
    path = CREDIT.find(folder, *CREDIT.files)
    return CREDIT.split(read_headed(path, schema().names), schema(), seed=seed)
