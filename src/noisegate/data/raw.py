"""A private table before there is a schema: cells as they stand, with kinds of columns that the caller declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.data.encode import CellProblem, TypeProblem, in_words, plain_cells, read_cells
from noisegate.data.files import check_alike, find_files
from noisegate.data.memory import MemoryTable
from noisegate.data.origins import Origin
from noisegate.data.parquet_file import ParquetFile
from noisegate.data.parse import is_text
from noisegate.data.problems import cell_error, type_error
from noisegate.errors import DataError
from noisegate.schema.partial import MOMENT_IN_UTC, Gap

_BATCH_ROWS = 32768


@dataclass(frozen=True, kw_only=True)
class RawCells:
    """What some records say in one column.

    Attributes:
        values: the cells that are not missing: float64, whole steps (int64), or text (pa.StringArray).
        missing: how many cells are missing.
    """

    values: npt.NDArray[Any] | pa.Array
    missing: int


class RawTable:
    """Private records in a CSV or Parquet file, a folder of either, or a table in memory.

    Attributes:
        name: what messages call the source.
    """

    def __init__(self, source: str | Path | Any, *, show_values: bool = False) -> None:
        """Find the source and read its header; no record is read.

        Args:
            source: a path, or a table in memory.
            show_values: whether messages may quote private values.

        Raises:
            DataError: if there is no such file, its header cannot be read, or files have different columns.
        """
        self._show_values = show_values
        self._origins: list[Origin]
        if isinstance(source, str | Path):
            self.name, self._origins = Path(source).name or str(source), find_files(Path(source))
        else:
            self.name, self._origins = MemoryTable.name, [MemoryTable(source)]
        headers = [list(origin.columns().values()) for origin in self._origins]
        names = [name for name, _ in headers[0]]
        titles = [
            (origin.name, [name for name, _ in header]) for origin, header in zip(self._origins, headers, strict=True)
        ]
        check_alike(titles, show_names=show_values or self._origins[0].typed)
        if any(len(header) > len(set(names)) for header in headers):
            raise DataError(f"{self.name}: two columns have the same name; rename or remove one")
        if "" in names:
            raise DataError(
                f"{self.name}: column {names.index('') + 1} has no name; remove it (pandas: write with index=False)"
            )
        self._types = dict(headers[0])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order. In text without a header they are a record: see `quotable`."""
        return tuple(self._types)

    def quotable(self, known: Mapping[str, Any]) -> bool:
        """Return whether a message may quote the names of the columns, given those that the caller ``known``-ly named.

        The first line of a text file that has no header is a private record.
        """
        return self._show_values or self._origins[0].typed or any(name in known for name in self.names)

    def suggested_kinds(self) -> dict[str, str]:
        """Return the kinds that the types of a Parquet file say; of anything else, nothing.

        The types of a table in memory often follow from its values (pandas makes decimals of whole numbers when one
        is missing), and those of text could only be guessed from them.
        """
        if not isinstance(self._origins[0], ParquetFile):
            return {}
        found = {name: _kind(kind) for name, kind in self._types.items()}
        return {name: kind for name, kind in found.items() if kind is not None}

    def batches(self, gaps: tuple[Gap, ...], missing_values: tuple[str, ...]) -> Iterator[Mapping[str, RawCells]]:
        """Yield the cells of the columns ``gaps`` by name, some thousand records at a time, in constant memory.

        Raises:
            DataError: if a cell is not of its kind, or the data cannot be read or has no records.
        """
        tokens = pa.array(missing_values, pa.string())
        readers = {gap.name: gap.reader for gap in gaps}
        seen = 0
        for origin in self._origins:
            done = 0
            for arrays in origin.batches(list(readers), _BATCH_ROWS):
                yield {gap.name: self._cells(gap, arrays[gap.name], tokens, origin, done) for gap in gaps}
                done += len(arrays[gaps[0].name])
            seen += done
        if not seen:
            raise DataError(f"{self.name}: there are no records, only names of columns; expected at least one record")

    def _cells(self, gap: Gap, array: pa.Array, tokens: pa.Array, origin: Origin, done: int) -> RawCells:
        try:
            if not gap.numeric:
                return _texts(gap, array, tokens)
            values, present = read_cells(gap.reader, array, tokens)
            return RawCells(values=values, missing=int(np.count_nonzero(~present)))
        except CellProblem as problem:
            error = cell_error(problem, origin.place(done + problem.row), show_values=self._show_values)
        except TypeProblem as problem:
            error = type_error(problem, origin.name)
        raise error  # outside the handlers: the problem, which holds the cell, must not travel along as its context


def _texts(gap: Gap, array: pa.Array, tokens: pa.Array) -> RawCells:
    array, present = plain_cells(array, tokens)
    if pt.is_integer(array.type):
        array, present = plain_cells(array.cast(pa.string()), tokens)
    if pt.is_null(array.type):
        array = array.cast(pa.string())
    if not is_text(array.type):
        raise TypeProblem(gap.reader, in_words(array.type))
    values = array if present.all() else pc.filter(array, pa.array(present))
    return RawCells(values=values, missing=int(np.count_nonzero(~present)))


def _kind(kind: pa.DataType) -> str | None:
    if pt.is_dictionary(kind):
        kind = kind.value_type
    if is_text(kind):
        return "categorical"
    if pt.is_boolean(kind):
        return "boolean"
    if pt.is_integer(kind):
        return "integer"
    if pt.is_floating(kind) or pt.is_decimal(kind):
        return "continuous"
    if pt.is_date(kind):
        return "date"
    if pt.is_timestamp(kind):
        return "datetime" if kind.tz is None else MOMENT_IN_UTC
    return None
