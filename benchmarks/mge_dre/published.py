"""What the paper printed, and which of its rows stands beside one of ours: expected.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

Rows = dict[str, list[float]]
_PAGE: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("expected.toml").read_text(encoding="utf-8")
)
EPSILONS: list[float] = _PAGE["epsilons"]
PAPER_ROWS: dict[str, str] = _PAGE["paper_rows"]
TABLE_1: dict[str, Rows] = _PAGE["table_1"]
TABLE_2: dict[str, Rows] = _PAGE["table_2"]
TABLE_3: Rows = _PAGE["table_3"]
TABLE_5: dict[str, Rows] = _PAGE["table_5"]
