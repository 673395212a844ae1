"""Table 1 of DP-DRE and DP-MGE: Fréchet distances, on vehicles as private images.

    python benchmarks/mge_dre/table_1.py --data DIR --out DIR [--methods dp-dre ...] [--epsilon 1 inf]

Options, and what stands beside what, are those of run.py; what --out holds is kept and shared by all tables of one set.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mge_dre import published
from mge_dre.tables import command

if __name__ == "__main__":
    figures = {"frechet": published.TABLE_1["Car"]}
    command(
        "Table 1",
        figures,
        private="vehicles",
        paper="Car",
        description=__doc__ or "",
    )
