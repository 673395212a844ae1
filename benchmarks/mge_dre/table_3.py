"""Table 3 of DP-DRE: share of the weight that lies on public images of the private classes.

    python benchmarks/mge_dre/table_3.py --data DIR --out DIR [--methods dp-dre ...] [--epsilon 1 inf]

Options, and what stands beside what, are those of run.py; what --out holds is kept and shared by all tables of one set.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mge_dre import published
from mge_dre.tables import command

if __name__ == "__main__":
    figures = {"on_support": published.TABLE_3}
    command(
        "Table 3",
        figures,
        private="vehicles",
        paper="Car",
        description=__doc__ or "",
    )
