"""Draws the noise that makes a sum private.

No other file does; but OpenDP's AIM and MST draw their own, in one piece with what they
measure (G-17).

Randomness comes from the operating system and takes no seed: whoever could repeat the
noise could subtract it. Noise consists of integers, as sums do; no float64 is added,
since its low bits tell of the sum (Mironov, CCS 2012).

There are two samplers, both on the integers:

- *discrete Gaussian*: drawn exactly by OpenDP, about 10⁵ coordinates a second (G-04).
- *convolved Gaussian*: a sum of samples from a table with weights, x₀ + c₁x₁ + …,
  millions of coordinates a second (G-18). Each multiplier is small enough that all sums
  so far fill the gaps between its multiples::

      x₀                 t = 4096
      x₀ + c₁x₁          c₁ ≤ t / 2.1
      x₀ + c₁x₁ + c₂x₂   c₂ ≤ (standard deviation of the line above) / 2.1

  A sample xⱼ is drawn from the table by inversion: a uniform number in [0, 1) becomes
  the integer in whose interval it falls. The boundaries are cumulative probabilities::

      0 ──── … ──── P(X ≤ −1) ───────── P(X ≤ 0) ───────── P(X ≤ 1) ──── … ──── 1
       −reach, …                  0                  1                …, reach

Which one a query gets is a public rule (`choose_samplers`), applied when a release is
planned, and stated in its certificate. All standard deviations are in grid units.
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
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.errors import CalibrationError
from noisegate.privacy.accounting import MAXIMUM_STD, MINIMUM_STD
from noisegate.privacy.events import Sampler

if TYPE_CHECKING:
    from jaxtyping import Int64

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]  # 32 uniform random bits each

WIDTH = 4096
"""Standard deviation parameter t of the table."""
NARROWEST = 16 * WIDTH
"""Smallest standard deviation of convolved noise.

From here on, `convolved_std` is close to what is asked for.
"""
CONVOLVED_UP_TO = 100.0
"""Largest ε with convolved noise; above, noise is drawn exactly, as the distance of
convolved noise from the ideal counts e^ε times (G-18)."""
EXACT_COORDINATES = 1_000_000
"""How many coordinates of a plan may be drawn exactly; more take over ten seconds."""

# A multiplier times this is at most the width of the sum before it, so that the two
# together are smooth (G-18).
_SMOOTHNESS = 2.1
# Coordinates that a thread draws at a time.
_CHUNK_SIZE = 65_536

# The table holds fixed-point numbers of 384 bits, for which G-18 bounds the error. The
# first 32 decide, a machine word, unless they equal those of a boundary.
_BITS = 384
_WORD_BITS = 32
_REST_BITS = _BITS - _WORD_BITS
# Largest integer in the table: beyond 20 standard deviations, the mass is below 2⁻²⁸⁶.
_REACH = 20 * WIDTH
# Leading bits of a word that are looked up first, to find where to search; 2¹⁸ entries
# fit into the cache.
_LEADING_BITS = 18
# Boundaries with the same leading bits that are compared with a word one by one; where
# there are more, a binary search is faster.
_MAX_COMPARISONS = 2


def choose_samplers(
    coordinates: Sequence[int], *, epsilon: float
) -> tuple[Sampler, ...]:
    """Chooses the sampler of each query of a plan.

    The smallest queries are drawn exactly, up to `EXACT_COORDINATES` of them together.
    The others are convolved, unless ε is above `CONVOLVED_UP_TO`.

    Args:
        coordinates: Number of coordinates of each query.
        epsilon: ε of the plan.

    Returns:
        The sampler of each query, in order. It follows from public numbers alone.
    """
    smallest_first = sorted(range(len(coordinates)), key=coordinates.__getitem__)
    running_totals = accumulate(coordinates[index] for index in smallest_first)
    exact_indices = {
        index
        for index, total in zip(smallest_first, running_totals, strict=True)
        if total <= EXACT_COORDINATES
    }
    if epsilon > CONVOLVED_UP_TO:
        large_query_sampler = Sampler.DISCRETE_GAUSSIAN
    else:
        large_query_sampler = Sampler.CONVOLVED_GAUSSIAN
    return tuple(
        Sampler.DISCRETE_GAUSSIAN if index in exact_indices else large_query_sampler
        for index in range(len(coordinates))
    )


def convolution_multipliers(min_std: float) -> tuple[int, ...]:
    """Returns the multipliers 1, c₁, c₂, … of convolved noise (G-18).

    Each multiplier is the least one that makes the sum wide enough, or the largest that
    leaves no gaps, if that is less; then a further sample is needed. Convolutions after
    Micciancio and Walter (CRYPTO 2017), https://eprint.iacr.org/2017/259.

    Args:
        min_std: Smallest standard deviation that the sum must have, in grid units.

    Raises:
        CalibrationError: if it is below `NARROWEST`.

    >>> from noisegate.privacy.noise import NARROWEST, convolution_multipliers
    >>> convolution_multipliers(NARROWEST)
    (1, 16)
    """
    if min_std < NARROWEST:
        raise CalibrationError(
            f"noise_std={min_std:g} grid units cannot be convolved: below {NARROWEST}."
        )
    if min_std > 2**26:
        # The square may exceed what float64 holds exactly.
        target_variance = math.ceil(min_std) ** 2
    else:
        target_variance = math.ceil(min_std**2)

    multipliers = [1]
    variance = WIDTH**2  # of the sum so far
    while variance < target_variance:
        max_smooth = int(math.isqrt(variance) / _SMOOTHNESS)
        missing_variance = target_variance - variance
        min_sufficient = math.isqrt(max((missing_variance - 1) // WIDTH**2, 0)) + 1
        multiplier = min(min_sufficient, max_smooth)
        multipliers.append(multiplier)
        variance += (multiplier * WIDTH) ** 2
    return tuple(multipliers)


def convolved_std(min_std: float) -> float:
    """Returns the standard deviation of the convolved noise for a wanted one.

    Convolved noise draws certain standard deviations only, and this is the one that is
    drawn. It is rounded down, since a certificate that states it must not claim more
    noise than there is.

    Args:
        min_std: Smallest standard deviation that it must have, in grid units.

    Raises:
        CalibrationError: if that is below `NARROWEST`.
    """
    squared_multipliers = sum(
        multiplier * multiplier for multiplier in convolution_multipliers(min_std)
    )
    return math.nextafter(WIDTH * math.sqrt(squared_multipliers), 0)


def add_noise(
    sums: Int64[Integers, "*shape"], *, noise_std: float, sampler: Sampler
) -> Int64[Integers, "*shape"]:
    """Adds independent Gaussian noise to every coordinate of a sum.

    Args:
        sums: Exact sums in grid units, of any shape; below 2⁶² in magnitude, so that
            noise does not overflow (G-07).
        noise_std: Standard deviation of the noise, in grid units.
        sampler: Which noise is drawn.

    Returns:
        The noisy sums, in grid units.

    Raises:
        CalibrationError: if no guarantee is proved for such noise; or for samplers that
            do not draw here: the summed Gaussian (G-32), and the rounded one of earlier
            versions (G-05).
    """
    _check_std(noise_std)
    if sampler is Sampler.DISCRETE_GAUSSIAN:
        return sums + _discrete_gaussian(sums.size, noise_std).reshape(sums.shape)
    if sampler is Sampler.CONVOLVED_GAUSSIAN:
        return sums + _convolved_gaussian(sums.size, noise_std).reshape(sums.shape)
    if sampler is Sampler.SUMMED_GAUSSIAN:
        raise CalibrationError(
            f"noise of sampler {sampler.value!r} is drawn in shares, each by itself "
            "(G-32)."
        )
    raise CalibrationError(
        f"noise of sampler {sampler.value!r} is drawn no more: calibrate a new plan."
    )


def noisy_counts_above(
    counts: npt.NDArray[np.int64], *, noise_std: float, threshold: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Selects the counts that reach a threshold with noise (G-15).

    This is partition selection: counts of keys that occur in the data, whose number is
    private. OpenDP draws the noise, a discrete Gaussian. Rogers (2023),
    https://arxiv.org/abs/2309.09170.

    Args:
        counts: Exact count of each key, in grid units, (keys,).
        noise_std: Standard deviation of the noise, in grid units.
        threshold: Smallest noisy count that is released, in grid units.

    Returns:
        The indices of the keys that are selected, ascending, (selected,), and their
        noisy counts in grid units, (selected,).

    Raises:
        CalibrationError: if no guarantee is proved for such noise.
    """
    _check_std(noise_std)
    domains, metrics, measurements = _opendp()
    domain = domains.map_domain(
        domains.atom_domain(T="i64"), domains.atom_domain(T="i64")
    )
    metric = metrics.l02inf_distance(metrics.absolute_distance(T="f64"))
    measurement = measurements.make_gaussian_threshold(
        domain, metric, scale=noise_std, threshold=threshold
    )
    noisy_counts: dict[int, int] = {}  # by the index of the key
    for start in range(0, counts.size, _CHUNK_SIZE):
        chunk = counts[start : start + _CHUNK_SIZE].tolist()
        noisy_counts |= measurement(dict(enumerate(chunk, start)))
    # Sorted, so that the order tells nothing: OpenDP's tables have one of their own.
    indices = sorted(noisy_counts)
    return (
        np.array(indices, dtype=np.int64),
        np.array([noisy_counts[index] for index in indices], dtype=np.int64),
    )


def _check_std(noise_std: float) -> None:
    """Checks that a guarantee is proved for noise of a standard deviation.

    It is checked here and not only by the accountant, so that nothing else is drawn,
    whoever calls.

    Args:
        noise_std: Standard deviation, in grid units; NaN is refused too.

    Raises:
        CalibrationError: otherwise.
    """
    if not MINIMUM_STD <= noise_std <= MAXIMUM_STD:
        raise CalibrationError(
            f"noise_std={noise_std:g} grid units cannot be drawn: outside [16, 2^50]."
        )


@cache
def _opendp() -> tuple[ModuleType, ModuleType, ModuleType]:
    """Imports OpenDP's modules for domains, metrics and measurements."""
    # Not by `opendp.prelude`, which imports scikit-learn and takes seconds.
    import opendp.domains as domains
    import opendp.measurements as measurements
    import opendp.metrics as metrics
    from opendp.mod import enable_features

    enable_features("contrib")
    return domains, metrics, measurements


def _discrete_gaussian(size: int, noise_std: float) -> npt.NDArray[np.int64]:
    """Draws `size` samples of the discrete Gaussian, exactly (G-04)."""
    domains, metrics, measurements = _opendp()
    measurement = measurements.make_gaussian(
        domains.vector_domain(domains.atom_domain(T="i64")),
        metrics.l2_distance(T="f64"),
        scale=noise_std,
    )

    def draw(count: int) -> npt.NDArray[np.int64]:
        # Noise alone is what OpenDP adds to zeros.
        return np.asarray(measurement([0] * count), dtype=np.int64)

    return _draw_in_chunks(size, draw)


def _convolved_gaussian(size: int, noise_std: float) -> npt.NDArray[np.int64]:
    """Draws `size` samples of convolved noise, Σ cⱼxⱼ with xⱼ from the table (G-18)."""
    table = gaussian_table()
    multipliers = convolution_multipliers(noise_std)

    def draw(count: int) -> npt.NDArray[np.int64]:
        noise = np.zeros(count, dtype=np.int64)
        for multiplier in multipliers:
            # New words for each sample, or the samples would not be independent.
            words = np.frombuffer(secrets.token_bytes(4 * count), dtype=np.uint32)
            noise += multiplier * table.invert(words, _draw_rest)
        return noise

    return _draw_in_chunks(size, draw)


def _draw_rest() -> int:
    """Draws the bits of a uniform number that follow its first word."""
    return secrets.randbits(_REST_BITS)


def _draw_in_chunks(
    size: int, draw: Callable[[int], npt.NDArray[np.int64]]
) -> npt.NDArray[np.int64]:
    """Draws samples in threads, chunk by chunk.

    Args:
        size: Number of samples.
        draw: Draws as many samples as it is given.

    Returns:
        Independent samples, (size,).
    """
    noise = np.zeros(size, dtype=np.int64)

    def fill(start: int) -> None:
        """Writes one chunk; no two threads write to the same places."""
        count = min(_CHUNK_SIZE, size - start)
        noise[start : start + _CHUNK_SIZE] = draw(count)

    # Threads help, since OpenDP and the source of random bytes run outside the
    # interpreter lock; that source is the operating system's and safe in threads.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        # `list` raises what a thread raised, so that no chunk of zeros is left.
        list(pool.map(fill, range(0, size, _CHUNK_SIZE)))
    return noise


@dataclass(frozen=True)
class _SearchStart:
    """Where among the boundaries to search for a word, by its leading bits.

    Attributes:
        first_index: Index of the first boundary with these leading bits or greater
            ones, (2¹⁸,).
        is_crowded: Whether too many boundaries have them to compare each, (2¹⁸,).
        padded_words: Words of all boundaries, followed by some that are above every
            word, so that no comparison goes beyond the end.
    """

    first_index: npt.NDArray[np.int64]
    is_crowded: npt.NDArray[np.bool_]
    padded_words: Words


@dataclass(frozen=True, kw_only=True)
class GaussianTable:
    """The distribution function of the discrete Gaussian of parameter `WIDTH`.

    Attributes:
        boundaries: P(X ≤ k) for k = −reach, …, reach − 1, times 2³⁸⁴, rounded down.
        words: The first 32 bits of each boundary: the same times 2³², rounded down.
    """

    boundaries: list[int]
    words: Words

    def invert(
        self, words: Words, draw_rest: Callable[[], int]
    ) -> npt.NDArray[np.int64]:
        """Turns uniform random words into samples of the discrete Gaussian.

        Args:
            words: The first 32 bits of a uniform number for each sample, (samples,).
            draw_rest: Draws the `_REST_BITS` further bits of a uniform number, as an
                integer. It is called for each word that equals that of a boundary.

        Returns:
            One integer for each word, (samples,).
        """
        indices = self._count_boundaries_below(words)
        # The first 32 bits decide, unless they are those of a boundary.
        is_tie = self.words.take(indices, mode="clip") == words
        for tie in np.flatnonzero(is_tie):
            uniform_bits = (int(words[tie]) << _REST_BITS) | draw_rest()
            indices[tie] = bisect_right(self.boundaries, uniform_bits)
        return (indices - _REACH).astype(np.int64)

    def _count_boundaries_below(self, words: Words) -> npt.NDArray[np.int64]:
        """Counts the boundaries whose word is below each of `words`.

        Args:
            words: Words to look up, (samples,).

        Returns:
            What `np.searchsorted(self.words, words, side="left")` returns, (samples,),
            in a third of the time.
        """
        start = self._search_start
        leading_bits = words >> np.uint32(_WORD_BITS - _LEADING_BITS)
        leading_bits = leading_bits.astype(np.int64)
        counts = start.first_index.take(leading_bits)
        for _ in range(_MAX_COMPARISONS):
            counts += start.padded_words.take(counts) < words

        crowded = np.flatnonzero(start.is_crowded.take(leading_bits))
        counts[crowded] = np.searchsorted(self.words, words[crowded], side="left")
        return counts

    @cached_property
    def _search_start(self) -> _SearchStart:
        """Where to search for a word, for each of its possible leading bits."""
        leading_bits = np.arange(2**_LEADING_BITS, dtype=np.uint32)
        smallest_words = leading_bits << np.uint32(_WORD_BITS - _LEADING_BITS)
        first_index = np.searchsorted(self.words, smallest_words, side="left")
        first_index = first_index.astype(np.int64)
        boundary_counts = np.diff(np.append(first_index, len(self.words)))
        largest_word = 2**_WORD_BITS - 1
        padding = np.full(_MAX_COMPARISONS, largest_word, dtype=np.uint32)
        return _SearchStart(
            first_index=first_index,
            is_crowded=boundary_counts > _MAX_COMPARISONS,
            padded_words=np.append(self.words, padding),
        )


@cache
def gaussian_table() -> GaussianTable:
    """Computes the table with integers alone (G-18).

    It takes about a tenth of a second, once in a process.
    """
    # The weight ρ(k) = e^(−k²/2t²) has the ratios ρ(k + 1)/ρ(k) = e^(−(2k + 1)/2t²), so
    # each ratio is the one before times e^(−1/t²). All are fixed-point numbers.
    ratio = _exp_of_minus(1, 2 * WIDTH**2)
    ratio_decay = _exp_of_minus(1, WIDTH**2)
    weights = [1 << _BITS]  # of 0, 1, …, reach
    for _ in range(_REACH):
        weights.append(weights[-1] * ratio >> _BITS)
        ratio = ratio * ratio_decay >> _BITS

    total_weight = weights[0] + 2 * sum(weights[1:])
    cumulative_weights = accumulate(weights[abs(k)] for k in range(-_REACH, _REACH))
    boundaries = [(weight << _BITS) // total_weight for weight in cumulative_weights]
    words = np.array(
        [boundary >> _REST_BITS for boundary in boundaries], dtype=np.uint32
    )
    return GaussianTable(boundaries=boundaries, words=words)


def _exp_of_minus(numerator: int, denominator: int) -> int:
    """Computes exp(−numerator/denominator) in fixed point, by its power series.

    Args:
        numerator: Below `denominator`.
        denominator: Positive.

    Returns:
        The value times 2³⁸⁴, off by less than 1.
    """
    guard_bits = 64  # so that rounding of all terms together stays below one unit
    term = 1 << (_BITS + guard_bits)
    total = term
    # Term n is at most 1/n!, which is below the last guard bit long before n = 200.
    for n in range(1, 200):
        term = term * numerator // (denominator * n)
        if n % 2:
            total -= term
        else:
            total += term
    return total >> guard_bits
