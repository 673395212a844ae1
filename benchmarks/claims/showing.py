"""How the scripts of this folder say what they found: a claim, figures with their meaning, and JSON where asked for."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

DELTA = 1e-5


def show(description: str, figures: Callable[[], Mapping[str, float]]) -> int:
    """Prints the figures of a script under its first line, and writes them with --json FILE; returns the exit code."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=None, help="write the figures there")
    options = parser.parse_args()
    found = figures()
    table = Table(title=description.splitlines()[0], title_justify="left")
    table.add_column("figure")
    table.add_column("", justify="right")
    for name, value in found.items():
        table.add_row(name, f"{value:.4g}")
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0
