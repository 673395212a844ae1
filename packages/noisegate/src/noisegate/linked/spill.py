"""Records brought together by their keys, in bounded memory: what does not fit is kept in a file that has no name.

Whatever ends the process, SIGKILL too, no private record stays behind under a name.
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
"""Of the records of one table that are held in memory before they are written out."""
PARTS = 256
"""Into how many parts a table is split that is not held in memory: one of them is, with what belongs to it."""

Records = npt.NDArray[Any]
"""A structured array, (records,)."""


class Spill:
    """Records whose keys, 128 random bits in the field ``by``, say which part they belong to."""

    def __init__(self, dtype: npt.DTypeLike, by: str, *, held_bytes: int = HELD_BYTES) -> None:
        self.dtype, self._by, self._limit = np.dtype(dtype), by, held_bytes
        self._held: list[Records] = []
        self._file: IO[bytes] | None = None
        self._runs: list[tuple[int, npt.NDArray[np.int64]]] = []  # where each run begins, and where its parts do

    @property
    def whole(self) -> bool:
        """Whether all records are in memory."""
        return self._file is None

    def add(self, records: Records) -> None:
        """Adds records, (n,) of the dtype."""
        self._held.append(records)
        if sum(each.nbytes for each in self._held) > self._limit:
            self.write()

    def part(self, part: int | None) -> Records:
        """Returns the records of one part, all of which were written out; or all that are in memory, for None."""
        if part is None:
            return np.concatenate([np.empty(0, self.dtype), *self._held])
        found = [np.empty(0, self.dtype)]
        try:
            for start, bounds in self._runs:
                found.append(self._read(start + int(bounds[part]), int(bounds[part + 1] - bounds[part])))
        except OSError as error:
            raise _broken(error) from None
        return np.concatenate(found)

    def close(self) -> None:
        """Forgets all records."""
        self._held = []
        if self._file is not None:
            self._file.close()

    def write(self) -> None:
        """Writes out the records that are in memory."""
        records, self._held = np.concatenate([np.empty(0, self.dtype), *self._held]), []
        parts = (records[self._by][:, 0] % np.uint64(PARTS)).astype(np.intp)
        ordered = records[np.argsort(parts, kind="stable")]
        bounds = np.concatenate([[0], np.cumsum(np.bincount(parts, minlength=PARTS))]) * self.dtype.itemsize
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="noisegate-")  # noqa: SIM115 - `close` closes it
            start = self._file.seek(0, os.SEEK_END)
            self._file.write(ordered.view(np.uint8).data)
        except OSError as error:
            raise _broken(error) from None
        self._runs.append((start, bounds.astype(np.int64)))

    def _read(self, start: int, size: int) -> Records:
        assert self._file is not None
        self._file.seek(start)
        return np.frombuffer(self._file.read(size), self.dtype)


def spilled_parts(spills: Sequence[Spill]) -> Iterator[int | None]:
    """Yields the parts to take from all of some tables together: None, for one, where all are in memory."""
    if all(spill.whole for spill in spills):
        yield None
        return
    for spill in spills:
        spill.write()
    yield from range(PARTS)


def _broken(error: OSError) -> DataError:
    return DataError(
        f"{tempfile.gettempdir()}: cannot keep a temporary file there: {error.strerror}; make room, or name another "
        "folder in the environment variable TMPDIR"
    )
