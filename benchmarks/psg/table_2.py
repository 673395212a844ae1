"""Table 2 of PSG: sets made with a ConvNet, on which networks of six kinds are trained; ε = 10.

    python benchmarks/psg/table_2.py --data DIR --out DIR [--samples-per-class 10 20] [--networks convnet,mlp]

A set is made once for each number of images, and kept in --out for the other tables. See README.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from psg.sets import Cell, method_of, parser_of, published, run_cells

from noisegate_evaluate.utility.networks import NETWORKS, read_networks

EPSILON = 10.0


def main() -> int:
    """Makes the page; 0 when it ran, 2 when it cannot."""
    parser = parser_of(__doc__ or "")
    parser.add_argument("--samples-per-class", type=int, nargs="+", default=[10, 20])
    parser.add_argument(
        "--networks", default=",".join(NETWORKS).lower(), help="some of them, by commas"
    )
    options = parser.parse_args()
    cells = []
    for each in options.samples_per_class:
        given = {"steps": options.steps, "width": options.width}
        method = method_of(
            options.schedule, samples_per_class=each, epsilon=EPSILON, **given
        )
        for network in read_networks(options.networks):
            paper = published("2", options.data_set, network, samples_per_class=each)
            told = {"row": f"{each} of each class", "column": network}
            cells.append(
                Cell(
                    **told, method=method, epsilon=EPSILON, network=network, paper=paper
                )
            )
    return run_cells("PSG, Table 2", options, cells)


if __name__ == "__main__":
    sys.exit(main())
