"""Table 3 of PSG: images moved by themselves beside images that a network makes of fixed noise; ε = 10.

    python benchmarks/psg/table_3.py --data DIR --out DIR [--samples-per-class 1 10 20] [--prior none dcgan]

"dcgan" is the paper's prior (equation 8), "convolutional" that of DP-MERF, which the paper has not. See README.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import choices, read_options
from harness.printing import run_main
from psg.sets import OPTIONS, cell_of, prior_settings, published, run_cells

EPSILON = 10.0
PRIORS = ("none", "dcgan", "convolutional")


def main() -> None:
    """Makes the page."""
    options = read_options(
        __doc__, **OPTIONS, samples_per_class=[1, 10, 20], prior=choices(PRIORS)
    )
    cells = []
    for prior in options.prior:
        for each in options.samples_per_class:
            paper = None
            if prior != "convolutional":
                paper = published(
                    "3", options.data_set, samples_per_class=each, prior=prior != "none"
                )
            cells.append(
                cell_of(
                    options,
                    f"prior: {prior}",
                    f"{each} of each class",
                    samples_per_class=each,
                    epsilon=EPSILON,
                    paper=paper,
                    settings=prior_settings(prior),
                )
            )
    run_cells("PSG, Table 3", options, cells)


if __name__ == "__main__":
    run_main(main)
