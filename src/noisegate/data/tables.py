"""A private table, read once through in constant memory and handed on as encoded records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from noisegate.data.batches import full_batches
from noisegate.data.encode import CellProblem, TypeProblem, encode_batch
from noisegate.data.files import check_alike, find_files
from noisegate.data.memory import MemoryTable
from noisegate.data.origins import Origin
from noisegate.data.parse import Mask
from noisegate.data.problems import cell_error, check_header, type_error
from noisegate.data.unit_column import check_unit_column, check_unit_name, unit_error, unit_type_error
from noisegate.data.units import UnitCounter, UnitLimit, UnitProblem, UnitTypeProblem
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
        self,
        source: str | Path | Any,
        schema: Schema,
        *,
        show_values: bool = False,
        batch_rows: int = 32768,
        units: UnitLimit | None = None,
    ) -> None:
        """Find the source; nothing is read yet.

        Args:
            source: a path, or a table in memory.
            schema: the schema that the records must fit.
            show_values: whether messages may quote private values.
            batch_rows: number of records in each batch but the last.
            units: whose record each one is, and how many of each are used; None to use all.

        Raises:
            DataError: if there is no such file, or it is no kind of table that can be read.
            OptionError: if ``batch_rows`` is not positive, or the schema describes the column of the units.
        """
        if batch_rows < 1:
            raise OptionError(f"batch_rows must be at least 1, found {batch_rows}")
        check_unit_name(units, schema)
        self.schema, self.batch_rows, self._show_values, self._units = schema, batch_rows, show_values, units
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
        headers = []
        for origin in self._origins:
            columns = list(origin.columns().values())
            names = [name for name, _ in columns]
            headers.append((origin.name, names))
            if self._units is not None:
                check_unit_column(self._units.column, columns, origin.name)
                names = [name for name in names if name != self._units.column]
            check_header(names, self.schema, origin.name, show_names=origin.typed or self._show_values)
            try:
                encode_batch({name: pa.array([], _plain(kind)) for name, kind in columns}, self.schema)
            except TypeProblem as problem:
                raise type_error(problem, origin.name) from None
        check_alike(headers, show_names=True)  # each is in the schema by now: described, ignored, or the unit column

    def batches(self) -> Iterator[EncodedTable]:
        """Yield the records in order, ``batch_rows`` at a time, in constant memory.

        Raises:
            DataError: if a value does not fit the schema, the data cannot be read, or there are no records.
        """
        return full_batches((read() for read in self.unread()), self.batch_rows)

    def unread(self) -> Iterator[Callable[[], EncodedTable]]:
        """Yield functions that encode at most ``batch_rows`` records each, to be called in any thread.

        Raises:
            DataError: by a function, if a value does not fit the schema; here, if the data cannot be read or there are
                no records.
        """
        self.check()
        seen = 0
        counter = None if self._units is None else UnitCounter(self._units, self.schema.missing_values)
        names = self.schema.names if self._units is None else (*self.schema.names, self._units.column)
        for origin in self._origins:
            done = 0
            for arrays in origin.batches(names, self.batch_rows):
                used = None if counter is None else self._used(counter, arrays, origin, done)
                yield partial(self._encode, arrays, origin, done, used)
                done += len(arrays[self.schema.names[0]])
            seen += done
        if not seen:
            raise DataError(f"{self.name}: there are no records, only names of columns; expected at least one record")

    def _used(self, counter: UnitCounter, arrays: Mapping[str, pa.Array], origin: Origin, done: int) -> Mask:
        """Return which records are used; called for one batch after the other, as units are counted."""
        assert self._units is not None
        column = self._units.column
        try:
            return counter.used(arrays[column])
        except UnitProblem as problem:
            error = unit_error(column, origin.place(done + problem.row), missing=problem.missing)
        except UnitTypeProblem:  # of Python objects, whose type no header tells
            error = unit_type_error(column, origin.name, arrays[column].type)
        raise error

    def _encode(self, arrays: Mapping[str, pa.Array], origin: Origin, done: int, used: Mask | None) -> EncodedTable:
        try:
            records = encode_batch(arrays, self.schema)
            return records if used is None or used.all() else records.rows(used)
        except CellProblem as problem:
            error = cell_error(problem, origin.place(done + problem.row), show_values=self._show_values)
        except TypeProblem as problem:
            error = type_error(problem, origin.name)
        raise error  # outside the handlers: the problem, which holds the cell, must not travel along as its context


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
