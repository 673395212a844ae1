"""A lazy Polars frame as a stream: computed in a thread of its own, some batches ahead of whoever reads them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

_AHEAD = 2  # batches that wait to be read


def lazy_batches(frame: Any, names: list[str], rows: int) -> Iterator[pa.Table]:
    """Yield the columns of a lazy frame as Arrow tables, in the order of its records; raise what stops it.

    Not `LazyFrame.collect_batches`, which ends without an error where the computation fails, and prints it.
    """
    waiting: queue.Queue[Any] = queue.Queue(_AHEAD)
    left = threading.Event()

    def put(item: Any) -> bool:
        """Hand on a batch, an error, or None for the end; return whether nobody reads any more."""
        while not left.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return False
            except queue.Full:
                continue
        return True

    def compute() -> None:
        try:
            frame.select(names).sink_batches(put, chunk_size=rows, maintain_order=True)
            put(None)
        except BaseException as error:
            put(error)

    worker = threading.Thread(target=compute, name="noisegate-lazy", daemon=True)
    worker.start()
    try:
        while (item := waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item.to_arrow()
    finally:
        left.set()
        worker.join()
