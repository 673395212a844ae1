"""Discrete Gaussians of any width, convolved from one narrow one whose probabilities stand in a table.

Noise for thousands of gradients needs a sampler that is faster than an exact one and closer to the ideal than a float64
Gaussian can be. Integers x₀, x₁, … are drawn from the discrete Gaussian of standard deviation parameter t = 4096, and
x₀ + c₁x₁ + c₂x₂ + … is returned, with public multipliers c: Micciancio and Walter (CRYPTO 2017),
https://eprint.iacr.org/2017/259.

Guarantee G-18 (the convolved Gaussian). On each coordinate the result takes every integer with the probability of
a normal density of standard deviation S, S² = t²·Σ cⱼ², within a factor of (1 + η)^±(2·levels), η < 10⁻³³, but for
a total variation distance of 2⁻²⁸⁰ for each x.

Boundaries of the table are rounded down to 64 bits. A random word that equals none of them decides alone. One that
does, as happens once in 10¹⁴ draws, is continued by 320 more bits, which are compared with the boundaries in full.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from noisegate.errors import CalibrationError

Words = npt.NDArray[np.uint64]

WIDTH = 4096
"""Standard deviation parameter t of the table."""
NARROWEST = 16 * WIDTH
"""Least standard deviation that is drawn; from here on `reached` is close to what is asked for."""
CONVOLVED_UP_TO = 100.0
"""Above this ε the distance from the ideal could matter, as it counts e^ε times; exact draws take their place."""

# c times this is at most the width of what stands before, so that the two together are smooth (G-18).
_SMOOTH = 2.1
_BITS, _WORD = 384, 64
# Bits of a word that are looked up, and boundaries that words of the same such bits are then compared with.
_LEADING, _COMPARED = 18, 2
# Beyond 20 standard deviations the discrete Gaussian has a mass below 2⁻²⁸⁶.
_REACH = 20 * WIDTH


@dataclass(frozen=True, kw_only=True)
class GaussianTable:
    """The distribution function of the discrete Gaussian of parameter `WIDTH`.

    Attributes:
        boundaries: The distribution function at −reach, …, reach − 1, times 2³⁸⁴, rounded down.
        words: The same times 2⁶⁴, rounded down.
    """

    boundaries: list[int]
    words: Words

    def numbers(self, words: Words, more: Callable[[], int]) -> npt.NDArray[np.int64]:
        """Returns the integers that uniform random words stand for.

        Args:
            words: Uniform 64-bit words, (n,).
            more: Returns 320 further uniform bits.
        """
        places = self._places(words)
        for tie in np.flatnonzero(self.words.take(places, mode="clip") == words):
            places[tie] = bisect_right(self.boundaries, (int(words[tie]) << (_BITS - _WORD)) | more())
        return (places - _REACH).astype(np.int64)

    def _places(self, words: Words) -> npt.NDArray[np.int64]:
        """Returns how many boundaries are below each word: what a binary search gives, in a third of the time.

        The leading bits of a word tell how many boundaries are below all words with these bits. Where at most two more
        boundaries share them, two comparisons decide; elsewhere, in the tails, the search does.
        """
        starts, crowded, padded = self._guide
        leading = (words >> np.uint64(_WORD - _LEADING)).astype(np.int64)
        places = starts[leading]
        for _ in range(_COMPARED):
            places += padded[places] < words
        rest = np.flatnonzero(crowded[leading])
        places[rest] = np.searchsorted(self.words, words[rest], side="left")
        return places

    @cached_property
    def _guide(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], Words]:
        edges = np.arange(2**_LEADING, dtype=np.uint64) << np.uint64(_WORD - _LEADING)
        starts = np.searchsorted(self.words, edges, side="left").astype(np.int64)
        crowded = np.diff(np.append(starts, len(self.words))) > _COMPARED
        # Above all words, so that no comparison goes beyond the last boundary.
        return starts, crowded, np.append(self.words, np.full(_COMPARED, 2**_WORD - 1, dtype=np.uint64))


@cache
def gaussian_table() -> GaussianTable:
    """Returns the table, made once in about a tenth of a second with integers alone."""
    # ρ(k+1)/ρ(k) = e^(−(2k+1)/2t²), and each ratio is the one before times e^(−1/t²).
    weights, ratio, fall = [1 << _BITS], _exp_of_minus(1, 2 * WIDTH**2), _exp_of_minus(1, WIDTH**2)
    for _ in range(_REACH):
        weights.append(weights[-1] * ratio >> _BITS)
        ratio = ratio * fall >> _BITS
    total, done, boundaries = weights[0] + 2 * sum(weights[1:]), 0, []
    for k in range(-_REACH, _REACH):
        done += weights[abs(k)]
        boundaries.append((done << _BITS) // total)
    words = np.array([boundary >> (_BITS - _WORD) for boundary in boundaries], dtype=np.uint64)
    return GaussianTable(boundaries=boundaries, words=words)


def multipliers(std: float) -> tuple[int, ...]:
    """Returns 1, c₁, c₂, … for a standard deviation of at least `std` grid units.

    Raises:
        CalibrationError: if that is below `NARROWEST`.
    """
    if std < NARROWEST:
        raise CalibrationError(f"noise_std={std:g} grid units cannot be convolved: below {NARROWEST}.")
    found, square = [1], WIDTH**2
    wanted = math.ceil(std) ** 2 if std > 2**26 else math.ceil(std**2)
    while square < wanted:
        largest = int(math.isqrt(square) / _SMOOTH)
        needed = math.isqrt(max((wanted - square - 1) // WIDTH**2, 0)) + 1
        found.append(min(needed, largest))
        square += (found[-1] * WIDTH) ** 2
    return tuple(found)


def reached(std: float) -> float:
    """Returns the standard deviation that `multipliers(std)` give, rounded down."""
    return math.nextafter(WIDTH * math.sqrt(sum(c * c for c in multipliers(std))), 0)


def _exp_of_minus(numerator: int, denominator: int) -> int:
    """Returns exp(−numerator/denominator) times 2³⁸⁴, off by less than 1; the argument is below 1."""
    guard = 64
    total = term = 1 << (_BITS + guard)
    for n in range(1, 200):
        term = term * numerator // (denominator * n)
        total += -term if n % 2 else term
    return total >> guard
