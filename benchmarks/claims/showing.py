"""How the scripts of this folder say what they found: figures, and each claim beside what is true."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import optional, read_options
from rich.console import Console
from rich.table import Table

Said = Mapping[str, tuple[float, float]]
"""Figures that the page says, by their names, and how far from them a script may be."""
Claims = Sequence[tuple[str, str | float, str]]
"""What is claimed, the claimed figure or its name, and the name of the true one, which is more."""


def show(
    description: str,
    figures: Callable[[], Mapping[str, float]],
    said: Said,
    claims: Claims,
) -> int:
    """Prints figures and claims, writes the figures with --json FILE, and returns 0; an AssertionError if one fails."""
    options = read_options(
        __doc__,
        json=optional(Path),
    )
    found, console = figures(), Console()
    table = Table(title=description.splitlines()[0], title_justify="left")
    table.add_column("figure")
    table.add_column("", justify="right")
    for name, value in found.items():
        table.add_row(name, f"{value:.4g}")
    console.print(table)
    for what, figure, name in claims:
        claimed, true = (
            found[figure] if isinstance(figure, str) else figure,
            found[name],
        )
        console.print(f"{what}: claimed {claimed:.4g}, true {true:.4g}")
        assert true > 1.1 * claimed, (what, claimed, true)
    for name, (value, tolerance) in said.items():
        assert abs(found[name] - value) <= tolerance, (name, found[name], value)
    if options.json:
        options.json.write_text(
            json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    return 0
