"""Tables in memory, and streams that can be read again, as Arrow in batches.

A cell becomes Arrow by itself (G-06). For columns of Python objects, arrays and lists
that is not what Arrow does: it infers one type from all cells together, so that a date
among timestamps makes midnights of them all, and one record would change the others.
Here the Python type of a column must be the same in every cell, and each cell is
converted by a rule for that type.

Libraries quote values in their messages. So their errors are caught, and another is
raised outside the handler, where it does not carry them along.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from noisegate.containers import TABLES, of_package, plain_array, query_package
from noisegate.errors import DataError
from noisegate.schema.checks import TEXT_PADDING
from noisegate.sources.headers import check_unique_names

if TYPE_CHECKING:
    import narwhals as nw

# Batches of a lazy frame that wait to be read: one is computed while one is used.
_MAX_WAITING_BATCHES = 2

# How often a computation looks whether its reader has left.
_POLL_SECONDS = 0.1

_CONVERSIONS = {
    ("dask", "DataFrame"): "data.compute()",
    ("datasets", "DatasetDict"): "data['train']",
    ("datasets", "IterableDatasetDict"): "data['train']",
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
"""The line that makes a table of what is none, by package and class."""

# What a library may raise where a cell does not fit its type.
_CONVERSION_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)

ReadColumns: TypeAlias = Callable[[list[Any], int], Iterator[Any]]
"""Reads columns, given by name, at most so many records at a time.

It yields tables of Arrow, or mappings from the names to cells. It can be called again,
and then reads from the start.
"""


def table_in_memory(data: Any, names: Sequence[str] | None = None) -> TableInMemory:
    """Wraps whatever is given in place of a path as a table.

    Args:
        data: A frame, a table of Arrow, a data set, a mapping of columns, or an array.
        names: The columns that are expected. They name those of an array without names.

    Raises:
        DataError: if it is no table; with the line that makes one of it, where known.
    """
    if of_package(data, "polars", "LazyFrame"):
        return _wrap_lazy_frame(data)
    if query_package(data) is not None:
        return _wrap_query(data)
    if of_package(data, "datasets", "Dataset"):
        return _wrap_hugging_face(data)
    if of_package(data, "datasets", "IterableDataset"):
        return _wrap_hugging_face(data)
    if _conversion_line(data) is not None:
        raise _no_table_error(data)
    columns = _named_columns(data, names)
    if columns is None:
        return _wrap_frame(data, expected=names or ())
    arrays = {name: to_arrow(name, cells) for name, cells in columns.items()}
    lengths = {name: len(cells) for name, cells in arrays.items()}
    if len(set(lengths.values())) > 1:
        shortest = min(lengths, key=lambda name: lengths[name])
        raise DataError(
            f"column {shortest!r}: is shorter than another; give each column a cell for "
            "every record"
        )
    name = "dict" if isinstance(data, Mapping) else "array"
    return _wrap_frame(pa.table(arrays), name)


class TableInMemory:
    """A table that is read from the start as often as it is asked for, never copied.

    Attributes:
        name: What messages call it, such as `DataFrame`.
        schema: Its schema where it has one of Arrow's, else None.
        has_types: True: columns have types, and names that somebody chose.
    """

    has_types = True

    def __init__(
        self,
        name: str,
        columns: pa.Schema | Iterable[tuple[Any, pa.DataType]],
        read_columns: ReadColumns,
    ) -> None:
        """Describes a table.

        Args:
            name: What messages call it.
            columns: The name of each column in its own library, which need not be a
                text, and its type.
            read_columns: Reads columns by these names.
        """
        self.name = name
        self._read_columns = read_columns
        self.schema = columns if isinstance(columns, pa.Schema) else None
        if isinstance(columns, pa.Schema):
            columns = zip(columns.names, columns.types, strict=True)
        # Of each column the name in messages and schemas, the name in its library, and
        # the type.
        self._columns = [
            (str(native_name).strip(TEXT_PADDING), native_name, arrow_type)
            for native_name, arrow_type in columns
        ]

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Returns name and type of each column.

        The type is null for a column of Python objects, or of a type that Arrow lacks.
        """
        return [(name, arrow_type) for name, _, arrow_type in self._columns]

    def batches(
        self, names: Sequence[str], rows: int
    ) -> Iterator[Mapping[str, pa.Array]]:
        """Yields some columns, at most `rows` records at a time, from the start.

        Args:
            names: The columns.
            rows: The most records of a batch.

        Raises:
            DataError: for cells of mixed or unknown types, or if the library fails.
        """
        native_name_of = {name: native_name for name, native_name, _ in self._columns}
        native_names = [native_name_of[name] for name in names]
        for batch in self._read_columns(native_names, rows):
            yield {name: _combine_chunks(batch[native_name_of[name]]) for name in names}

    def locate(self, row: int) -> str:
        """Returns where a record stands, as `DataFrame, record 7`, from 1."""
        return f"{self.name}, record {row + 1}"


def _combine_chunks(cells: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns cells as one array."""
    if isinstance(cells, pa.ChunkedArray):
        return cells.combine_chunks()
    return cells


@dataclass(frozen=True)
class _FrameReader:
    """Reads the columns of a frame, whichever library it is of.

    Attributes:
        name: What messages call the frame.
        frame: The frame, as narwhals wraps it.
        object_columns: The columns of Python objects, which are converted one by one.
    """

    name: str
    frame: nw.DataFrame[Any]
    object_columns: frozenset[Any]

    def read(self, columns: list[Any], rows: int) -> Iterator[Mapping[Any, Any]]:
        """Yields some columns, at most `rows` records at a time."""
        for start in range(0, len(self.frame), rows):
            stop = start + rows
            yield {column: self._read_cells(column, start, stop) for column in columns}

    def arrow_type(self, column: Any) -> pa.DataType:
        """Returns the type of a column; null if its cells say which, or none fits."""
        # What is wrong with a column is said where it is read: it may be ignored.
        with suppress(DataError):
            return self._read_cells(column, 0, 0).type
        return pa.null()

    def _read_cells(self, column: Any, start: int, stop: int) -> Any:
        """Returns the cells of some records, `start` to before `stop`, as Arrow.

        Raises:
            DataError: for cells of mixed or unknown types.
        """
        with suppress(MixedObjects, *_CONVERSION_ERRORS):
            cells = self.frame.get_column(column)[start:stop]
            if column in self.object_columns:
                return objects_to_arrow(cells.to_list())
            return cells.to_arrow()
        # Raised outside the handler: Arrow's message quotes the value.
        raise DataError(
            f"{self.name}, column {str(column).strip(TEXT_PADDING)!r}: objects of mixed "
            "or unknown types; give it one type"
        )


def _wrap_frame(
    native: Any, name: str = "DataFrame", expected: Sequence[str] = ()
) -> TableInMemory:
    """Wraps a frame of any library that narwhals knows.

    Args:
        native: The frame.
        name: What messages call it.
        expected: Columns that should be there; one that is the index of a frame of
            pandas is named in the error.

    Raises:
        DataError: if it is no frame, two columns have one name, or an expected column
            is the index.
    """
    import narwhals as nw

    try:
        frame: nw.DataFrame[Any] = nw.from_native(native, eager_only=True)
    except TypeError:
        raise _no_table_error(native) from None
    except nw.exceptions.DuplicateError:
        native_names = getattr(native, "column_names", native.columns)
        check_unique_names([str(column) for column in native_names], name)
        raise
    object_columns: set[Any] = set()
    if nw.dependencies.is_pandas_dataframe(native):
        for column in expected:
            if column in native.index.names and column not in frame.columns:
                raise DataError(
                    f"{name}: column {column!r} is the index of the frame; give "
                    "data.reset_index()"
                )
        object_columns = {
            column for column, dtype in native.dtypes.items() if dtype.kind == "O"
        }
    reader = _FrameReader(name, frame, frozenset(object_columns))
    typed_columns = [(column, reader.arrow_type(column)) for column in frame.columns]
    return TableInMemory(name, typed_columns, reader.read)


def _conversion_line(data: Any) -> str | None:
    """Returns the line of Python that makes a table of other data, where known."""
    for base in type(data).__mro__:
        package = base.__module__.partition(".")[0]
        if (package, base.__name__) in _CONVERSIONS:
            return _CONVERSIONS[package, base.__name__]
    return None


def _no_table_error(data: Any) -> DataError:
    """Returns the error of data that are no table, with the line that converts them."""
    line = _conversion_line(data)
    if line is None and hasattr(data, "__arrow_c_stream__"):
        # Whether it hands out its records more than once, nobody can know.
        line = "pyarrow.table(data)"
    cure = "convert it" if line is None else f"convert it, with data = {line}"
    return DataError(f"expected a path, {TABLES}, found {type(data).__name__}; {cure}")


def wrap_batches(
    name: str, schema: pa.Schema, read_tables: ReadColumns, *, cure: str
) -> TableInMemory:
    """Wraps what hands out tables of Arrow.

    Args:
        name: What messages call it.
        schema: The schema of the tables.
        read_tables: Reads them; they may be longer than was asked for.
        cure: What the user should do if they cannot be read, for the message.
    """

    def read_columns(columns: list[Any], rows: int) -> Iterator[pa.Table]:
        """Yields the tables, cut to at most `rows` records each.

        Raises:
            DataError: in place of whatever else is raised, since the message of a
                library may quote a private value. It is raised behind the handler, and
                so without that error as its context.
        """
        try:
            for table in read_tables(columns, rows):
                for start in range(0, table.num_rows, rows):
                    yield table.slice(start, rows)
            return
        except (GeneratorExit, KeyboardInterrupt, MemoryError, DataError):
            raise
        except Exception:
            # What the caller of this generator throws into it ends here as well, which
            # only ever is one of those above.
            pass
        raise DataError(f"{name}: cannot be read to its end; {cure}")

    return TableInMemory(name, schema, read_columns)


def _show_by(line: str) -> str:
    """Returns the cure of data that cannot be read: a line of Python shows why."""
    return f"data = {line} shows what is wrong with it"


def _wrap_lazy_frame(frame: Any) -> TableInMemory:
    """Wraps a lazy frame of Polars, in the order of its records.

    It is computed again whenever it is read.

    Raises:
        DataError: if this Polars is too old, or the frame cannot be computed.
    """
    if not hasattr(frame, "sink_batches"):
        raise DataError(
            "LazyFrame: this Polars returns no batches; convert it, with data = "
            "data.collect()"
        )
    schema: pa.Schema | None = None
    with suppress(Exception):
        schema = frame.head(0).collect().to_arrow().schema
    if schema is None:
        raise DataError(
            "LazyFrame: cannot be computed; data = data.collect() shows what is wrong "
            "with it"
        )
    read_tables = partial(_compute_batches, frame)
    cure = _show_by("data.collect()")
    return wrap_batches("LazyFrame", schema, read_tables, cure=cure)


def _wrap_query(query: Any) -> TableInMemory:
    """Wraps a query of DuckDB, Ibis or DataFusion, which is computed at each reading.

    Its records are streamed, so that it may be larger than memory. Their order is that
    of the library.

    Raises:
        DataError: if it cannot be computed.
    """
    name = type(query).__name__
    diagnosis = "pyarrow.table(data)"
    schema: pa.Schema | None = None
    with suppress(Exception), _open_stream(query.limit(0)) as reader:
        schema = reader.schema
    if schema is None:
        raise DataError(
            f"{name}: cannot be computed; data = {diagnosis} shows what is wrong with it"
        )

    def read_tables(names: list[str], _rows: int) -> Iterator[pa.Table]:
        """Yields columns of the query, as many records at a time as it hands out."""
        with _open_stream(_select(query, names)) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch]).select(names)

    return wrap_batches(name, schema, read_tables, cure=_show_by(diagnosis))


def _open_stream(query: Any) -> pa.RecordBatchReader:
    """Computes a query; returns its records as a stream, to be closed.

    Until then its connection can compute nothing else.
    """
    if of_package(query, "ibis", "Table"):
        # Its `__arrow_c_stream__` computes all records before it hands out the first.
        return query.to_pyarrow_batches()
    return pa.RecordBatchReader.from_stream(query)


def _select(query: Any, names: list[str]) -> Any:
    """Returns a query for some columns alone, where its library takes their names."""
    if of_package(query, "duckdb", "DuckDBPyRelation"):
        import duckdb

        return query.select(*[duckdb.ColumnExpression(name) for name in names])
    if of_package(query, "ibis", "Table"):
        return query.select(names)
    # DataFusion takes names for expressions, in which capitals do not count.
    return query


def _compute_batches(frame: Any, names: list[str], rows: int) -> Iterator[pa.Table]:
    """Yields columns of a lazy frame, computed in a thread ahead of whoever reads.

    Not by `LazyFrame.collect_batches`, which ends without an error where the
    computation fails, and prints it.

    Args:
        frame: A lazy frame of Polars.
        names: The columns.
        rows: About how many records a batch has.

    Raises:
        Exception: whatever the computation raises, which may quote values.
    """
    # Batches, then None behind the last one, or the exception that ended the
    # computation.
    waiting: queue.Queue[Any] = queue.Queue(_MAX_WAITING_BATCHES)
    reader_left = threading.Event()

    def hand_on(item: Any) -> bool:
        """Hands an item to the reader; returns whether the computation shall stop."""
        while not reader_left.is_set():
            try:
                waiting.put(item, timeout=_POLL_SECONDS)
                return False
            except queue.Full:
                continue
        return True

    def compute() -> None:
        """Computes the frame, and passes on its batches."""
        try:
            selected = frame.select(names)
            selected.sink_batches(hand_on, chunk_size=rows, maintain_order=True)
            hand_on(None)
        except BaseException as error:
            hand_on(error)

    worker = threading.Thread(target=compute, name="noisegate-lazy", daemon=True)
    worker.start()
    try:
        while True:
            item = waiting.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item.to_arrow()
    finally:
        # Also where the reader stops early: else the worker would wait for it forever.
        reader_left.set()
        worker.join()


def _wrap_hugging_face(data: Any) -> TableInMemory:
    """Wraps a `datasets.Dataset` or `IterableDataset` of Hugging Face.

    Both can be read again from the start.

    Raises:
        DataError: if the data set does not say which columns it has.
    """
    name = type(data).__name__
    if data.features is None:
        raise DataError(
            f"{name}: it does not say which columns it has; state them, with "
            "data = data.cast(datasets.Features({...}))"
        )

    def read_tables(names: list[str], rows: int) -> Iterator[pa.Table]:
        """Yields columns of the data set, at most `rows` records at a time."""
        selected = data.select_columns(names).with_format("arrow")
        return iter(selected.iter(batch_size=rows))

    return wrap_batches(
        name,
        data.features.arrow_schema,
        read_tables,
        cure=_show_by("datasets.Dataset.from_list(list(data))"),
    )


class MixedObjects(Exception):  # noqa: N818 - its caller makes an error of it
    """Cells of several Python types, or of one that stands for no kind of column."""


_INT64 = np.iinfo(np.int64)
# Stands for datetimes with a time zone, which have the same Python type as others but
# become another type of Arrow.
_WITH_TIME_ZONE = "datetime with a time zone"

# For each Python type the type of Arrow, and what a cell becomes.
_CONVERTERS: dict[Any, tuple[pa.DataType, Callable[[Any], Any]]] = {
    str: (pa.string(), lambda cell: cell),
    bool: (pa.bool_(), lambda cell: cell),
    int: (pa.int64(), lambda cell: min(max(cell, int(_INT64.min)), int(_INT64.max))),
    float: (pa.float64(), lambda cell: cell),
    # Text, which is parsed cell by cell: Arrow's decimals share one scale.
    Decimal: (pa.string(), str),
    date: (pa.date32(), lambda cell: cell),
    datetime: (pa.timestamp("us"), lambda cell: cell),
    timedelta: (pa.duration("us"), lambda cell: cell),
    _WITH_TIME_ZONE: (pa.timestamp("us", tz="UTC"), lambda cell: cell.astimezone(UTC)),
}


def objects_to_arrow(cells: Sequence[Any]) -> pa.Array:
    """Converts Python objects, each by itself.

    None, NaN, pandas.NA and NaT are missing. Integers beyond 64 bits become the nearest
    that fits, and decimals become text.

    Args:
        cells: The objects, (records,).

    Raises:
        MixedObjects: if those that are there have several types, or an unknown one; it
            quotes none.

    Examples:
        >>> objects_to_arrow([3, None, float("nan")]).to_pylist()
        [3, None, None]
    """
    values = [_plain_value(cell) for cell in cells]
    types = {_type_key(value) for value in values if value is not None}
    if not types:
        return pa.nulls(len(values))
    if len(types) > 1 or not types <= set(_CONVERTERS):
        raise MixedObjects
    arrow_type, convert = _CONVERTERS[types.pop()]
    converted = [None if value is None else convert(value) for value in values]
    return pa.array(converted, arrow_type)


def _plain_value(cell: Any) -> Any:
    """Returns a cell as a plain Python object, None where it is missing."""
    if isinstance(cell, np.generic):
        cell = cell.item()
    if isinstance(cell, float) and cell != cell:
        return None
    # pandas need not be installed, so its types are known by their names.
    type_name = type(cell).__name__
    if cell is None or type_name in ("NAType", "NaTType"):
        return None
    if type_name == "Timestamp":
        return cell.to_pydatetime(warn=False)
    if type_name == "Timedelta":
        return cell.to_pytimedelta()
    return cell


def _type_key(value: Any) -> Any:
    """Returns the key of a value's type in `_CONVERTERS`."""
    if type(value) is datetime and value.tzinfo is not None:
        return _WITH_TIME_ZONE
    return type(value)


def _named_columns(data: Any, names: Sequence[str] | None) -> dict[str, Any] | None:
    """Returns the columns of a mapping or an array.

    Args:
        data: A mapping; a structured array; or an array of two axes, records by
            columns.
        names: For the columns of an array without names.

    Returns:
        Columns by name; None if it is anything else.

    Raises:
        DataError: for an array whose columns have no names, or are not as many.
    """
    if isinstance(data, Mapping):
        return {str(name): cells for name, cells in data.items()}
    array = plain_array(data)
    if not isinstance(array, np.ndarray):
        return None
    if array.dtype.names:
        return {name: array[name].reshape(-1) for name in array.dtype.names}
    if names is None:
        raise DataError(
            f"array of shape {array.shape}: its columns have no names here; convert it, "
            "with data = pandas.DataFrame(data, columns=[...])"
        )
    if array.ndim != 2 or array.shape[1] != len(names):
        raise DataError(
            f"array of shape {array.shape}: expected (records, {len(names)}), one "
            "column for each of the schema in its order, the label included; "
            "numpy.column_stack((X, y)) puts a label behind the others"
        )
    return {name: array[:, index] for index, name in enumerate(names)}


# Kinds of NumPy's dtypes that Arrow converts cell by cell: b for truth values, i and u
# for integers, f for floats, M for timestamps.
_CELLWISE_DTYPE_KINDS = "biufM"


def to_arrow(name: str, cells: Any) -> pa.Array | pa.ChunkedArray:
    """Converts a column: an array, a list or a Series.

    Args:
        name: The name of the column, for messages.
        cells: Its cells, (records,).

    Raises:
        DataError: if the cells are of mixed or unknown types, or have several axes.
    """
    with suppress(MixedObjects, *_CONVERSION_ERRORS):
        array = _column_to_arrow(plain_array(cells))
        if array is not None:
            return array
    # Raised outside the handler: Arrow's message quotes the value.
    raise DataError(
        f"column {name!r}: is a {type(plain_array(cells)).__name__} of mixed or unknown "
        "types, or of several axes; give a list or an array of one axis and one type, "
        "numbers, text, truth values or dates"
    )


def _column_to_arrow(cells: Any) -> pa.Array | pa.ChunkedArray | None:
    """Converts a column; returns None for what is no column of one axis.

    Raises:
        MixedObjects: for Python objects of several types, or an unknown one.
    """
    if isinstance(cells, pa.Array | pa.ChunkedArray):
        return cells
    has_objects = getattr(getattr(cells, "dtype", None), "kind", "") == "O"
    if isinstance(cells, list | tuple) or has_objects:
        return objects_to_arrow(list(cells))
    if isinstance(cells, np.ndarray) and cells.ndim == 1:
        if cells.dtype.kind == "U":
            return objects_to_arrow(cells.tolist())
        if cells.dtype.kind in _CELLWISE_DTYPE_KINDS:
            # Arrow reads the byte order of the machine alone.
            if not cells.dtype.isnative:
                return pa.array(cells.astype(cells.dtype.newbyteorder("=")))
            return pa.array(cells)
        return None
    if not isinstance(cells, np.ndarray) and hasattr(cells, "to_frame"):
        import narwhals as nw

        return nw.from_native(cells, series_only=True).to_arrow()
    return None
