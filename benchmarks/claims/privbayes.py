"""PrivBayes in dpmm takes a sensitivity 69 to 1,522 times too small, and in DataSynthesizer costs 2.5ε for ε.

    python benchmarks/claims/privbayes.py [--json FILE]

dpmm (sassoftware/dpmm 5661637, src/dpmm/models/priv_bayes.py:92 and 105-106) chooses parents by mutual information in
bits over the root of both entropies, with the sensitivity of plain mutual information in nats (137-141). Of two columns
that are constant but for one record, which both tell apart, the score is 1; without that record it is 0, whatever the
number of records.

DataSynthesizer 0.1.13 (9072285), with n public, that is under replace-one, as its own sensitivities have it (2/n in
datatypes/AbstractAttribute.py:71): ε/2 for the structure (DataDescriber.py:179); counts with Laplace noise of
(d − k)/(ε/2) (lib/PrivBayes.py:198-203), d − k tables, each of which a replaced record moves by 2, so ε and not ε/2;
and histograms of single columns, saved in the same description, with all of ε again (DataDescriber.py:127 and 290-295,
called from 168). Domains, and which columns are binary, are read off the records besides.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from corrected import information_sensitivity, privbayes_datasynthesizer, privbayes_dpmm
from numpy.typing import NDArray
from showing import Claims, Said, show

RECORDS = (1000, 32_561)
SAID: Said = {
    "dpmm, n = 1000: ε of one choice calibrated for 1, at least": (34, 0.05),
    "dpmm, n = 32561: ε of one choice calibrated for 1, at least": (760, 0.5),
    "dpmm, n = 32561: a change of one record over it": (1522, 0.5),
    "DataSynthesizer, ε = 1: ε of the saved description": (2.5, 0),
}
CLAIMS: Claims = [
    *(
        (
            f"dpmm, {n} records",
            1,
            f"dpmm, n = {n}: ε of one choice calibrated for 1, at least",
        )
        for n in RECORDS
    ),
    ("DataSynthesizer", 1, "DataSynthesizer, ε = 1: ε of the saved description"),
]


def entropy(counts: NDArray[np.float64]) -> float:
    """Returns the entropy of a table of counts in bits."""
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def score(table: NDArray[np.float64]) -> float:
    """Returns the score of a pair of columns from their joint counts."""
    both = entropy(table.sum(axis=0)) * entropy(table.sum(axis=1))
    information = (
        entropy(table.sum(axis=0)) + entropy(table.sum(axis=1)) - entropy(table)
    )
    return information / math.sqrt(both) if both > 0 else 0.0


def worlds(records: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the joint counts of two columns where all records are alike, and where one differs in both."""
    return np.array([[records, 0.0], [0.0, 0.0]]), np.array(
        [[records - 1, 0.0], [0.0, 1.0]]
    )


def figures() -> dict[str, float]:
    """Returns what dpmm's choice costs, and what DataSynthesizer's description does."""
    found = {}
    for records in RECORDS:
        alike, other = (score(table) for table in worlds(records))
        found[f"dpmm, n = {records}: sensitivity claimed"] = information_sensitivity(
            records
        )
        found[f"dpmm, n = {records}: a change of one record over it"] = abs(
            other - alike
        ) / information_sensitivity(records)
        found[f"dpmm, n = {records}: ε of one choice calibrated for 1, at least"] = (
            privbayes_dpmm(records)
        )
    found["DataSynthesizer, ε = 1: ε of the saved description"] = (
        privbayes_datasynthesizer()
    )
    return found


if __name__ == "__main__":
    sys.exit(show(__doc__ or "", figures, SAID, CLAIMS))
