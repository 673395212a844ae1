"""Table 5 of DP-HP: what γ, the weight of the product kernel beside the sum kernel, does to the marginals.

    python benchmarks/dp_hp/table_5.py --data DIR [--codes DIR] [--gamma 0.001 0.1 1 10 1000] [--json FILE]

The paper has discretised Census, which is not at hand: here it is discretised Adult, at ε = 0.3, five columns a product
and eight of them. What is to be compared is the shape: nothing up to γ = 1, worse beyond.
"""

from __future__ import annotations

from ablation import ablation, options_of
from harness.printing import run_main

PAPER = {
    0.001: (0.474, 0.570),
    0.01: (0.473, 0.570),
    0.1: (0.499, 0.597),
    1.0: (0.474, 0.570),
    10.0: (0.585, 0.671),
    100.0: (0.674, 0.757),
    1000.0: (0.676, 0.761),
}


def main() -> int:
    """Prints the table."""
    options = options_of(__doc__, "gamma", tuple(PAPER))
    title = "γ on discretised Adult, ε = 0.3, replace-one; the paper: Census"
    return ablation(
        options, title, "gamma", PAPER, epsilon=0.3, product_columns=5, draws=8
    )


if __name__ == "__main__":
    run_main(main)
