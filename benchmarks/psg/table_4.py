"""Table 4 of PSG: how many images of each class a set should have; ε = 10.

    python benchmarks/psg/table_4.py --data DIR --out DIR [--samples-per-class 1 10 20 50]

Of 50 images the paper's schedule takes 500,000 steps. See README.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from psg.sets import Cell, method_of, parser_of, published, run_cells

EPSILON = 10.0


def main() -> int:
    """Makes the page; 0 when it ran, 2 when it cannot."""
    parser = parser_of(__doc__ or "")
    parser.add_argument(
        "--samples-per-class", type=int, nargs="+", default=[1, 10, 20, 50]
    )
    options = parser.parse_args()
    cells = []
    for each in options.samples_per_class:
        given = {"steps": options.steps, "width": options.width}
        method = method_of(
            options.schedule, samples_per_class=each, epsilon=EPSILON, **given
        )
        paper = published("4", options.data_set, samples_per_class=each)
        cells.append(
            Cell(
                row="ConvNet",
                column=str(each),
                method=method,
                epsilon=EPSILON,
                paper=paper,
            )
        )
    return run_cells("PSG, Table 4, images of each class", options, cells)


if __name__ == "__main__":
    sys.exit(main())
