"""PrivBayes in dpmm takes a sensitivity 69 to 1,522 times too small, and in DataSynthesizer costs 3.5ε for ε.

    python benchmarks/claims/privbayes.py [--json FILE]

dpmm (models/priv_bayes.py) chooses parents by mutual information in bits over the root of both entropies, with the
sensitivity of plain mutual information in nats. Of two columns that are constant but for one record, which both tell
apart, the score is 1; without that record it is 0, whatever the number of records.

DataSynthesizer (lib/PrivBayes.py, DataDescriber.py), with n public, that is under replace-one, as its sensitivity of
mutual information has it: ε/2 for the structure; counts with Laplace noise of (d − k)/(ε/2), d − k tables, each of
which a replaced record moves by 2, so ε and not ε/2; and histograms of single columns, saved in the same description,
with d/(εn), each moved by 2/n, so another 2ε. Domains, and which columns are binary, are read off the records besides.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from numpy.typing import NDArray
from showing import show

RECORDS = (1000, 32_561)


def entropy(counts: NDArray[np.float64]) -> float:
    """Returns the entropy of a table of counts in bits."""
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def score(table: NDArray[np.float64]) -> float:
    """Returns the score of a pair of columns from their joint counts."""
    both = entropy(table.sum(axis=0)) * entropy(table.sum(axis=1))
    information = entropy(table.sum(axis=0)) + entropy(table.sum(axis=1)) - entropy(table)
    return information / math.sqrt(both) if both > 0 else 0.0


def claimed(records: int) -> float:
    """Returns the sensitivity that the mechanism is calibrated with, of plain mutual information in nats."""
    first = 2 / records * math.log((records + 1) / 2)
    return first + (1 - 1 / records) * math.log(1 + 2 / (records - 1))


def choice_epsilon(records: int, epsilon: float) -> float:
    """Returns how far the log-odds of the worse of two pairs moves, calibrated for `epsilon`, when one record does.

    The mechanism chooses with weights exp(ε · score / 2Δ). The second pair has score 0 in both worlds.
    """
    worlds = [np.array([[records, 0.0], [0.0, 0.0]]), np.array([[records - 1, 0.0], [0.0, 1.0]])]
    gains = [epsilon * score(table) / (2 * claimed(records)) for table in worlds]
    # Minus the log of the probability of the second pair.
    losses = [float(np.logaddexp(0, gain)) for gain in gains]
    return abs(losses[1] - losses[0])


def figures() -> dict[str, float]:
    """Returns what dpmm's choice costs, and what DataSynthesizer's description does."""
    found = {}
    for records in RECORDS:
        found[f"dpmm, n = {records}: sensitivity claimed"] = claimed(records)
        found[f"dpmm, n = {records}: a change of one record over it"] = 1 / claimed(records)
        found[f"dpmm, n = {records}: ε of one choice calibrated for 1, at least"] = choice_epsilon(records, 1.0)
    structure, counts, histograms = 0.5, 2 * 0.5, 2 * 1.0
    found["DataSynthesizer, ε = 1: ε of the conditional tables with their structure"] = structure + counts
    found["DataSynthesizer, ε = 1: ε of the saved description"] = structure + counts + histograms
    return found


if __name__ == "__main__":
    sys.exit(show(__doc__ or "", figures))
