"""A private table, read once through in constant memory and handed on as encoded records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from noisegate.data.encode import CellProblem, TypeProblem, encode_batch
from noisegate.data.files import find_files
from noisegate.data.memory import MemoryTable
from noisegate.data.origins import Origin
from noisegate.data.problems import cell_error, check_header, type_error
from noisegate.errors import DataError, OptionError
from noisegate.schema import EncodedTable, Schema


class TableSource:
    """Private records in a CSV or Parquet file, a folder of either, or a pandas, Polars or PyArrow table.

    Attributes:
        schema: the schema that the records must fit.
        name: what messages call the source: a file or folder name, or ``DataFrame``.
        batch_rows: number of records in each batch but the last.
    """

    def __init__(
        self, source: str | Path | Any, schema: Schema, *, show_values: bool = False, batch_rows: int = 32768
    ) -> None:
        """Find the source; nothing is read yet.

        Args:
            source: a path, or a table in memory.
            schema: the schema that the records must fit.
            show_values: whether messages may quote private values.
            batch_rows: number of records in each batch but the last.

        Raises:
            DataError: if there is no such file, or it is no kind of table that can be read.
            OptionError: if ``batch_rows`` is not positive.
        """
        if batch_rows < 1:
            raise OptionError(f"batch_rows must be at least 1, found {batch_rows}")
        self.schema, self.batch_rows, self._show_values = schema, batch_rows, show_values
        self._origins: list[Origin]
        if isinstance(source, str | Path):
            self.name, self._origins = Path(source).name or str(source), find_files(Path(source))
        else:
            self.name, self._origins = MemoryTable.name, [MemoryTable(source)]

    def check(self) -> None:
        """Check names and types of the columns; no record is read.

        Raises:
            DataError: if a header cannot be read or does not fit the schema.
        """
        for origin in self._origins:
            columns = list(origin.columns().values())
            names = [name for name, _ in columns]
            check_header(names, self.schema, origin.name, show_names=origin.typed or self._show_values)
            try:
                encode_batch({name: pa.array([], _plain(kind)) for name, kind in columns}, self.schema)
            except TypeProblem as problem:
                raise type_error(problem, origin.name) from None

    def batches(self) -> Iterator[EncodedTable]:
        """Yield the records in order, ``batch_rows`` at a time, in constant memory.

        Raises:
            DataError: if a value does not fit the schema, the data cannot be read, or there are no records.
        """
        waiting: list[EncodedTable] = []
        rows = 0
        for read in self.unread():
            waiting.append(read())
            rows += len(waiting[-1])
            if rows >= self.batch_rows:
                table = EncodedTable.concatenate(waiting)
                cut = rows - rows % self.batch_rows
                for start in range(0, cut, self.batch_rows):
                    yield table.rows(slice(start, start + self.batch_rows))
                waiting, rows = [table.rows(slice(cut, None))], rows - cut
        if rows:
            yield EncodedTable.concatenate(waiting)

    def unread(self) -> Iterator[Callable[[], EncodedTable]]:
        """Yield functions that encode at most ``batch_rows`` records each, to be called in any thread.

        Raises:
            DataError: by a function, if a value does not fit the schema; here, if the data cannot be read or there are
                no records.
        """
        self.check()
        seen = 0
        for origin in self._origins:
            done = 0
            for arrays in origin.batches(self.schema.names, self.batch_rows):
                yield partial(self._encode, arrays, origin, done)
                done += len(arrays[self.schema.names[0]])
            seen += done
        if not seen:
            raise DataError(f"{self.name}: there are no records, only names of columns; expected at least one record")

    def _encode(self, arrays: Mapping[str, pa.Array], origin: Origin, done: int) -> EncodedTable:
        try:
            return encode_batch(arrays, self.schema)
        except CellProblem as problem:
            error = cell_error(problem, origin.place(done + problem.row), show_values=self._show_values)
        except TypeProblem as problem:
            error = type_error(problem, origin.name)
        raise error  # outside the handlers: the problem, which holds the cell, must not travel along as its context


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
