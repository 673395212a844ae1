"""Where private records come from: the protocol that files and in-memory tables share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa


class Origin(Protocol):
    """One file, or one table in memory."""

    @property
    def name(self) -> str:
        """What messages call it: a file name or ``DataFrame``."""
        ...

    @property
    def typed(self) -> bool:
        """Whether columns carry a type and certain names, as opposed to lines of text."""
        ...

    def columns(self) -> Mapping[int, tuple[str, pa.DataType]]:
        """Return name and type of each column by position, without reading records.

        Raises:
            DataError: if the header cannot be read.
        """
        ...

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Mapping[str, pa.Array]]:
        """Yield the columns called ``names``, some records at a time.

        Raises:
            DataError: if the data cannot be read.
        """
        ...

    def place(self, row: int) -> str:
        """Return where the record at position ``row`` stands, such as ``adult.csv, line 7``."""
        ...
