"""The two that race: a release by noisegate, and bare torch on the same features with a float sum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import torch
from table import COLUMNS, SCHEMA

from noisegate import Budget, Gate
from noisegate.features.fourier import TURN, RandomFourier, draw
from noisegate.gate.engines.local import LocalEngine
from noisegate.gate.sums import SumTask
from noisegate.privacy.grid import Grid
from noisegate.privacy.plan import Plan, Question
from noisegate.schema import EncodedTable

FREQUENCIES = 500
LABELS = 2
Sums = npt.NDArray[np.float64]
Batch = tuple[torch.Tensor, torch.Tensor]


def features() -> RandomFourier:
    """Returns the frozen features: 500 frequencies, 1,000 coordinates, all columns but the label."""
    return draw(
        SCHEMA.layout,
        count=FREQUENCIES,
        length_scales=[(0.03, 0.5)] * COLUMNS,
        exclude_label=True,
        seed=0,
    )


def exact_sum(table: EncodedTable, threads: int) -> Callable[[], Sums]:
    """Returns the exact sum by the engine of the gate, (labels, 1000), over batches in memory."""
    task = SumTask(feature_map=features(), grid=Grid(norm=1.0), columns=LABELS, label=0)
    batches = [table.rows(slice(start, start + 8192)) for start in range(0, len(table), 8192)]

    def run() -> Sums:
        totals = LocalEngine(threads=threads).sum(batches, {"fourier": task}, None)
        return task.grid.restore(totals.sums["fourier"])

    return run


def gate_sum(path: Path, threads: int) -> Callable[[], Sums]:
    """Returns the noisy sum by a whole gate from a Parquet file: read, check, encode, sum, add noise, certify."""
    feature_map = features()

    def run() -> Sums:
        gate = Gate(path, schema=SCHEMA, epsilon=1.0, engine=LocalEngine(threads=threads))
        question = Question(name="fourier", dim=feature_map.dim, columns=LABELS, norm=feature_map.norm, share=1.0)
        plan = Plan(questions=(question,)).calibrate(Budget(epsilon=1.0))
        return gate.sum(plan, {"fourier": feature_map}, method="benchmark", public={}).values["fourier"].T

    return run


def bare_sum(table: EncodedTable, size: int) -> Callable[[], Sums]:
    """Returns the float sum by bare torch over tensors in memory, `size` rows at a time."""
    values = torch.from_numpy(table.numeric.astype(np.float32))
    labels = torch.nn.functional.one_hot(torch.from_numpy(table.codes[:, 0]).long(), LABELS).float()

    def batches() -> Iterator[Batch]:
        return zip(values.split(size), labels.split(size), strict=True)

    return lambda: _float_sum(batches())


def bare_file_sum(path: Path, size: int) -> Callable[[], Sums]:
    """Returns the float sum by bare torch over a Parquet file that PyArrow reads, `size` rows at a time."""

    def batches() -> Iterator[Batch]:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=65_536):
                cells = [batch.column(place).to_numpy().astype(np.float32) for place in range(COLUMNS)]
                values = torch.from_numpy(np.stack(cells, axis=1))
                codes = torch.from_numpy(batch.column(COLUMNS).to_numpy(zero_copy_only=False).astype(np.int64))
                labels = torch.nn.functional.one_hot(codes, LABELS).float()
                yield from zip(values.split(size), labels.split(size), strict=True)

    return lambda: _float_sum(batches())


def _float_sum(batches: Iterable[Batch]) -> Sums:
    weights = torch.from_numpy((features().frequencies * (2 * np.pi / TURN)).astype(np.float32))
    total = torch.zeros(LABELS, 2 * FREQUENCIES)
    for values, labels in batches:
        phase = values @ weights
        total += labels.T @ torch.cat([torch.cos(phase), torch.sin(phase)], dim=1)
    pairs = total.reshape(LABELS, 2, FREQUENCIES).transpose(1, 2).flatten(1)
    return pairs.double().numpy() * FREQUENCIES**-0.5
