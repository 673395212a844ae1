"""What it is measured against: bare torch on the same features in float32, with a float sum for each label.

There are two ways to use several threads, inside each operation or one batch a thread; the faster one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from noisegate_sums import FREQUENCIES, LABELS, Sums, features
from table import COLUMNS

from noisegate.schema import EncodedTable
from noisegate_images.queries.fourier import TURN

Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to run torch: `size` rows at a time, `inside` threads in an operation, `beside` batches at once."""

    size: int
    inside: int
    beside: int


def ways(threads: int) -> list[Way]:
    """Returns the ways to use `threads` threads that are tried."""
    apart = [
        Way(size=size, inside=1, beside=threads) for size in (128, 256, 512, 1024, 4096)
    ]
    together = [
        Way(size=size, inside=threads, beside=1) for size in (512, 1024, 2048, 8192)
    ]
    return apart + (together if threads > 1 else [])


def memory_sum(table: EncodedTable, way: Way) -> Callable[[], Sums]:
    """Returns the float sum over tensors in memory."""
    values = torch.from_numpy(table.numeric.astype(np.float32))
    labels = torch.nn.functional.one_hot(
        torch.from_numpy(table.codes[:, 0]).long(), LABELS
    ).float()
    batches = list(zip(values.split(8192), labels.split(8192), strict=True))
    return lambda: _float_sum(batches, way)


def file_sum(path: Path, way: Way) -> Callable[[], Sums]:
    """Returns the float sum over a Parquet file that PyArrow reads."""

    def batches() -> Iterator[Batch]:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=8192):
                cells = [
                    batch.column(place).to_numpy().astype(np.float32)
                    for place in range(COLUMNS)
                ]
                codes = torch.from_numpy(
                    batch.column(COLUMNS)
                    .to_numpy(zero_copy_only=False)
                    .astype(np.int64)
                )
                labels = torch.nn.functional.one_hot(codes, LABELS).float()
                yield torch.from_numpy(np.stack(cells, axis=1)), labels

    return lambda: _float_sum(batches(), way)


def _float_sum(batches: Iterable[Batch], way: Way) -> Sums:
    torch.set_num_threads(way.inside)
    weights = torch.from_numpy(
        (features().frequencies * (2 * np.pi / TURN)).astype(np.float32)
    )
    with ThreadPoolExecutor(way.beside) as pool:
        total = sum(
            pool.map(partial(_batch_sum, weights=weights, size=way.size), batches),
            torch.zeros(()),
        )
    pairs = total.reshape(LABELS, 2, FREQUENCIES).transpose(1, 2).flatten(1)
    return pairs.double().numpy() * FREQUENCIES**-0.5


def _batch_sum(batch: Batch, *, weights: torch.Tensor, size: int) -> torch.Tensor:
    total = torch.zeros(LABELS, 2 * FREQUENCIES)
    for values, labels in zip(batch[0].split(size), batch[1].split(size), strict=True):
        phase = values @ weights
        total += labels.T @ torch.cat([torch.cos(phase), torch.sin(phase)], dim=1)
    return total
