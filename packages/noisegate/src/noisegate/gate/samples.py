"""Records in memory, and Poisson samples of them for the steps of a training.

In each step every record is in the sample with the same probability, the rate,
independently of all others (G-19). Each record has a word of its own, 32 uniform random
bits from a stream with a secret key::

    key, step, part, block ──► SHAKE256 ──► words, one for each record
                                            record is sampled if word < rate · 2³²

So whoever holds a part of the records, this process or a worker of a cluster, draws for
these records alone. A part that is read again, after a worker was lost, has the same
sample in the same step (G-33).

How to read it: `PoissonSamples` draws, `HeldRecords` keeps records, and `HeldGradients`
sums the clipped gradients of a sample.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

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


class RecordSource(Protocol):
    """Where records are read from: a whole source, or a part of one."""

    def batch_readers(self) -> Iterator[Callable[[], EncodedTable]]:
        """Yields a function for each batch, which returns its encoded records."""
        ...


class Records(NamedTuple):
    """Records in memory.

    Attributes:
        numeric: Numeric columns, (records, columns) float32; for images their bytes,
            (records, intensities) uint8, see `as_floats`.
        codes: Coded columns, (records, columns) int32.
    """

    numeric: npt.NDArray[Any]
    codes: npt.NDArray[np.int32]


# The intensity that each byte stands for, (256,).
_INTENSITIES = POSITIONS.astype(np.float32)
# Records whose words are drawn by one call of SHAKE256: 4 MiB in memory.
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
    """Draws the Poisson samples of one session, one for each step."""

    rate: float
    """Probability that a record is in a sample, a multiple of 2⁻³² in (0, 1]."""
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """256 secret bits of this session, from the operating system; written nowhere."""

    def indices(
        self, record_count: int, step: int, part: int = 0
    ) -> npt.NDArray[np.intp]:
        """Draws which records of a part are in the sample of a step.

        Two calls with the same arguments draw the same sample.

        Args:
            record_count: Number of records of the part; private.
            step: Number of the step, from 0.
            part: Index of the part among the parts in which the records are read.

        Returns:
            Indices of the sampled records within the part, ascending. How many there
            are is private.
        """
        return poisson_sample(record_count, self.rate, self._stream(step, part))

    def _stream(self, step: int, part: int) -> Callable[[int], npt.NDArray[np.uint32]]:
        """Returns a function that draws uniform 32-bit words, one for each record.

        The words depend on key, step, part and block alone: call number b of the
        returned function, from 0, returns the first words of SHAKE256(key ‖ step ‖ part
        ‖ b), the three numbers in 8 bytes each, little-endian.

        What a change must keep: no two steps, parts or blocks have the same words.
        `test_words_are_those_of_shake256_of_key_and_step_and_part_and_block` and
        `test_records_and_samples_are_independent` notice when they do.

        Args:
            step: Number of the step, from 0.
            part: Index of the part.

        Returns:
            A function from a number of words to these words, (words,).
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
    record_count: int, rate: float, words: Callable[[int], npt.NDArray[np.uint32]]
) -> npt.NDArray[np.intp]:
    """Draws a Poisson sample: each record is in it with the same probability.

    A record is sampled if its uniform 32-bit word is below rate · 2³².

    Args:
        record_count: Number of records.
        rate: Probability that a record is sampled, a multiple of 2⁻³² in (0, 1].
        words: Draws as many uniform 32-bit words as it is called with, new ones in
            each call.

    Returns:
        Indices of the sampled records, ascending.

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
            words(min(_WORDS_PER_BLOCK, record_count - start)) < np.uint64(threshold)
        )
        for start in range(0, record_count, _WORDS_PER_BLOCK)
    ]
    if not indices_of_blocks:
        return np.zeros(0, dtype=np.intp)
    return np.concatenate(indices_of_blocks)


class HeldRecords:
    """Holds private records in memory, part by part, for the steps of a session.

    A part is a piece of the records that is read at once: all of them in one process,
    or what one worker of a cluster reads at a time. In memory, a number takes 4 bytes
    and an intensity of an image 1 byte.

    Args:
        representation: A public map, and how it is computed: its vectors are held in
            place of the numeric columns. None to hold the records as they are.

    Attributes:
        part_ranges: For each part that was read, by its index, the indices of its
            records among all records held.
    """

    def __init__(self, representation: Representation | None = None) -> None:
        self.part_ranges: dict[int, range] = {}
        self._representation = representation
        # Records of the parts that have any, in the order of `part_ranges`; several
        # parts may have been put together.
        self._records: list[Records] = []

    @property
    def record_count(self) -> int:
        """Number of records held; private."""
        return sum(map(len, self.part_ranges.values()))

    def add_part(
        self,
        part_index: int,
        part: RecordSource,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Reads all records of a part into memory, or none of them after an error.

        Args:
            part_index: Index of the part. The samples of its records are drawn by this
                index, see `PoissonSamples.indices`. No two parts have the same.
            part: The records to read.
            progress: Called after each batch with the number of records held so far.

        Returns:
            Number of records of the part.
        """
        first_index = self.record_count
        part_size = 0
        batches: list[Records] = []
        for read_batch in part.batch_readers():
            batch = read_batch().row_by_row()
            if self._representation is not None:
                batch = embedded_records(
                    batch,
                    self._representation.feature_map,
                    self._representation.execution,
                )
            batches.append(_in_memory_types(batch))
            part_size += len(batch)
            if progress:
                progress(first_index + part_size)
        if part_size:
            self._records.append(_concatenated(batches))
        self.part_ranges[part_index] = range(first_index, first_index + part_size)
        return part_size

    def all_records(self) -> Records:
        """Returns all records held, at least one, in the order of `part_ranges`.

        Parts are put together in the first call after one was added, and stay so.
        """
        if len(self._records) > 1:
            self._records = [_concatenated(self._records)]
        return self._records[0]


def _in_memory_types(records: EncodedTable) -> Records:
    """Converts a batch to the types that are held in memory: images as bytes."""
    if isinstance(records, Images):
        return Records(records.pixels.reshape(len(records), -1), records.codes)
    return Records(records.numeric.astype(np.float32), records.codes)


def _concatenated(parts: Sequence[Records]) -> Records:
    """Concatenates the records of parts, in order; a single part is not copied."""
    if len(parts) == 1:
        return parts[0]
    return Records(
        np.concatenate([part.numeric for part in parts]),
        np.concatenate([part.codes for part in parts]),
    )


@dataclass(frozen=True, kw_only=True)
class StepTask:
    """What all steps of a session have in common: gradients, samples, representation.

    It can be pickled if the loss can.
    """

    gradients: GradientSource
    """Computes the gradients at the records of a block, and adds them to a sum. A block
    is a fixed number of records that are computed together; the probe has chosen it."""
    samples: PoissonSamples
    """Draws which records are in the sample of a step."""
    initial_parameters: Parameters
    """Parameters of the first step, by name; machines are compared near them."""
    count: int
    """Number of coordinates of a gradient, over all parameters."""
    device: str = "cpu"
    """Device on which torch computes."""
    representation: Representation | None = None
    """A public map whose vectors replace the numeric columns; None for none."""


class HeldGradients(HeldRecords):
    """Sums the clipped gradients at the held records that are in a step's sample.

    Args:
        task: What all steps have in common.
    """

    def __init__(self, task: StepTask) -> None:
        super().__init__(task.representation)
        self._task = task

    def total(self, step: int, parameters: Parameters) -> Integers:
        """Sums the clipped gradients at the records in a step's sample.

        Gradients are computed in blocks of one fixed number of records, since torch may
        round differently in a block of another shape. The last block is padded by
        repeating its last record; the gradients of the padding are not added.

        Args:
            step: Number of the step, from 0, by which the sample is drawn.
            parameters: Parameters at which gradients are taken, by name.

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
                padded_block = block[np.minimum(np.arange(rows), len(block) - 1)]
                numeric = as_floats(records.numeric[padded_block])
                codes = records.codes[padded_block]
                gradients = compute_block_gradients(
                    source, parameters, numeric, codes, self._task.device
                )
                source.add_clipped(sums, gradients.take(slice(len(block))))
        return sums

    def _sampled_indices(self, step: int) -> npt.NDArray[np.intp]:
        """Draws a step's sample, part by part.

        Args:
            step: Number of the step, from 0.

        Returns:
            Indices of the sampled records among all records held; private.
        """
        samples = self._task.samples
        indices_of_parts = [
            part_range.start + samples.indices(len(part_range), step, part_index)
            for part_index, part_range in self.part_ranges.items()
            if part_range
        ]
        if not indices_of_parts:
            return np.zeros(0, dtype=np.intp)
        return np.concatenate(indices_of_parts)

    def probe_sums(
        self, layout: Layout, random: np.random.Generator
    ) -> Iterator[Integers]:
        """Yields sums over simulated records, by which machines are compared.

        Two machines that round differently give different integers here. The sums are
        over one record, and over one record more than a block has: so full blocks and
        padded ones are computed. All records are sampled, at rate 1.

        Args:
            layout: Columns of the simulated records.
            random: Draws the records.

        Yields:
            A sum of clipped gradients near the parameters of the first step, (count,),
            in grid units.
        """
        task = self._task
        rows = task.gradients.execution.rows
        task_at_rate_one = replace(task, samples=replace(task.samples, rate=1.0))
        for record_count in (1, rows + 1):
            records = Encoded([made_up_records(layout, record_count, random)])
            held_gradients = HeldGradients(task_at_rate_one)
            held_gradients.add_part(0, records)
            yield held_gradients.total(0, nearby_parameters(task.initial_parameters))

    def merge_totals(self, totals_of_workers: Sequence[Integers]) -> Integers:
        """Adds up the sums of several workers.

        Args:
            totals_of_workers: What `total` has returned in each worker, (count,).

        Returns:
            Their sum, (count,), in grid units; private.
        """
        return np.asarray(np.sum(totals_of_workers, axis=0, dtype=np.int64))
