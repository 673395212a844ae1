"""Table 2 of DP-DRE and DP-MGE: precision and recall of the distribution.

    python benchmarks/mge_dre/table_2.py --data DIR --out DIR [--methods dp-dre ...] [--epsilon 1 inf]

Options, and what stands beside what, are those of run.py; what --out holds is kept and shared by all tables of one set.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mge_dre import published
from mge_dre.tables import command

if __name__ == "__main__":
    figures = published.TABLE_2
    command(
        "Table 2",
        figures,
        private="vehicles",
        paper="Cifar10",
        description=__doc__ or "",
    )
