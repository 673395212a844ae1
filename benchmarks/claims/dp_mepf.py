"""DP-MEPF takes half of the diameter for its squares, which is √2 too little, and notes nothing for its stopping.

    python benchmarks/claims/dp_mepf.py [--json FILE]

The program (ParkLabML/DP-MEPF 52e504d, code/dp_functions.py:35-43 and 62) releases the mean of unit-norm features with
sensitivity 2/m, and of unit-norm squares with 1/m, "/ 2 because var is positive", with one σ for both. Two non-negative
unit vectors may be √2 apart. So with σ as it calibrates it, for two releases of their stated sensitivities at δ = 1e-6,
μ² is not 2/σ² but (1 + 2)/σ². The embedding that training is stopped by is not noised at all (code/dp_mepf.py:53-58,
code/feature_matching.py:446-460), though the paper says so and a part of ε is kept for it; that has no ε.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from corrected import dp_mepf
from showing import Claims, Said, show

from noisegate.privacy.accounting import mu_for

DELTA = 1e-6
SAID: Said = {
    "ε of the release claimed to be 1": (1.24, 0.005),
    "ε of the release claimed to be 10": (12.8, 0.05),
}
CLAIMS: Claims = [
    (
        f"both moments at {epsilon:g}",
        epsilon,
        f"ε of the release claimed to be {epsilon:g}",
    )
    for epsilon in (0.2, 1.0, 10.0)
]


def moved(records: int = 1000) -> float:
    """Returns how far one replaced record moves the mean of unit-norm squares, over the 1/m that is claimed."""
    squares = np.tile([1.0, 0.0], (records, 1))
    other = squares.copy()
    other[0] = [0.0, 1.0]
    return float(np.linalg.norm(squares.mean(axis=0) - other.mean(axis=0)) * records)


def figures() -> dict[str, float]:
    """Returns σ as the program has it, and the ε of what it releases."""
    found = {"a replaced record moves the squares by, of what is claimed": moved()}
    for epsilon in (0.2, 1.0, 10.0):
        found[f"σ for ε = {epsilon:g}"] = math.sqrt(2) / mu_for(epsilon, DELTA)
        found[f"ε of the release claimed to be {epsilon:g}"] = dp_mepf(epsilon, DELTA)
    return found


if __name__ == "__main__":
    sys.exit(show(__doc__ or "", figures, SAID, CLAIMS))
