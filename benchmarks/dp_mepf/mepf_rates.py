"""Table 7 of DP-MEPF (the dissertation's version): learning rates by data set, moments and ε, from expected.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple


class Rates(NamedTuple):
    """Learning rates of the generator and of the moving average, for ε from `least` on."""

    least: float
    generator: float
    average: float


RATES: dict[tuple[str, int], list[Rates]] = {}
"""By data set and moments, from the largest ε down."""
for _entry in tomllib.loads(
    Path(__file__).with_name("expected.toml").read_text("utf-8")
)["rates"]:
    _key = _entry.pop("data"), _entry.pop("moments")
    RATES.setdefault(_key, []).append(Rates(**_entry))


def rates(data: str, moments: int, epsilon: float) -> Rates:
    """Returns the learning rates for private fits of a data set at ε.

    >>> rates("cifar10", 2, 10), rates("cifar10", 2, 0.5).average
    (Rates(least=5, generator=0.001, average=0.0003), 0.01)
    """
    return next(entry for entry in RATES[data, moments] if epsilon >= entry.least)
