"""The protocol of engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from noisegate.gate.sums import SumTask, Totals
from noisegate.schema import EncodedTable

Batch = EncodedTable | Callable[[], EncodedTable]
"""Records, or a function that encodes them where they are summed."""

Progress = Callable[[int], None]
"""Called with the number of records summed so far. It is shown to the operator only."""


class Engine(Protocol):
    """Sums feature vectors over all batches of records."""

    def sum(self, batches: Iterable[Batch], tasks: Mapping[str, SumTask], progress: Progress | None) -> Totals:
        """Returns the exact totals over all records in `batches`."""
        ...
