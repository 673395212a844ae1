"""Table 3 of PSG: images moved by themselves beside images that a network makes of fixed noise; ε = 10.

    python benchmarks/psg/table_3.py --data DIR --out DIR [--samples-per-class 1 10 20] [--prior none dcgan]

"dcgan" is the paper's prior (equation 8), "convolutional" that of DP-MERF, which the paper has not. See README.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from psg.sets import Cell, method_of, parser_of, published, run_cells

EPSILON = 10.0
PRIORS = ("none", "dcgan", "convolutional")


def main() -> int:
    """Makes the page; 0 when it ran, 2 when it cannot."""
    parser = parser_of(__doc__ or "")
    parser.add_argument("--samples-per-class", type=int, nargs="+", default=[1, 10, 20])
    parser.add_argument("--prior", nargs="+", choices=PRIORS, default=list(PRIORS))
    options = parser.parse_args()
    cells = []
    for prior in options.prior:
        network = {} if prior == "none" else {"prior": True, "prior_network": prior}
        for each in options.samples_per_class:
            given = {"steps": options.steps, "width": options.width, **network}
            method = method_of(
                options.schedule, samples_per_class=each, epsilon=EPSILON, **given
            )
            paper = None
            if prior != "convolutional":
                paper = published(
                    "3", options.data_set, samples_per_class=each, prior=prior != "none"
                )
            told = {"row": f"prior: {prior}", "column": f"{each} of each class"}
            cells.append(Cell(**told, method=method, epsilon=EPSILON, paper=paper))
    return run_cells("PSG, Table 3", options, cells)


if __name__ == "__main__":
    sys.exit(main())
