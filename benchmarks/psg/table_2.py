"""Table 2 of PSG: sets made with a ConvNet, on which networks of six kinds are trained; ε = 10.

    python benchmarks/psg/table_2.py --data DIR --out DIR [--samples-per-class 10 20] [--networks convnet,mlp]

A set is made once for each number of images, and kept in --out for the other tables. See README.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import option, read_options
from harness.printing import run_main
from psg.sets import OPTIONS, cell_of, published, run_cells

from noisegate_evaluate.utility.networks import NETWORKS, read_networks

EPSILON = 10.0


def main() -> None:
    """Makes the page."""
    options = read_options(
        __doc__,
        **OPTIONS,
        samples_per_class=[10, 20],
        networks=option(",".join(NETWORKS).lower(), "some of them, by commas"),
    )
    cells = [
        cell_of(
            options,
            f"{each} of each class",
            network,
            samples_per_class=each,
            epsilon=EPSILON,
            network=network,
            paper=published("2", options.data_set, network, samples_per_class=each),
        )
        for each in options.samples_per_class
        for network in read_networks(options.networks)
    ]
    run_cells("PSG, Table 2", options, cells)


if __name__ == "__main__":
    run_main(main)
