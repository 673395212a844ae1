"""Table 1.1 of the dissertation: how sure an adversary can be at most of one of two neighbouring data sets, by ε.

    python benchmarks/papers/table_1_1.py [--json FILE]

The bound is 1 / (1 + e^−ε), at even odds beforehand, and holds up to δ. Beside it: how often the best test is right
against one Gaussian release calibrated for that ε and δ = 1e-5, Φ(μ/2).
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from statistics import NormalDist

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import optional, read_options
from rich.console import Console
from rich.table import Table

from noisegate.privacy.accounting import mu_for

PUBLISHED = {5.0: 0.993, 2.0: 0.881, 1.0: 0.731, 0.5: 0.622, 0.2: 0.550, 0.1: 0.525}
DELTA = 1e-5


def main() -> int:
    """Prints the table; 0 when every figure is the paper's, as far as it is printed, else 1."""
    options = read_options(
        __doc__,
        json=optional(Path),
    )
    rows = [
        {
            "epsilon": epsilon,
            "bound": bound(epsilon),
            "gaussian": NormalDist().cdf(mu_for(epsilon, DELTA) / 2),
        }
        for epsilon in PUBLISHED
    ]
    page = Table(title="Probability that an adversary is right", title_justify="left")
    for heading in ("ε", "bound", "the paper", f"a Gaussian release, δ = {DELTA:g}"):
        page.add_column(heading, justify="right")
    for row in rows:
        shown = (
            f"{value:.1%}"
            for value in (row["bound"], PUBLISHED[row["epsilon"]], row["gaussian"])
        )
        page.add_row(f"{row['epsilon']:g}", *shown)
    Console().print(page)
    if options.json:
        largest = max(abs(row["bound"] - PUBLISHED[row["epsilon"]]) for row in rows)
        options.json.write_text(
            json.dumps({"rows": rows, "largest difference": largest}, indent=2) + "\n",
            "utf-8",
        )
    return (
        0
        if all(round(row["bound"], 3) == PUBLISHED[row["epsilon"]] for row in rows)
        else 1
    )


def bound(epsilon: float) -> float:
    """Returns 1 / (1 + e^−ε)."""
    return 1 / (1 + math.exp(-epsilon))


if __name__ == "__main__":
    sys.exit(main())
