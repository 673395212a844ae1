"""Tables in memory, and streams of tables that can be read again, as Arrow some records at a time; never copied."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from noisegate.data.tables.arrays import columns_of, table_of_arrays
from noisegate.data.tables.lazy import lazy_batches
from noisegate.data.tables.objects import MixedObjects, objects_to_arrow
from noisegate.errors import DataError
from noisegate.schema.columns import TEXT_PADDING

TABLES = "a pandas, Polars or PyArrow table, a dict of columns, a NumPy array or a Hugging Face data set"
"""What is taken for a table in memory, in words."""

_LINES = {
    ("dask", "DataFrame"): "data.compute()",
    ("datasets", "DatasetDict"): "data['train']",
    ("datasets", "IterableDatasetDict"): "data['train']",
    ("duckdb", "DuckDBPyRelation"): "data.to_arrow_table()",
    ("ibis", "Table"): "data.to_pyarrow()",
    ("pandas", "Series"): "data.to_frame()",
    ("polars", "Series"): "data.to_frame()",
    ("pyarrow", "Dataset"): "data.to_table()",
    ("pyarrow", "RecordBatch"): "pyarrow.Table.from_batches([data])",
    ("pyarrow", "RecordBatchReader"): "data.read_all()",
    ("pyspark", "DataFrame"): "data.toArrow()",
    ("scipy", "sparray"): "data.toarray()",
    ("scipy", "spmatrix"): "data.toarray()",
    ("torch", "DataLoader"): "data.dataset",
    ("torch", "Dataset"): "pandas.DataFrame(list(data), columns=[...])",
    ("xarray", "Dataset"): "data.to_dataframe()",
    ("builtins", "list"): "pyarrow.Table.from_pylist(data)",
    ("builtins", "tuple"): "pandas.DataFrame(X, columns=[...]).assign(label=y)",
}
"""The line that converts what is no table, by package and class."""


class TableInMemory(Protocol):
    """See `noisegate.data.tables.origins.Origin`."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    @property
    def typed(self) -> bool:
        """Whether columns carry a type."""
        ...

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Return name and type of each column."""
        ...

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Mapping[str, pa.Array]]:
        """Yield the columns called ``names``, some records at a time."""
        ...

    def place(self, row: int) -> str:
        """Return where a record stands."""
        ...


def table_in_memory(data: Any, names: Sequence[str] | None = None) -> TableInMemory:
    """Return what is no path as a table; ``names`` are those of the columns of an array, which has none.

    Raises:
        DataError: if it is no table; the message has the line that makes one of it, where it is known.
    """
    if of_package(data, "polars", "LazyFrame"):
        return _lazy(data)
    if of_package(data, "datasets", "Dataset") or of_package(data, "datasets", "IterableDataset"):
        return _hugging_face(data)
    if line_for(data) is not None:
        raise _no_table(data)
    if (columns := columns_of(data, names)) is not None:
        table = MemoryTable(table_of_arrays(columns))
        table.name = "dict" if isinstance(data, Mapping) else "array"
        return table
    return MemoryTable(data)


def of_package(data: Any, package: str, name: str) -> bool:
    """Return whether ``data`` is of a class, or a class derived from it; imports nothing."""
    found = getattr(sys.modules.get(package), name, None)
    return isinstance(found, type) and isinstance(data, found)


class MemoryTable:
    """A pandas, Polars or PyArrow table, turned to Arrow some records at a time and never copied; see `Origin`."""

    typed = True

    def __init__(self, native: Any) -> None:
        import narwhals as nw

        self.name = "DataFrame"
        try:
            self._frame: nw.DataFrame[Any] = nw.from_native(native, eager_only=True)
            self._names = {str(name).strip(TEXT_PADDING): name for name in self._frame.columns}
        except TypeError:
            raise _no_table(native) from None
        except nw.exceptions.DuplicateError:
            raise DataError("DataFrame: two columns have the same name; rename or remove one") from None
        pandas = nw.dependencies.is_pandas_dataframe(native)
        self._objects = {name for name, dtype in native.dtypes.items() if dtype.kind == "O"} if pandas else set()

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Return name and type of each column; a pandas column of Python objects has the type null."""
        named = [(str(raw).strip(TEXT_PADDING), raw) for raw in self._frame.columns]
        return [(name, self._slice(name, raw, 0, 0).type) for name, raw in named]

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Mapping[str, pa.Array]]:
        """Yield the columns called ``names``, ``rows`` records at a time."""
        for start in range(0, len(self._frame), rows):
            yield {name: self._slice(name, self._names[name], start, start + rows) for name in names}

    def place(self, row: int) -> str:
        """Return the number of the record, counted from 1."""
        return f"{self.name}, record {row + 1}"

    def _slice(self, name: str, raw: Any, start: int, stop: int) -> pa.Array:
        try:
            part = self._frame.get_column(raw)[start:stop]
            cells = objects_to_arrow(part.to_list()) if raw in self._objects else part.to_arrow()
            return _whole(cells)
        except (MixedObjects, pa.ArrowException, TypeError, ValueError, OverflowError):
            pass
        raise DataError(  # outside the handler: Arrow's message quotes the value
            f"{self.name}, column {name!r}: holds Python objects of mixed or unknown types; give it one type"
        )


def line_for(data: Any) -> str | None:
    """Return the line that makes a table of what is none; None where it is not known."""
    classes = [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(data).__mro__]
    return next((_LINES[each] for each in classes if each in _LINES), None)


def _no_table(data: Any) -> DataError:
    line = line_for(data)
    cure = "convert it" if line is None else f"convert it, with data = {line}"
    return DataError(f"expected a path, {TABLES}, found {type(data).__name__}; {cure}")


Read: TypeAlias = Callable[[list[str], int], Iterator[pa.Table]]
"""From names of columns, and how many records at a time, to Arrow tables."""


class StreamedTable:
    """A table that comes as a stream of Arrow tables, from the start as often as it is asked for; see `Origin`."""

    typed = True

    def __init__(self, name: str, kinds: pa.Schema, read: Read, *, whole: str) -> None:
        self.name, self.schema, self._read, self._line = name, kinds, read, whole
        self._raw = {str(field.name).strip(TEXT_PADDING): field.name for field in kinds}

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Return name and type of each column."""
        return [(str(field.name).strip(TEXT_PADDING), field.type) for field in self.schema]

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Mapping[str, pa.Array]]:
        """Yield the columns called ``names``, at most ``rows`` records at a time."""
        for table in self._tables([self._raw[name] for name in names], rows):
            for start in range(0, table.num_rows, rows):
                part = table.slice(start, rows)
                yield {name: _whole(part[self._raw[name]]) for name in names}

    def place(self, row: int) -> str:
        """Return the number of the record, counted from 1."""
        return f"{self.name}, record {row + 1}"

    def _tables(self, raw: list[str], rows: int) -> Iterator[pa.Table]:
        try:
            yield from self._read(raw, rows)
            return
        except (GeneratorExit, KeyboardInterrupt, MemoryError):
            raise
        except Exception:  # whatever such a library raises may quote a value
            pass
        raise DataError(f"{self.name}: cannot be read to its end; data = {self._line} shows what is wrong with it")


def _whole(cells: pa.Array | pa.ChunkedArray) -> pa.Array:
    return cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells


def _lazy(frame: Any) -> StreamedTable:
    """Return a lazy Polars frame, which is computed anew whenever it is read, in the order of its records."""
    if not hasattr(frame, "sink_batches"):
        raise DataError("LazyFrame: this Polars hands out no batches; convert it, with data = data.collect()")
    kinds: pa.Schema | None = None
    with suppress(Exception):  # as above
        kinds = frame.head(0).collect().to_arrow().schema
    if kinds is None:
        raise DataError("LazyFrame: cannot be computed; data = data.collect() shows what is wrong with it")
    return StreamedTable("LazyFrame", kinds, partial(lazy_batches, frame), whole="data.collect()")


def _hugging_face(data: Any) -> StreamedTable:
    """Return a Hugging Face data set, without the transforms that it may have for whoever takes its records."""
    if data.features is None:
        raise DataError(
            "IterableDataset: it does not say which columns it has; state them, with "
            "data = data.cast(datasets.Features({...}))"
        )

    def read(names: list[str], rows: int) -> Iterator[pa.Table]:
        return iter(data.select_columns(names).with_format("arrow").iter(batch_size=rows))

    kind = type(data).__name__
    return StreamedTable(kind, data.features.arrow_schema, read, whole="datasets.Dataset.from_list(list(data))")
