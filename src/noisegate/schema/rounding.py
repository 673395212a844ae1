"""Bounds at round numbers, which say no more than they must."""

from __future__ import annotations

import math


def outwards(lowest: float, highest: float, *, parts: int = 2, smallest: float = 0.0) -> tuple[float, float]:
    """Return bounds around both values at round numbers.

    They are multiples of the largest power of ten of which ``parts`` fit between the values, at least ``smallest``.

    They stay on the side of zero on which the values are. Around one value alone there is room on both sides.
    """
    width = highest - lowest or max(abs(highest), 1.0)
    if highest == lowest:
        zero, half = highest == 0, width / 2
        lowest, highest = lowest - (0 if zero else half), highest + (width if zero else half)
    exponent = math.floor(math.log10(width / parts))
    if smallest:
        exponent = max(exponent, round(math.log10(smallest)))
    first, last = math.floor(lowest / 10.0**exponent), math.ceil(highest / 10.0**exponent)
    return float(f"{first}e{exponent}"), float(f"{last}e{exponent}")
