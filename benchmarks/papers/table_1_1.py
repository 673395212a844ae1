"""Table 1.1 of the dissertation: how sure an adversary can be at most of one of two neighbouring data sets, by ε.

    python benchmarks/papers/table_1_1.py [--json FILE]

The bound is 1 / (1 + e^−ε), at even odds beforehand, and holds up to δ. Beside it: how often the best test is right
against one Gaussian release calibrated for that ε and δ = 1e-5, Φ(μ/2).
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from statistics import NormalDist

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import optional, read_options
from harness.printing import print_table
from harness.results import write_json

from noisegate.privacy.accounting import mu_for

PUBLISHED = {5.0: 0.993, 2.0: 0.881, 1.0: 0.731, 0.5: 0.622, 0.2: 0.550, 0.1: 0.525}
DELTA = 1e-5


def main() -> int:
    """Prints the table; 0 when every figure is the paper's, as far as it is printed, else 1."""
    options = read_options(__doc__, json=optional(Path))
    rows = [
        {
            "epsilon": epsilon,
            "bound": bound(epsilon),
            "gaussian": NormalDist().cdf(mu_for(epsilon, DELTA) / 2),
        }
        for epsilon in PUBLISHED
    ]
    lines = []
    for row in rows:
        shares = (row["bound"], PUBLISHED[row["epsilon"]], row["gaussian"])
        lines.append([f"{row['epsilon']:g}", *(f"{share:.1%}" for share in shares)])
    headings = ["ε", "bound", "the paper", f"a Gaussian release, δ = {DELTA:g}"]
    title = "Probability that an adversary is right"
    print_table(title, headings, lines, n_left=0)
    largest = max(abs(row["bound"] - PUBLISHED[row["epsilon"]]) for row in rows)
    write_json(options.json, {"rows": rows, "largest difference": largest})
    is_same = all(round(row["bound"], 3) == PUBLISHED[row["epsilon"]] for row in rows)
    return 0 if is_same else 1


def bound(epsilon: float) -> float:
    """Returns 1 / (1 + e^−ε)."""
    return 1 / (1 + math.exp(-epsilon))


if __name__ == "__main__":
    sys.exit(main())
