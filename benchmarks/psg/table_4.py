"""Table 4 of PSG: how many images of each class a set should have; ε = 10.

    python benchmarks/psg/table_4.py --data DIR --out DIR [--samples-per-class 1 10 20 50]

Of 50 images the paper's schedule takes 500,000 steps. See README.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import read_options
from harness.printing import run_main
from psg.sets import OPTIONS, cell_of, published, run_cells

EPSILON = 10.0


def main() -> None:
    """Makes the page."""
    options = read_options(__doc__, **OPTIONS, samples_per_class=[1, 10, 20, 50])
    cells = [
        cell_of(
            options,
            "ConvNet",
            str(each),
            samples_per_class=each,
            epsilon=EPSILON,
            paper=published("4", options.data_set, samples_per_class=each),
        )
        for each in options.samples_per_class
    ]
    run_cells("PSG, Table 4, images of each class", options, cells)


if __name__ == "__main__":
    run_main(main)
