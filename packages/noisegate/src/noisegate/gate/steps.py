"""The exact sum of a step: clipped gradients over a sample of the records, by whoever holds them in memory.

This process holds them all, or each worker of an engine holds its parts of them (G-33). Blocks have one shape, and what
a record adds is a function of that record alone (G-20): sums are the same whoever holds which record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from noisegate.data.tables.parts import Unread
from noisegate.devices import one_thread
from noisegate.features.feature_map import FeatureMap
from noisegate.gate.execution import Encoded, Execution, made_up_records
from noisegate.gate.per_example.gradients import GradientSource, block_gradients, nearby
from noisegate.gate.per_example.tracing import Parameters
from noisegate.gate.samples import HeldRecords, PoissonSamples, as_floats
from noisegate.schema import Layout

if TYPE_CHECKING:
    from torch import Tensor

Integers = npt.NDArray[np.int64]


class Held(Protocol):
    """Whoever holds all records, each once, for the steps of one session."""

    @property
    def records(self) -> int:
        """How many there are; private."""
        ...

    def total(self, step: int, parameters: Mapping[str, Tensor]) -> Integers:
        """Returns the exact sum of a step at parameters, (count,), in grid units; private until it has noise."""
        ...


@dataclass(frozen=True, kw_only=True)
class StepTask:
    """The sums that all steps of a session ask for; can be pickled if the loss can.

    Attributes:
        gradients: What computes them, in the way that was found out.
        samples: Who is in the sample of a step.
        start: Parameters of the first step.
        count: How many numbers a sum has.
        device: Where torch computes.
        single: Whether torch computes on one thread, as bits may depend on their number.
        represented: The public map that stands for records, if any, and how it is computed.
    """

    gradients: GradientSource
    samples: PoissonSamples
    start: Parameters
    count: int
    device: str = "cpu"
    single: bool = False
    represented: tuple[FeatureMap, Execution] | None = None

    def kernels(self) -> AbstractContextManager[None]:
        """Returns the context in which gradients are computed and were tried."""
        return one_core() if self.single else nullcontext()


class HeldGradients(HeldRecords):
    """Records in memory, and sums of their clipped gradients over samples."""

    done: ClassVar[str] = "part read"

    def __init__(self, task: StepTask) -> None:
        super().__init__(task.represented)
        self._task = task

    def add(self, number: int, part: Unread, progress: Callable[[int], None] | None = None) -> int:
        """Reads a part, as `HeldRecords.add` does."""
        with self._task.kernels():
            return super().add(number, part, progress)

    def total(self, step: int, parameters: Parameters) -> Integers:
        """Returns the exact sum over the sample of a step, as `Held` says."""
        source, samples, sums = self._task.gradients, self._task.samples, np.zeros(self._task.count, dtype=np.int64)
        found = [where.start + samples.places(len(where), step, part) for part, where in self.places.items() if where]
        chosen, rows = np.concatenate(found) if found else np.zeros(0, dtype=np.intp), source.execution.rows
        with self._task.kernels():
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
        total: Integers = np.sum(found, axis=0, dtype=np.int64)
        return total


def one_core() -> AbstractContextManager[None]:
    """Keeps torch on one thread of the CPU, as a worker is."""
    import torch

    return one_thread(torch.device("cpu"))
