"""Figure 4 of DP-DRE and DP-MGE: number of different bins on a second set, here with the private classes held out.

    python benchmarks/mge_dre/figure_4.py --data DIR --out DIR [--methods dp-dre ...] [--epsilon 1 inf]

Options, and what stands beside what, are those of run.py; what --out holds is kept and shared by all tables of one set.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mge_dre.tables import command

if __name__ == "__main__":
    figures = {"ndb": None}
    command(
        "Figure 4",
        figures,
        private="held-out",
        paper="Car",
        description=__doc__ or "",
    )
