"""Table 8 of DP-HP: how many columns a product has (D_prod), on discretised Adult at ε = 1.

    python benchmarks/dp_hp/table_8.py --data DIR [--codes DIR] [--product-columns 2 5] [--json FILE]

Seven columns have (order + 1)⁷ coordinates, 279,936 at order 5, and take minutes each; ask for them with
--product-columns 7 --product-order 3 or so.
"""

from __future__ import annotations

from ablation import ablation, options_of
from harness.printing import run_main

PAPER = {2: (0.367, 0.466), 5: (0.340, 0.434), 7: (0.332, 0.422)}


def main() -> int:
    """Prints the table."""
    options = options_of(__doc__, "product_columns", (2, 5))
    title = "D_prod on discretised Adult, ε = 1, replace-one, γ = 1"
    return ablation(
        options, title, "product_columns", PAPER, epsilon=1.0, gamma=1.0, draws=8
    )


if __name__ == "__main__":
    run_main(main)
