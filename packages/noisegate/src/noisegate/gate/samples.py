"""Records in memory, and Poisson samples of them for the steps of a training.

In each step every record is in the sample with one probability, independently of all
others (G-19). It is drawn by a word of the record's own, 32 bits of a keyed stream::

    key, step, part, block ──► SHAKE256 ──► words, one for each record
                                            record is sampled if word < rate · 2³²

So whoever holds a part of the records, this process or a worker of a cluster, draws for
its records alone, and a part that is read again, after a worker was lost, has the same
sample in the same step (G-33).

How to read it: `PoissonSamples` draws, `HeldRecords` keeps records, and `HeldGradients`
sums the clipped gradients of a sample.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisegate.gate.execution import (
    Encoded,
    Representation,
    embedded_records,
    made_up_records,
)
from noisegate.gate.per_example.gradients import (
    GradientSource,
    compute_block_gradients,
    nearby_parameters,
)
from noisegate.gate.per_example.tracing import Parameters
from noisegate.privacy.gradient_plan import RATES
from noisegate.records import POSITIONS, Images
from noisegate.schema import EncodedTable, Layout

Integers = npt.NDArray[np.int64]


class Records(NamedTuple):
    """Records in memory.

    Attributes:
        numeric: Numeric columns, (records, columns) float32; of images their bytes,
            (records, intensities) uint8, see `as_floats`.
        codes: Coded columns, (records, columns) int32.
    """

    numeric: npt.NDArray[Any]
    codes: npt.NDArray[np.int32]


# The intensity that each byte stands for, (256,).
_INTENSITIES = POSITIONS.astype(np.float32)
# Records whose words are drawn at once, by one call of SHAKE256: 4 MiB.
_WORDS_PER_BLOCK = 2**20


def as_floats(numeric: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Returns numeric columns as float32, and bytes of images as intensities in [0, 1].

    Args:
        numeric: Columns as `Records` has them, (records, columns).
    """
    if numeric.dtype == np.uint8:
        return _INTENSITIES.take(numeric)
    return numeric.astype(np.float32, copy=False)


@dataclass(frozen=True, kw_only=True)
class PoissonSamples:
    """Draws the samples of one session."""

    rate: float
    """Probability of each record, a multiple of 2⁻³² in (0, 1]."""
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """256 secret bits of this session, from the operating system; written nowhere."""

    def indices(self, records: int, step: int, part: int = 0) -> npt.NDArray[np.intp]:
        """Draws which records of a part are in the sample of a step.

        Args:
            records: Number of records of the part.
            step: Number of the step, from 0.
            part: Number of the part.

        Returns:
            Their indices in the part, ascending. How many there are is private.
        """
        return poisson_sample(records, self.rate, self._stream(step, part))

    def _stream(self, step: int, part: int) -> Callable[[int], npt.NDArray[np.uint32]]:
        """Returns the stream of words of one part in one step.

        Call number b of the returned function, from 0, gives the first words of
        SHAKE256 of key, step, part and b, the numbers in 8 bytes, little-endian.

        Args:
            step: Number of the step.
            part: Number of the part.
        """
        step_and_part = step.to_bytes(8, "little") + part.to_bytes(8, "little")
        seeds = (
            self.key + step_and_part + block.to_bytes(8, "little")
            for block in range(2**64)
        )
        # A word has 4 bytes.
        return lambda count: np.frombuffer(
            hashlib.shake_256(next(seeds)).digest(4 * count), dtype="<u4"
        )


def poisson_sample(
    records: int, rate: float, words: Callable[[int], npt.NDArray[np.uint32]]
) -> npt.NDArray[np.intp]:
    """Returns the indices of the records whose word is below the rate.

    Args:
        records: Number of records.
        rate: Probability of each record, a multiple of 2⁻³² in (0, 1].
        words: Draws as many uniform 32-bit words as it is called with, each time new
            ones.

    Returns:
        Indices, ascending.

    Examples:
        >>> import numpy as np
        >>> from noisegate.gate.samples import poisson_sample
        >>> words = np.array([0, 2**31, 2**31 - 1], dtype=np.uint32)
        >>> poisson_sample(3, 0.5, lambda count: words[:count]).tolist()
        [0, 2]
    """
    # Exact, as the rate is a multiple of 1 / `RATES`, which is 2⁻³².
    threshold = int(rate * RATES)
    indices_of_blocks = [
        start
        + np.flatnonzero(
            words(min(_WORDS_PER_BLOCK, records - start)) < np.uint64(threshold)
        )
        for start in range(0, records, _WORDS_PER_BLOCK)
    ]
    if not indices_of_blocks:
        return np.zeros(0, dtype=np.intp)
    return np.concatenate(indices_of_blocks)


class HeldRecords:
    """Records in memory, or what a public map has made of them.

    A number takes 4 bytes, an intensity 1.

    Args:
        represented: The public map whose vectors stand for the numeric columns; None
            for the records themselves.

    Attributes:
        part_ranges: For each part that was read, the indices of its records among all.
    """

    def __init__(self, represented: Representation | None = None) -> None:
        self.represented = represented
        self.part_ranges: dict[int, range] = {}
        self._parts: list[Records] = []

    @property
    def records(self) -> int:
        """Number of records; private."""
        return sum(map(len, self.part_ranges.values()))

    def add_part(
        self, number: int, part: Any, progress: Callable[[int], None] | None = None
    ) -> int:
        """Reads a part into memory, as a whole, or not at all if there is an error.

        Args:
            number: Number of the part, which chooses its samples; each is added once.
            part: A source of records, read by `batch_readers`.
            progress: Called with the number of records held so far.

        Returns:
            Number of records of the part.
        """
        first_index = self.records
        record_count = 0
        batches: list[Records] = []
        for read in part.batch_readers():
            records = read().row_by_row()
            if self.represented is not None:
                records = embedded_records(records, *self.represented)
            batches.append(_in_memory_types(records))
            record_count += len(records)
            if progress:
                progress(first_index + record_count)
        if record_count:
            self._parts.append(_concatenated(batches))
        self.part_ranges[number] = range(first_index, first_index + record_count)
        return record_count

    def all_records(self) -> Records:
        """Returns all records, at least one, in the order of `part_ranges`.

        Parts are put together in the first call after one was added, and stay so.
        """
        if len(self._parts) > 1:
            self._parts = [_concatenated(self._parts)]
        return self._parts[0]


def _in_memory_types(records: EncodedTable) -> Records:
    """Returns a batch in the types that are kept in memory: images as bytes."""
    if isinstance(records, Images):
        return Records(records.pixels.reshape(len(records), -1), records.codes)
    return Records(records.numeric.astype(np.float32), records.codes)


def _concatenated(parts: Sequence[Records]) -> Records:
    """Returns the records of all parts, in order; of one part without copying."""
    if len(parts) == 1:
        return parts[0]
    return Records(
        np.concatenate([part.numeric for part in parts]),
        np.concatenate([part.codes for part in parts]),
    )


@dataclass(frozen=True, kw_only=True)
class StepTask:
    """The sums that all steps of a session ask for; can be pickled if the loss can."""

    gradients: GradientSource
    """Computes the gradients of a block, in the way that was tried."""
    samples: PoissonSamples
    """Draws who is in the sample of a step."""
    start: Parameters
    """Parameters of the first step, by name; near them machines are compared."""
    count: int
    """How many numbers a sum has."""
    device: str = "cpu"
    """Where torch computes."""
    represented: Representation | None = None
    """The public map that stands for the numeric columns, if any."""


class HeldGradients(HeldRecords):
    """Sums the clipped gradients of samples of the records that it holds.

    Args:
        task: The sums that all steps ask for.
    """

    def __init__(self, task: StepTask) -> None:
        super().__init__(task.represented)
        self._task = task

    def total(self, step: int, parameters: Parameters) -> Integers:
        """Sums the clipped gradients of the records in a step's sample.

        Args:
            step: Number of the step, which draws the sample.
            parameters: Where gradients are taken, by name.

        Returns:
            The exact sum, (count,), in grid units; private until it has noise.
        """
        source = self._task.gradients
        rows = source.execution.rows
        sampled_indices = self._sampled_indices(step)
        sums = np.zeros(self._task.count, dtype=np.int64)
        with source.execution.kernels():
            for start in range(0, len(sampled_indices), rows):
                records = self.all_records()
                block = sampled_indices[start : start + rows]
                # The last block repeats its last record: kernels may round differently
                # for another shape.
                padded_block = block[np.minimum(np.arange(rows), len(block) - 1)]
                numeric = as_floats(records.numeric[padded_block])
                codes = records.codes[padded_block]
                gradients = compute_block_gradients(
                    source, parameters, numeric, codes, self._task.device
                )
                # The padding is computed, and not added.
                source.add_clipped(sums, gradients.take(slice(len(block))))
        return sums

    def _sampled_indices(self, step: int) -> npt.NDArray[np.intp]:
        """Draws the indices of the records in a step's sample, part by part."""
        samples = self._task.samples
        indices_of_parts = [
            indices.start + samples.indices(len(indices), step, part)
            for part, indices in self.part_ranges.items()
            if indices
        ]
        if not indices_of_parts:
            return np.zeros(0, dtype=np.intp)
        return np.concatenate(indices_of_parts)

    def probe_sums(
        self, layout: Layout, random: np.random.Generator
    ) -> Iterator[Integers]:
        """Yields sums over made-up records, for comparison between machines.

        All records are in the sample, and gradients are taken near the parameters of
        the first step: of one record, and of one more than a block has.

        Args:
            layout: Columns of the made-up records.
            random: Draws the records.

        Yields:
            A sum, (count,), in grid units.
        """
        task = self._task
        rows = task.gradients.execution.rows
        task_with_all = replace(task, samples=replace(task.samples, rate=1.0))
        for record_count in (1, rows + 1):
            records = Encoded([made_up_records(layout, record_count, random)])
            held_gradients = HeldGradients(task_with_all)
            held_gradients.add_part(0, records)
            yield held_gradients.total(0, nearby_parameters(task.start))

    def merge_totals(self, totals: Sequence[Integers]) -> Integers:
        """Adds up the sums of several holders of records, (count,) each."""
        return np.asarray(np.sum(totals, axis=0, dtype=np.int64))
