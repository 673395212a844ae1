"""Draws how pairs of columns go together in real records and in copies of them, one map each.

    python benchmarks/tables/correlations.py --copies NAME=FILE.csv ... --out PICTURE.png [--records 10000]

The real records are those of `regression.py`, with seed 0. The picture of docs/verdicts.md has copies at ε = 1 by the
version before pairs were denoised (commit 420edb6f~1, its packages/noisegate/src on PYTHONPATH) and by this one.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from matplotlib.figure import Figure
from regression import SCHEMA, simulated

from noisegate_evaluate.metrics.analyses import associations


def draw(tables: dict[str, pa.Table], path: Path) -> None:
    """Writes a PNG file with a map for each table; numbers in it are rank correlations, or Cramér's V and the like."""
    names = SCHEMA.names
    figure = Figure(
        figsize=(4.6 * len(tables), 4.9), facecolor="white", layout="constrained"
    )
    for place, (title, table) in enumerate(tables.items(), start=1):
        axes = figure.add_subplot(1, len(tables), place)
        found = associations(table, SCHEMA.columns, SCHEMA, signed=True)
        shown = axes.imshow(np.nan_to_num(found), cmap="PuOr", vmin=-0.8, vmax=0.8)
        for row, column in itertools.permutations(range(len(names)), 2):
            value = found[row, column]
            ink = "white" if abs(value) > 0.45 else "black"
            told = f"{value:.2f}".replace("0.", ".")
            axes.text(
                column, row, told, ha="center", va="center", fontsize=9, color=ink
            )
        axes.set_xticks(range(len(names)), names)
        axes.set_yticks(range(len(names)), names)
        axes.set_title(title)
    figure.colorbar(shown, ax=figure.axes, shrink=0.7, label="association")
    figure.savefig(path, dpi=110)


def main() -> None:
    """Reads copies, and draws."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--copies", nargs="+", required=True, metavar="NAME=FILE")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--records", type=int, default=10_000)
    options = parser.parse_args()
    tables = {"real": simulated(options.records, 0)}
    for copy in options.copies:
        name, _, path = copy.partition("=")
        tables[name] = pyarrow.csv.read_csv(path)
    draw(tables, options.out)


if __name__ == "__main__":
    main()
