"""Poisson samples of the records: each one enters on its own, with the rate that is accounted, at random.

Guarantee G-19 (the sample). A record enters when its own 32-bit word, fresh from the operating system, is below
rate·2³². Rates are multiples of 2⁻³², so this is the rate exactly; and no record's word says anything of another's.
"""

from __future__ import annotations

import secrets

import numpy as np
import numpy.typing as npt

from noisegate.privacy.gradient_plan import RATES

_AT_ONCE = 2**20


def poisson_sample(records: int, rate: float) -> npt.NDArray[np.intp]:
    """Returns the places of the records in a fresh sample, ascending. Their number is private.

    Args:
        records: How many records there are.
        rate: A multiple of 2⁻³² in (0, 1].
    """
    threshold = int(rate * RATES)
    found = [
        start + np.flatnonzero(_words(min(_AT_ONCE, records - start)) < threshold)
        for start in range(0, records, _AT_ONCE)
    ]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.intp)


def _words(count: int) -> npt.NDArray[np.uint64]:
    words: npt.NDArray[np.uint64] = np.frombuffer(secrets.token_bytes(4 * count), dtype=np.uint32).astype(np.uint64)
    return words
