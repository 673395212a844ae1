"""DP-MEPF takes half of the diameter for its squares, which is √2 too little, and notes nothing for its stopping.

    python benchmarks/claims/dp_mepf.py [--json FILE]

The program releases the mean of unit-norm features with sensitivity 2/m, and of unit-norm squares with 1/m, "as values
are positive", with one σ for both. Two non-negative unit vectors may be √2 apart. So with σ as it calibrates it, for
two releases of their stated sensitivities at δ = 1e-6, μ² is not 2/σ² but (1 + 2)/σ². The embedding that training is
stopped by is not noised at all, though the paper says so and a part of ε is kept for it; that has no ε.
"""

from __future__ import annotations

import math
import sys

from showing import show

from noisegate.privacy.accounting import gaussian_epsilon, mu_for

DELTA = 1e-6


def figures() -> dict[str, float]:
    """Returns σ as the program has it, and the ε of what it releases."""
    found = {}
    for epsilon in (0.2, 1.0, 10.0):
        sigma = math.sqrt(2) / mu_for(epsilon, DELTA)
        found[f"σ for ε = {epsilon:g}"] = sigma
        found[f"ε of the release claimed to be {epsilon:g}"] = gaussian_epsilon(math.sqrt(3) / sigma, DELTA)
    return found


if __name__ == "__main__":
    sys.exit(show(__doc__ or "", figures))
