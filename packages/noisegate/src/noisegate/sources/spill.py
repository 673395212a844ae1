"""Records in bounded memory, in an order of their keys: what does not fit goes to disk.

Children are brought together with their parents, wherever both stand. So records are
divided into `PARTS` by their keys, which are hashes and thus spread evenly, and one part
of parents and children is taken into memory at a time.

The file has no name: no end of the process, SIGKILL too, leaves it behind.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import DataError

HELD_BYTES = 32 << 20
"""Of the records of one table, held in memory before they are written out."""

PARTS = 256
"""Into how many parts a table is divided that is not held in memory."""

Records = npt.NDArray[Any]
"""A structured array, (records,)."""


class Spill:
    """Records that are held in memory up to a limit, and else written to a file."""

    def __init__(
        self, dtype: npt.DTypeLike, by: str, *, held_bytes: int = HELD_BYTES
    ) -> None:
        """Prepares for records.

        Args:
            dtype: Of the records.
            by: The field with their keys, 128 random bits each, by which they are
                divided into parts.
            held_bytes: The limit.
        """
        self.dtype = np.dtype(dtype)
        self._by = by
        self._limit = held_bytes
        self._held: list[Records] = []
        self._file: IO[bytes] | None = None
        # `write` appends a block to the file: the records that were held, sorted by
        # part. For each block, the byte of the file at which it begins; and at which
        # byte of the block each part begins, and the last one ends, (PARTS + 1,).
        self._blocks: list[tuple[int, npt.NDArray[np.int64]]] = []

    @property
    def whole(self) -> bool:
        """Whether all records are in memory."""
        return self._file is None

    def add(self, records: Records) -> None:
        """Adds records, (n,) of the dtype."""
        self._held.append(records)
        if sum(held.nbytes for held in self._held) > self._limit:
            self.write()

    def part(self, part: int | None) -> Records:
        """Returns the records of one part, as a copy.

        `spilled_parts` says which parts to ask for: None alone while all records are in
        memory, else all numbers, once `write` has written out what was held.

        Args:
            part: Its number, of records in the file; None for all records in memory.

        Raises:
            DataError: if the file cannot be read.
        """
        if part is None:
            return np.concatenate([np.empty(0, self.dtype), *self._held])
        pieces = [np.empty(0, self.dtype)]
        try:
            assert self._file is not None
            for start, bounds in self._blocks:
                self._file.seek(start + int(bounds[part]))
                content = self._file.read(int(bounds[part + 1] - bounds[part]))
                pieces.append(np.frombuffer(content, self.dtype))
        except OSError as error:
            raise _cannot_keep(error) from None
        return np.concatenate(pieces)

    def close(self) -> None:
        """Forgets all records."""
        self._held = []
        if self._file is not None:
            self._file.close()

    def write(self) -> None:
        """Writes the records that are in memory to the file, part by part."""
        records = np.concatenate([np.empty(0, self.dtype), *self._held])
        self._held = []
        parts = (records[self._by][:, 0] % np.uint64(PARTS)).astype(np.intp)
        ordered = records[np.argsort(parts, kind="stable")]
        counts = np.bincount(parts, minlength=PARTS)
        bounds = np.concatenate([[0], np.cumsum(counts)]) * self.dtype.itemsize
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="noisegate-")  # noqa: SIM115 - `close` closes it
            start = self._file.seek(0, os.SEEK_END)
            self._file.write(ordered.view(np.uint8).data)
        except OSError as error:
            raise _cannot_keep(error) from None
        self._blocks.append((start, bounds.astype(np.int64)))


def spilled_parts(spills: Sequence[Spill]) -> Iterator[int | None]:
    """Yields the parts that are taken from several tables together.

    It is one part, None, where all tables are in memory; else all are written out.
    """
    if all(spill.whole for spill in spills):
        yield None
        return
    for spill in spills:
        spill.write()
    yield from range(PARTS)


def _cannot_keep(error: OSError) -> DataError:
    return DataError(
        f"{tempfile.gettempdir()}: cannot keep a temporary file there: "
        f"{error.strerror}; make room, or name another folder in the environment "
        "variable TMPDIR"
    )
