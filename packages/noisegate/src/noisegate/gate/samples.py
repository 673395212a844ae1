"""Encoded records in memory, part by part, and the Poisson samples of them, by a keyed stream (G-19, G-33).

A record enters by its own word of a keyed stream (G-19). So whoever holds a part, this
process or a worker (G-33), draws for its records alone, and a part that is read again
has the same sample in the same step.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.gate.execution import (
    Encoded,
    Execution,
    embedded_records,
    made_up_records,
)
from noisegate.gate.per_example.gradients import GradientSource, block_gradients, nearby
from noisegate.gate.per_example.tracing import Parameters
from noisegate.privacy.gradient_plan import RATES
from noisegate.queries.feature_map import FeatureMap
from noisegate.records import POSITIONS, Images
from noisegate.schema import Layout

Records: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[np.int32]]
"""Numeric and coded columns of all records, (records, columns) each; images as bytes: see `as_floats`."""

_INTENSITIES = POSITIONS.astype(np.float32)
# Records whose words are drawn at once.
_AT_ONCE = 2**20


def as_floats(numeric: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Returns numeric columns as float32; bytes as intensities in [0, 1]."""
    return (
        _INTENSITIES.take(numeric)
        if numeric.dtype == np.uint8
        else numeric.astype(np.float32, copy=False)
    )


@dataclass(frozen=True, kw_only=True)
class PoissonSamples:
    """Who is in the samples of one session."""

    rate: float  # a multiple of 2⁻³² in (0, 1]
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """256 secret bits of this session alone, from the operating system; written nowhere."""

    def places(self, records: int, step: int, part: int = 0) -> npt.NDArray[np.intp]:
        """Returns the places of the records of a part in the sample of a step, ascending. Their number is private."""
        return poisson_sample(records, self.rate, self._stream(step, part))

    def _stream(self, step: int, part: int) -> Callable[[int], npt.NDArray[np.uint32]]:
        """Returns what draws so many words: SHAKE256 of the key, the step, the part, and how often it was called."""
        which = step.to_bytes(8, "little") + part.to_bytes(8, "little")
        seeds = (
            self.key + which + block.to_bytes(8, "little") for block in range(2**64)
        )
        return lambda count: np.frombuffer(
            hashlib.shake_256(next(seeds)).digest(4 * count), dtype="<u4"
        )


def poisson_sample(
    records: int, rate: float, words: Callable[[int], npt.NDArray[np.uint32]]
) -> npt.NDArray[np.intp]:
    """Returns the places of those records whose word is below the rate; `words` draws as many as it is asked for."""
    threshold = int(rate * RATES)
    found = [
        start
        + np.flatnonzero(words(min(_AT_ONCE, records - start)) < np.uint64(threshold))
        for start in range(0, records, _AT_ONCE)
    ]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.intp)


class HeldRecords:
    """Records in memory, 4 bytes a column, or what a public map made of them; `places` are those of each part."""

    def __init__(self, represented: tuple[FeatureMap, Execution] | None = None) -> None:
        self.represented, self.places = represented, dict[int, range]()
        self._held: list[Records] = []

    @property
    def records(self) -> int:
        """How many there are; private."""
        return sum(map(len, self.places.values()))

    def add(
        self, number: int, part: Any, progress: Callable[[int], None] | None = None
    ) -> int:
        """Reads a part, as a whole or not at all; returns how many records it has."""
        first, seen, read = self.records, 0, list[Records]()
        for reading in part.unread():
            records = reading().row_by_row()
            if self.represented is not None:
                records = embedded_records(records, *self.represented)
            images = (
                records.pixels.reshape(len(records), -1)
                if isinstance(records, Images)
                else None
            )
            read.append(
                (
                    records.numeric.astype(np.float32) if images is None else images,
                    records.codes,
                )
            )
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


Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class StepTask:
    """The sums that all steps of a session ask for; can be pickled if the loss can."""

    gradients: GradientSource  # what computes them, in the way that was found out
    samples: PoissonSamples  # who is in the sample of a step
    start: Parameters  # parameters of the first step
    count: int  # how many numbers a sum has
    device: str = "cpu"  # where torch computes
    represented: tuple[FeatureMap, Execution] | None = None
    """The public map that stands for records, if any, and how it is computed."""


class HeldGradients(HeldRecords):
    """Records in memory, and sums of their clipped gradients over samples."""

    def __init__(self, task: StepTask) -> None:
        super().__init__(task.represented)
        self._task = task

    def total(self, step: int, parameters: Parameters) -> Integers:
        """Returns the exact sum over a step's sample, (count,), in grid units; private until it has noise."""
        source, samples, sums = (
            self._task.gradients,
            self._task.samples,
            np.zeros(self._task.count, dtype=np.int64),
        )
        found = [
            where.start + samples.places(len(where), step, part)
            for part, where in self.places.items()
            if where
        ]
        chosen, rows = (
            np.concatenate(found) if found else np.zeros(0, dtype=np.intp),
            source.execution.rows,
        )
        with source.execution.kernels():
            for start in range(0, len(chosen), rows):
                numeric, codes = self.together()
                block = chosen[start : start + rows]
                # Always of one shape: kernels may round differently for another (DESIGN 1.5).
                padded = block[np.minimum(np.arange(rows), len(block) - 1)]
                seen = as_floats(numeric[padded]), codes[padded]
                vectors = block_gradients(source, parameters, *seen, self._task.device)
                source.add(sums, tuple(part[: len(block)] for part in vectors))
        return sums

    def tried(self, layout: Layout, random: np.random.Generator) -> Iterator[Integers]:
        """Yields what some made-up records add up to, near the first parameters."""
        task, rows = self._task, self._task.gradients.execution.rows
        everyone = replace(task, samples=replace(task.samples, rate=1.0))
        for number in (1, rows + 1):
            held = HeldGradients(everyone)
            held.add(0, Encoded([made_up_records(layout, number, random)]))
            yield held.total(0, nearby(task.start))

    def merged(self, found: Sequence[Integers]) -> Integers:
        """Returns the sum of what several have found."""
        return np.asarray(np.sum(found, axis=0, dtype=np.int64))
