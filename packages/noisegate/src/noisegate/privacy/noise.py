"""The only file that draws private noise. Randomness comes from the operating system and takes no seed.

Two samplers, neither of float64, whose low bits tell of the sum (Mironov, CCS 2012): the discrete Gaussian, drawn
exactly by OpenDP, about 10⁵ coordinates a second (G-04), and the one convolved from a table, millions a second (G-18).
"""

from __future__ import annotations

import math
import os
import secrets
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import CalibrationError
from noisegate.privacy.accounting import MAXIMUM_STD, MINIMUM_STD
from noisegate.privacy.events import Sampler

if TYPE_CHECKING:
    from jaxtyping import Int64

Integers = npt.NDArray[np.int64]

Words = npt.NDArray[np.uint32]

WIDTH = 4096
"""Standard deviation parameter t of the table."""
NARROWEST = 16 * WIDTH
"""Least standard deviation that is drawn; from here on `reached` is close to what is asked for."""
CONVOLVED_UP_TO = 100.0
"""Above this ε the distance from the ideal could matter, as it counts e^ε times; exact draws take their place."""

# c times this is at most the width of what stands before, so that the two together are smooth (G-18).
_SMOOTH = 2.1
_BITS, _WORD = 384, 32
# Bits of a word that are looked up, and boundaries that words of the same such bits are then compared with.
_LEADING, _COMPARED = 18, 2
# Beyond 20 standard deviations the discrete Gaussian has a mass below 2⁻²⁸⁶.
_REACH = 20 * WIDTH
# Above this many coordinates the exact sampler takes more than ten seconds.
EXACT_COORDINATES = 1_000_000
_CHUNK = 65_536


@dataclass(frozen=True, kw_only=True)
class GaussianTable:
    """The distribution function of the discrete Gaussian of parameter `WIDTH`."""

    boundaries: list[int]  # at −reach, …, reach − 1, times 2³⁸⁴, rounded down
    words: Words  # the same times 2³², rounded down

    def numbers(self, words: Words, more: Callable[[], int]) -> npt.NDArray[np.int64]:
        """Returns the integers that uniform random words, (n,), stand for; `more` returns 352 further uniform bits."""
        places = self._places(words)
        for tie in np.flatnonzero(self.words.take(places, mode="clip") == words):
            places[tie] = bisect_right(
                self.boundaries, (int(words[tie]) << (_BITS - _WORD)) | more()
            )
        return (places - _REACH).astype(np.int64)

    def _places(self, words: Words) -> npt.NDArray[np.int64]:
        """Returns how many boundaries are below each word: what a binary search gives, in a third of the time."""
        # Where at most two boundaries share the leading bits of a word, two comparisons decide; else the search.
        starts, crowded, padded = self._guide
        leading = (words >> np.uint32(_WORD - _LEADING)).astype(np.int64)
        places = starts.take(leading)
        for _ in range(_COMPARED):
            places += padded.take(places) < words
        rest = np.flatnonzero(crowded.take(leading))
        places[rest] = np.searchsorted(self.words, words[rest], side="left")
        return places

    @cached_property
    def _guide(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], Words]:
        edges = np.arange(2**_LEADING, dtype=np.uint32) << np.uint32(_WORD - _LEADING)
        starts = np.searchsorted(self.words, edges, side="left").astype(np.int64)
        crowded = np.diff(np.append(starts, len(self.words))) > _COMPARED
        # Above all words, so that no comparison goes beyond the last boundary.
        return (
            starts,
            crowded,
            np.append(self.words, np.full(_COMPARED, 2**_WORD - 1, dtype=np.uint32)),
        )


@cache
def gaussian_table() -> GaussianTable:
    """Returns the table, made once in about a tenth of a second with integers alone."""
    # ρ(k+1)/ρ(k) = e^(−(2k+1)/2t²), and each ratio is the one before times e^(−1/t²).
    weights, ratio, fall = (
        [1 << _BITS],
        _exp_of_minus(1, 2 * WIDTH**2),
        _exp_of_minus(1, WIDTH**2),
    )
    for _ in range(_REACH):
        weights.append(weights[-1] * ratio >> _BITS)
        ratio = ratio * fall >> _BITS
    total = weights[0] + 2 * sum(weights[1:])
    boundaries = [
        (done << _BITS) // total
        for done in accumulate(weights[abs(k)] for k in range(-_REACH, _REACH))
    ]
    words = np.array(
        [boundary >> (_BITS - _WORD) for boundary in boundaries], dtype=np.uint32
    )
    return GaussianTable(boundaries=boundaries, words=words)


def multipliers(std: float) -> tuple[int, ...]:
    """Returns 1, c₁, c₂, … for a standard deviation of at least `std` grid units."""
    if std < NARROWEST:
        raise CalibrationError(
            f"noise_std={std:g} grid units cannot be convolved: below {NARROWEST}."
        )
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


def choose_samplers(
    coordinates: Sequence[int], *, epsilon: float
) -> tuple[Sampler, ...]:
    """Returns the sampler of each question of a plan: a public rule, recorded in the certificate.

    Exact for the smallest questions, up to a million coordinates of the plan together; the others are convolved, up to
    ε = 100.
    """
    order = sorted(range(len(coordinates)), key=coordinates.__getitem__)
    together = accumulate(coordinates[place] for place in order)
    exact = {
        place
        for place, total in zip(order, together, strict=True)
        if total <= EXACT_COORDINATES
    }
    fast = (
        Sampler.DISCRETE_GAUSSIAN
        if epsilon > CONVOLVED_UP_TO
        else Sampler.CONVOLVED_GAUSSIAN
    )
    return tuple(
        Sampler.DISCRETE_GAUSSIAN if place in exact else fast
        for place in range(len(coordinates))
    )


def add_noise(
    sums: Int64[Integers, "*shape"], *, noise_std: float, sampler: Sampler
) -> Int64[Integers, "*shape"]:
    """Returns `sums`, |value| < 2⁶², plus independent Gaussian noise on every coordinate, all in grid units."""
    _check_std(noise_std)
    if sampler is Sampler.DISCRETE_GAUSSIAN:
        return sums + _discrete_gaussian(sums.size, noise_std).reshape(sums.shape)
    if sampler is Sampler.CONVOLVED_GAUSSIAN:
        return sums + _convolved_gaussian(sums.size, noise_std).reshape(sums.shape)
    how = (
        "in shares, each by itself (G-32)"
        if sampler is Sampler.SUMMED_GAUSSIAN
        else "no more: calibrate a new plan"
    )
    raise CalibrationError(f"noise of sampler {sampler.value!r} is drawn {how}.")


def noisy_counts_above(
    counts: npt.NDArray[np.int64], *, noise_std: float, threshold: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns which counts, (keys,), reach `threshold` with discrete Gaussian noise, ascending, and these noisy counts.

    All in grid units. Partition selection by OpenDP, for the counts of keys that occur, whose number is private: Rogers
    (2023), https://arxiv.org/abs/2309.09170.
    """
    _check_std(noise_std)
    domains, metrics, measurements = _opendp()
    keyed = domains.map_domain(
        domains.atom_domain(T="i64"), domains.atom_domain(T="i64")
    )
    metric = metrics.l02inf_distance(metrics.absolute_distance(T="f64"))
    measurement = measurements.make_gaussian_threshold(
        keyed, metric, scale=noise_std, threshold=threshold
    )
    found: dict[int, int] = {}
    for start in range(0, counts.size, _CHUNK):
        found |= measurement(
            dict(enumerate(counts[start : start + _CHUNK].tolist(), start))
        )
    positions = sorted(found)
    return np.array(positions, dtype=np.int64), np.array(
        [found[key] for key in positions], dtype=np.int64
    )


def _check_std(noise_std: float) -> None:
    if not MINIMUM_STD <= noise_std <= MAXIMUM_STD:
        raise CalibrationError(
            f"noise_std={noise_std:g} grid units cannot be drawn: outside [16, 2^50]."
        )


@cache
def _opendp() -> Any:
    # `opendp.prelude` imports scikit-learn and takes seconds; these modules are all that is needed.
    import opendp.domains as domains
    import opendp.measurements as measurements
    import opendp.metrics as metrics
    from opendp.mod import enable_features

    enable_features("contrib")
    return domains, metrics, measurements


def _discrete_gaussian(size: int, noise_std: float) -> npt.NDArray[np.int64]:
    domains, metrics, measurements = _opendp()
    space = (
        domains.vector_domain(domains.atom_domain(T="i64")),
        metrics.l2_distance(T="f64"),
    )
    measurement = measurements.make_gaussian(*space, scale=noise_std)
    return _in_chunks(
        size, lambda few: np.asarray(measurement([0] * few), dtype=np.int64)
    )


def _convolved_gaussian(size: int, noise_std: float) -> npt.NDArray[np.int64]:
    table, factors = gaussian_table(), multipliers(noise_std)

    def draw(few: int) -> npt.NDArray[np.int64]:
        noise = np.zeros(few, dtype=np.int64)
        for multiplier in factors:
            words = np.frombuffer(secrets.token_bytes(4 * few), dtype=np.uint32)
            noise += multiplier * table.numbers(
                words, lambda: secrets.randbits(_BITS - _WORD)
            )
        return noise

    return _in_chunks(size, draw)


def _in_chunks(
    size: int, draw: Callable[[int], npt.NDArray[np.int64]]
) -> npt.NDArray[np.int64]:
    noise, starts = np.zeros(size, dtype=np.int64), range(0, size, _CHUNK)

    def fill(start: int) -> None:
        noise[start : start + _CHUNK] = draw(min(_CHUNK, size - start))

    # Random bytes come, and OpenDP runs, outside the interpreter lock; the randomness is the operating system's.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(fill, starts))
    return noise
