"""Records in bounded memory, in an order of their keys: what does not fit goes to disk.

Children are brought together with their parents, wherever both stand. So records are
divided into `PARTS` by their keys, which are hashes and thus spread evenly, and one
part of parents and children is taken into memory at a time.

The file has no name: the operating system deletes it when the process ends, also by
SIGKILL.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import DataError

MEMORY_BYTES = 32 << 20
"""How many bytes of the records of one table stay in memory before they are written."""

PARTS = 256
"""Into how many parts a table is divided that is not held in memory."""

Records = npt.NDArray[Any]
"""A structured array, (records,)."""


class Spill:
    """Records that are held in memory up to a limit, and else written to a file.

    Either all records are in memory, which is then read at once; or some are in the
    file, in `PARTS` parts by their keys, and a part is read at a time. To read parts,
    all must be in the file: see `spill_together` and `shared_parts`.
    """

    def __init__(
        self, dtype: npt.DTypeLike, key_field: str, *, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        """Prepares for records.

        Args:
            dtype: The fields of the records.
            key_field: The field with their keys, 128 random bits each, by which they
                are divided into parts.
            memory_bytes: Records beyond so many bytes are written to the file.
        """
        self.dtype = np.dtype(dtype)
        self._key_field = key_field
        self._memory_bytes = memory_bytes
        self._in_memory: list[Records] = []
        self._file: IO[bytes] | None = None
        # `write_out` appends a block to the file: the records that were in memory,
        # sorted by part. For each block, the byte of the file at which it begins; and
        # at which byte of the block each part begins, and the last one ends,
        # (PARTS + 1,).
        self._blocks: list[tuple[int, npt.NDArray[np.int64]]] = []

    @property
    def is_in_memory(self) -> bool:
        """Whether no record was written to the file."""
        return self._file is None

    def add(self, records: Records) -> None:
        """Adds records, (n,) of the dtype; they may be written out at once."""
        self._in_memory.append(records)
        if sum(block.nbytes for block in self._in_memory) > self._memory_bytes:
            self.write_out()

    def read_part(self, part: int | None) -> Records:
        """Returns the records of one part, as a copy.

        Args:
            part: Its number, of records in the file, where those in memory do not
                count; None for all records in memory.

        Raises:
            DataError: if the file cannot be read.
        """
        if part is None:
            return self._concatenate(self._in_memory)
        blocks_of_part = []
        try:
            assert self._file is not None
            for block_start, part_bounds in self._blocks:
                part_size = int(part_bounds[part + 1] - part_bounds[part])
                self._file.seek(block_start + int(part_bounds[part]))
                content = self._file.read(part_size)
                blocks_of_part.append(np.frombuffer(content, self.dtype))
        except OSError as error:
            raise _temporary_file_error(error) from None
        return self._concatenate(blocks_of_part)

    def _concatenate(self, blocks: Sequence[Records]) -> Records:
        """Returns the records of blocks, none too, as one array that may be changed."""
        return np.concatenate([np.empty(0, self.dtype), *blocks])

    def close(self) -> None:
        """Forgets all records, and deletes the file."""
        self._in_memory = []
        if self._file is not None:
            self._file.close()

    def write_out(self) -> None:
        """Writes the records that are in memory to the file, part by part.

        Raises:
            DataError: if the file cannot be written. The records are lost then.
        """
        records = self._concatenate(self._in_memory)
        self._in_memory = []
        # Keys are random bits, so all parts get about as many.
        part_of_record = records[self._key_field][:, 0] % np.uint64(PARTS)
        part_index = part_of_record.astype(np.intp)
        records_by_part = records[np.argsort(part_index, kind="stable")]
        part_counts = np.bincount(part_index, minlength=PARTS)
        part_bounds = (
            np.concatenate([[0], np.cumsum(part_counts)]) * self.dtype.itemsize
        )
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="noisegate-")  # noqa: SIM115 - `close` closes it
            block_start = self._file.seek(0, os.SEEK_END)
            self._file.write(records_by_part.view(np.uint8).data)
        except OSError as error:
            raise _temporary_file_error(error) from None
        self._blocks.append((block_start, part_bounds.astype(np.int64)))


def spill_together(spills: Sequence[Spill]) -> None:
    """Writes all records of several tables out, if those of one are in a file.

    Afterwards all are in memory, or all in files and divided in the same way: parents
    and children of one key are in parts of one number.

    Raises:
        DataError: if a file cannot be written.
    """
    if all(spill.is_in_memory for spill in spills):
        return
    for spill in spills:
        spill.write_out()


def shared_parts(spills: Sequence[Spill]) -> Sequence[int | None]:
    """Returns the parts that are read from several tables together, for `read_part`.

    It is one part, None, where all tables are in memory, else all numbers of parts.

    Args:
        spills: The tables, after `spill_together`.
    """
    if all(spill.is_in_memory for spill in spills):
        return [None]
    return range(PARTS)


def _temporary_file_error(error: OSError) -> DataError:
    """Returns the error of a folder for temporary files that is full or forbidden."""
    return DataError(
        f"{tempfile.gettempdir()}: cannot keep a temporary file there: "
        f"{error.strerror}; make room, or name another folder in the environment "
        "variable TMPDIR"
    )
