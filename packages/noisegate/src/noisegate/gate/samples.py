"""Encoded records in memory, part by part, and the Poisson samples of them.

Guarantee G-19 (the sample). A record enters when its own 32-bit word is below rate·2³². Rates are multiples of 2⁻³², so
this is the rate exactly, and no record's word says anything of another's. The word is that of a keyed stream: which
record of which part it is, and in which step. So whoever holds a part draws for its records alone, and a part that is
read again has the same sample in the same step.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.data.tables.parts import Unread
from noisegate.features.feature_map import FeatureMap
from noisegate.gate.execution import Execution, embedded_records
from noisegate.privacy.gradient_plan import RATES
from noisegate.records import POSITIONS, Images

Records: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[np.int32]]
"""Numeric and coded columns of all records, (records, columns) each; images as bytes: see `as_floats`."""

_INTENSITIES = POSITIONS.astype(np.float32)
# Records whose words are drawn at once.
_AT_ONCE = 2**20


def as_floats(numeric: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Returns numeric columns as float32; bytes as intensities in [0, 1]."""
    return _INTENSITIES.take(numeric) if numeric.dtype == np.uint8 else numeric.astype(np.float32, copy=False)


@dataclass(frozen=True, kw_only=True)
class PoissonSamples:
    """Who is in the samples of one session.

    Attributes:
        rate: A multiple of 2⁻³² in (0, 1].
        key: 256 secret bits of this session alone, from the operating system; written nowhere.
    """

    rate: float
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def places(self, records: int, step: int, part: int = 0) -> npt.NDArray[np.intp]:
        """Returns the places of the records of a part in the sample of a step, ascending. Their number is private."""
        return poisson_sample(records, self.rate, self._stream(step, part))

    def _stream(self, step: int, part: int) -> Callable[[int], npt.NDArray[np.uint32]]:
        """Returns what draws so many words: ChaCha20 under a key that BLAKE2b makes of the step and the part."""
        from randomgen import ChaCha

        which = step.to_bytes(8, "little") + part.to_bytes(8, "little")
        key = hashlib.blake2b(which, key=self.key, digest_size=32).digest()
        stream = ChaCha(key=int.from_bytes(key, "little"), rounds=20)
        return lambda count: stream.random_raw((count + 1) // 2).view(np.uint32)[:count]


def poisson_sample(records: int, rate: float, words: Callable[[int], npt.NDArray[np.uint32]]) -> npt.NDArray[np.intp]:
    """Returns the places of those records whose word is below the rate; `words` draws as many as it is asked for."""
    threshold = int(rate * RATES)
    found = [
        start + np.flatnonzero(words(min(_AT_ONCE, records - start)) < np.uint64(threshold))
        for start in range(0, records, _AT_ONCE)
    ]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.intp)


class HeldRecords:
    """Records in memory: 4 bytes a column and record, or what a public map made of them once, on reading.

    Attributes:
        places: Where the records of each part stand among all that are held.
    """

    def __init__(self, represented: tuple[FeatureMap, Execution] | None = None) -> None:
        self.represented, self.places = represented, dict[int, range]()
        self._held: list[Records] = []

    @property
    def records(self) -> int:
        """How many there are; private."""
        return sum(map(len, self.places.values()))

    def add(self, number: int, part: Unread, progress: Callable[[int], None] | None = None) -> int:
        """Reads a part, as a whole or not at all; returns how many records it has."""
        first, seen, read = self.records, 0, list[Records]()
        for reading in part.unread():
            records = reading().row_by_row()
            if self.represented is not None:
                records = embedded_records(records, *self.represented)
            images = records.pixels.reshape(len(records), -1) if isinstance(records, Images) else None
            read.append((records.numeric.astype(np.float32) if images is None else images, records.codes))
            seen += len(records)
            if progress:
                progress(first + seen)
        if seen:
            self._held.append(_together(read))
        self.places[number] = range(first, first + seen)
        return seen

    def together(self) -> Records:
        """Returns all records that are held, of which there is one at least, the parts in the order of `places`."""
        if len(self._held) > 1:
            self._held = [_together(self._held)]
        return self._held[0]


def _together(parts: list[Records]) -> Records:
    if len(parts) == 1:
        return parts[0]
    numeric, codes = zip(*parts, strict=True)
    return np.concatenate(numeric), np.concatenate(codes)
