"""How the scripts of this folder say what they found: figures, and each claim beside what is true."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import optional, read_options
from harness.printing import print_table
from harness.results import write_json

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
    options = read_options(description, json=optional(Path))
    found = figures()
    rows = [[name, f"{value:.4g}"] for name, value in found.items()]
    print_table(description.splitlines()[0], ["figure", ""], rows)
    for what, figure, name in claims:
        claimed = found[figure] if isinstance(figure, str) else figure
        true = found[name]
        print(f"{what}: claimed {claimed:.4g}, true {true:.4g}")
        assert true > 1.1 * claimed, (what, claimed, true)
    for name, (value, tolerance) in said.items():
        assert abs(found[name] - value) <= tolerance, (name, found[name], value)
    write_json(options.json, found)
    return 0
