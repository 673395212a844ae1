"""What reading a table and reading images share: one pass over their origins in constant memory, with units counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import pyarrow as pa

from noisegate.data.problems import Placed, told
from noisegate.data.units import UnitCounter, UnitLimit, check_unit_name
from noisegate.errors import DataError, OptionError
from noisegate.records import Rows
from noisegate.schema import Schema
from noisegate.schema.encode import Mask

_Origin = TypeVar("_Origin", bound=Placed)


def full_batches(pieces: Iterable[Rows], batch_rows: int) -> Iterator[Rows]:
    """Yield the records of ``pieces`` in order, ``batch_rows`` at a time; the last batch may be shorter."""
    waiting: list[Rows] = []
    rows = 0
    for piece in pieces:
        waiting.append(piece)
        rows += len(piece)
        if rows >= batch_rows:
            table = Rows.concatenate(waiting)
            cut = rows - rows % batch_rows
            for start in range(0, cut, batch_rows):
                yield table.rows(slice(start, start + batch_rows))
            waiting, rows = [table.rows(slice(cut, None))], rows - cut
    if rows:
        yield Rows.concatenate(waiting)


class Source(ABC, Generic[_Origin]):
    """Private records in some origins; see `noisegate.data.sources.RecordSource`.

    Attributes:
        schema: the schema that the records must fit.
        name: what messages call the source: a file or folder name, or ``DataFrame``.
        batch_rows: number of records in each batch but the last.
    """

    _empty = "there are no records, only names of columns; expected at least one record"

    def __init__(self, schema: Schema, *, show_values: bool, batch_rows: int, units: UnitLimit | None) -> None:
        if batch_rows < 1:
            raise OptionError(f"batch_rows must be at least 1, found {batch_rows}")
        check_unit_name(units, schema)
        self.schema, self.batch_rows, self._show_values, self._units = schema, batch_rows, show_values, units
        self.name: str
        self._origins: Sequence[_Origin]

    @abstractmethod
    def check(self) -> None:
        """Check all that can be checked without reading a record.

        Raises:
            DataError: if it does not fit the schema.
        """

    @abstractmethod
    def _pieces(self, origin: _Origin) -> Iterator[tuple[Any, int, pa.Array | None]]:
        """Yield records as they are kept, how many they are, and their units where these are asked for."""

    @abstractmethod
    def _encoded(self, piece: Any, used: Mask | None, origin: _Origin, done: int) -> Rows:
        """Return the records of a piece that are used; ``done`` records of the origin stand before it."""

    def batches(self) -> Iterator[Rows]:
        """Yield the records in order, ``batch_rows`` at a time, in constant memory.

        Raises:
            DataError: if a record does not fit the schema, the data cannot be read, or there are no records.
        """
        return full_batches((read() for read in self.unread()), self.batch_rows)

    def unread(self) -> Iterator[Callable[[], Rows]]:
        """Yield functions that encode at most ``batch_rows`` records each, to be called in any thread.

        Raises:
            DataError: by a function, if a record does not fit the schema; here, if the data cannot be read or there are
                no records.
        """
        self.check()
        counter = None if self._units is None else UnitCounter(self._units, self.schema.missing_values)
        seen = 0
        for origin in self._origins:
            done = 0
            for piece, rows, units in self._pieces(origin):
                # Units are counted here, one batch after the other.
                count = None if counter is None else partial(counter.used, units)
                used = None if count is None else told(count, origin, done, show_values=False)
                yield partial(self._encoded, piece, used, origin, done)
                done += rows
            seen += done
        if not seen:
            raise DataError(f"{self.name}: {self._empty}")
