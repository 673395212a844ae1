"""What is measured: the exact sum by the engine of the gate, and a whole release from a Parquet file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from table import COLUMNS, SCHEMA

from noisegate import Budget, Gate
from noisegate.gate.sums import LocalEngine, SumTask
from noisegate.privacy.grid import Grid
from noisegate.privacy.plan import Query, plan_sums
from noisegate.schema import EncodedTable
from noisegate_images.queries.fourier import RandomFourier, draw

FREQUENCIES = 500
LABELS = 2
Sums = npt.NDArray[np.float64]


def features() -> RandomFourier:
    """Returns the frozen features: 500 frequencies, 1,000 coordinates, all columns but the label."""
    return draw(
        SCHEMA.layout,
        count=FREQUENCIES,
        length_scales=[(0.03, 0.5)] * COLUMNS,
        exclude_label=True,
        seed=0,
    )


class _Encoded:
    """Batches of encoded records, as the engine takes them from a source."""

    def __init__(self, batches: list[EncodedTable]) -> None:
        self.batches = batches

    def batch_readers(self) -> Iterator[Callable[[], EncodedTable]]:
        for batch in self.batches:
            yield lambda batch=batch: batch


def exact_sum(table: EncodedTable, threads: int) -> Callable[[], Sums]:
    """Returns the exact sum by the engine of the gate, (labels, 1000), over batches in memory."""
    task = SumTask(feature_map=features(), grid=Grid(norm=1.0), columns=LABELS, label=0)
    batches = [
        table.rows(slice(start, start + 8192)) for start in range(0, len(table), 8192)
    ]

    def run() -> Sums:
        totals = LocalEngine(threads=threads).sum(
            _Encoded(batches), {"fourier": task}, None
        )
        return task.grid.restore(totals.sums["fourier"])

    return run


def gate_sum(path: Path, threads: int) -> Callable[[], Sums]:
    """Returns the noisy sum by a whole gate from a Parquet file: read, check, encode, sum, add noise, certify."""
    feature_map = features()

    def run() -> Sums:
        gate = Gate(
            path, schema=SCHEMA, epsilon=1.0, engine=LocalEngine(threads=threads)
        )
        question = Query(
            name="fourier",
            dim=feature_map.dim,
            columns=LABELS,
            norm=feature_map.norm,
            share=1.0,
        )
        plan = plan_sums(Budget(epsilon=1.0), (question,))
        return (
            gate.sum(plan, {"fourier": feature_map}, method="benchmark", public={})
            .values["fourier"]
            .T
        )

    return run
