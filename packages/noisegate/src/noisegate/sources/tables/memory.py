"""Tables in memory, and streams of tables that can be read again, as Arrow some records at a time (G-06).

Columns of Python objects, arrays and lists become Arrow by the cell (G-06): it would
infer one type from all together, and a date among moments makes midnights of them all.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from noisegate.containers import TABLES, of_package, plain_array
from noisegate.errors import DataError
from noisegate.schema.values import TEXT_PADDING
from noisegate.sources.headers import check_once

_AHEAD = 2  # batches of a lazy frame that wait to be read

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


Read: TypeAlias = Callable[[list[Any], int], Iterator[Any]]
"""From names of columns, and how many records at most at a time, to tables of Arrow, or columns by their names."""


def table_in_memory(data: Any, names: Sequence[str] | None = None) -> TableInMemory:
    """Returns what is no path as a table, ``names`` naming an array's columns; a DataError says how to make one."""
    if of_package(data, "polars", "LazyFrame"):
        return _lazy(data)
    if of_package(data, "datasets", "Dataset") or of_package(
        data, "datasets", "IterableDataset"
    ):
        return _hugging_face(data)
    if line_for(data) is not None:
        raise _no_table(data)
    if (columns := columns_of(data, names)) is not None:
        made = {name: to_arrow(name, cells) for name, cells in columns.items()}
        lengths = {name: len(cells) for name, cells in made.items()}
        if len(set(lengths.values())) > 1:
            short = min(lengths, key=lambda name: lengths[name])
            raise DataError(
                f"column {short!r}: is shorter than another; give each column a cell for every record"
            )
        return _frame(pa.table(made), "dict" if isinstance(data, Mapping) else "array")
    return _frame(data, names=names or ())


class TableInMemory:
    """A table that is read from the start as often as it is asked for, and never copied; see `Origin`."""

    typed = True

    def __init__(
        self,
        name: str,
        kinds: pa.Schema | Iterable[tuple[Any, pa.DataType]],
        read: Read,
    ) -> None:
        self.name, self._read = name, read
        self.schema = kinds if isinstance(kinds, pa.Schema) else None
        kinds = (
            kinds
            if self.schema is None
            else zip(self.schema.names, self.schema.types, strict=True)
        )
        self._columns = [
            (str(raw).strip(TEXT_PADDING), raw, kind) for raw, kind in kinds
        ]

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Returns name and type of each column; one of Python objects, or of a type that Arrow lacks, has null."""
        return [(name, kind) for name, _, kind in self._columns]

    def batches(
        self, names: Sequence[str], rows: int
    ) -> Iterator[Mapping[str, pa.Array]]:
        """Yields the columns called ``names``, at most ``rows`` records at a time."""
        raw = {name: raw for name, raw, _ in self._columns}
        for part in self._read([raw[name] for name in names], rows):
            cells = {name: part[raw[name]] for name in names}
            yield {
                name: one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one
                for name, one in cells.items()
            }

    def place(self, row: int) -> str:
        """Returns the number of the record, counted from 1."""
        return f"{self.name}, record {row + 1}"


def _frame(
    native: Any, called: str = "DataFrame", names: Sequence[str] = ()
) -> TableInMemory:
    import narwhals as nw

    try:
        frame: nw.DataFrame[Any] = nw.from_native(native, eager_only=True)
    except TypeError:
        raise _no_table(native) from None
    except nw.exceptions.DuplicateError:
        check_once(
            [str(name) for name in getattr(native, "column_names", native.columns)],
            called,
        )
        raise
    pandas = nw.dependencies.is_pandas_dataframe(native)
    index = next(
        (
            name
            for name in names
            if pandas and name in native.index.names and name not in frame.columns
        ),
        None,
    )
    if index is not None:
        raise DataError(
            f"{called}: column {index!r} is the index of the frame; give data.reset_index()"
        )
    objects = (
        {name for name, dtype in native.dtypes.items() if dtype.kind == "O"}
        if pandas
        else set()
    )

    def cells(raw: Any, start: int, stop: int) -> Any:
        with suppress(
            MixedObjects, pa.ArrowException, TypeError, ValueError, OverflowError
        ):
            part = frame.get_column(raw)[start:stop]
            return (
                objects_to_arrow(part.to_list()) if raw in objects else part.to_arrow()
            )
        raise DataError(  # outside the handler: Arrow's message quotes the value
            f"{called}, column {str(raw).strip(TEXT_PADDING)!r}: objects of mixed or unknown types; give it one type"
        )

    def read(names: list[Any], rows: int) -> Iterator[Mapping[Any, Any]]:
        for start in range(0, len(frame), rows):
            yield {raw: cells(raw, start, start + rows) for raw in names}

    def kind(raw: Any) -> pa.DataType:
        with suppress(DataError):  # said where the column is read: it may be ignored
            return cells(raw, 0, 0).type
        return pa.null()

    return TableInMemory(called, [(raw, kind(raw)) for raw in frame.columns], read)


def line_for(data: Any) -> str | None:
    """Returns the line that makes a table of what is none; None where it is not known."""
    classes = [
        (kind.__module__.partition(".")[0], kind.__name__)
        for kind in type(data).__mro__
    ]
    return next((_LINES[each] for each in classes if each in _LINES), None)


def _no_table(data: Any) -> DataError:
    line = line_for(data)
    cure = "convert it" if line is None else f"convert it, with data = {line}"
    return DataError(f"expected a path, {TABLES}, found {type(data).__name__}; {cure}")


def _streamed(name: str, kinds: pa.Schema, tables: Read, *, line: str) -> TableInMemory:
    def read(raw: list[Any], rows: int) -> Iterator[pa.Table]:
        try:
            for table in tables(raw, rows):
                for start in range(0, table.num_rows, rows):
                    yield table.slice(start, rows)
            return
        except (GeneratorExit, KeyboardInterrupt, MemoryError):
            raise
        except Exception:  # whatever such a library raises may quote a value
            pass
        raise DataError(
            f"{name}: cannot be read to its end; data = {line} shows what is wrong with it"
        )

    return TableInMemory(name, kinds, read)


def _lazy(frame: Any) -> TableInMemory:
    """Returns a lazy Polars frame, which is computed anew whenever it is read, in the order of its records."""
    if not hasattr(frame, "sink_batches"):
        raise DataError(
            "LazyFrame: this Polars hands out no batches; convert it, with data = data.collect()"
        )
    kinds: pa.Schema | None = None
    with suppress(Exception):  # as above
        kinds = frame.head(0).collect().to_arrow().schema
    if kinds is None:
        raise DataError(
            "LazyFrame: cannot be computed; data = data.collect() shows what is wrong with it"
        )
    return _streamed(
        "LazyFrame", kinds, partial(_lazy_batches, frame), line="data.collect()"
    )


def _lazy_batches(frame: Any, names: list[str], rows: int) -> Iterator[pa.Table]:
    """Yields the columns of a lazy frame as Arrow tables, computed in a thread some batches ahead of whoever reads."""
    # Not `LazyFrame.collect_batches`, which ends without an error where the computation fails, and prints it.
    waiting: queue.Queue[Any] = queue.Queue(_AHEAD)
    left = threading.Event()

    def put(item: Any) -> bool:
        while not left.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return False
            except queue.Full:
                continue
        return True

    def compute() -> None:
        try:
            frame.select(names).sink_batches(put, chunk_size=rows, maintain_order=True)
            put(None)
        except BaseException as error:
            put(error)

    worker = threading.Thread(target=compute, name="noisegate-lazy", daemon=True)
    worker.start()
    try:
        while (item := waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item.to_arrow()
    finally:
        left.set()
        worker.join()


def _hugging_face(data: Any) -> TableInMemory:
    if data.features is None:
        cure = "state them, with data = data.cast(datasets.Features({...}))"
        raise DataError(
            f"IterableDataset: it does not say which columns it has; {cure}"
        )

    def tables(names: list[str], rows: int) -> Iterator[pa.Table]:
        return iter(
            data.select_columns(names).with_format("arrow").iter(batch_size=rows)
        )

    whole = "datasets.Dataset.from_list(list(data))"
    return _streamed(
        type(data).__name__, data.features.arrow_schema, tables, line=whole
    )


_KINDS = "biufM"
_INT64 = np.iinfo(np.int64)
_AWARE = "datetime with a time zone"


class MixedObjects(Exception):  # noqa: N818 - not an error for users; the caller turns it into one
    """The cells are of several Python types, or of one that stands for no kind of column."""


def objects_to_arrow(cells: Sequence[Any]) -> pa.Array:
    """Returns the cells, None, NaN, pandas.NA and NaT missing; MixedObjects, quoting none, if not of one type."""
    plain = [_plain(cell) for cell in cells]
    aware = (type(cell) is datetime and cell.tzinfo is not None for cell in plain)
    kinds = {
        _AWARE if zoned else type(cell)
        for zoned, cell in zip(aware, plain, strict=True)
        if cell is not None
    }
    if not kinds:
        return pa.nulls(len(plain))
    if len(kinds) > 1 or not kinds <= set(_FORMS):
        raise MixedObjects
    kind, form = _FORMS[kinds.pop()]
    return pa.array([None if cell is None else form(cell) for cell in plain], kind)


def _plain(cell: Any) -> Any:
    if isinstance(cell, np.generic):
        cell = cell.item()
    if isinstance(cell, float) and cell != cell:
        return None
    name = type(cell).__name__
    if cell is None or name in ("NAType", "NaTType"):
        return None
    if name == "Timestamp":  # of pandas, which need not be installed
        return cell.to_pydatetime(warn=False)
    return cell


_FORMS: dict[Any, tuple[pa.DataType, Callable[[Any], Any]]] = {
    str: (pa.string(), lambda cell: cell),
    bool: (pa.bool_(), lambda cell: cell),
    int: (pa.int64(), lambda cell: min(max(cell, int(_INT64.min)), int(_INT64.max))),
    float: (pa.float64(), lambda cell: cell),
    Decimal: (
        pa.string(),
        str,
    ),  # text, which is parsed cell by cell: Arrow's decimals share one scale
    date: (pa.date32(), lambda cell: cell),
    datetime: (pa.timestamp("us"), lambda cell: cell),
    _AWARE: (pa.timestamp("us", tz="UTC"), lambda cell: cell.astimezone(UTC)),
}


def columns_of(data: Any, names: Sequence[str] | None) -> dict[str, Any] | None:
    """Returns the columns of a dict, a structured array, or an array of two axes, with ``names``; None of all else."""
    if isinstance(data, Mapping):
        return {str(name): cells for name, cells in data.items()}
    data = plain_array(data)
    if not isinstance(data, np.ndarray):
        return None
    if data.dtype.names:
        return {name: data[name].reshape(-1) for name in data.dtype.names}
    if names is None:
        cure = "convert it, with data = pandas.DataFrame(data, columns=[...])"
        raise DataError(
            f"array of shape {data.shape}: its columns have no names here; {cure}"
        )
    if data.ndim != 2 or data.shape[1] != len(names):
        raise DataError(
            f"array of shape {data.shape}: expected (records, {len(names)}), one column for each of the schema in its "
            "order, the label included; numpy.column_stack((X, y)) puts a label behind the others"
        )
    return {name: data[:, place] for place, name in enumerate(names)}


def to_arrow(name: str, cells: Any) -> pa.Array | pa.ChunkedArray:
    """Returns an array, a list or a Series as Arrow; a `DataError` calls it the column ``name``."""
    cells = plain_array(cells)
    with suppress(
        MixedObjects, pa.ArrowException, TypeError, ValueError, OverflowError
    ):
        if isinstance(cells, pa.Array | pa.ChunkedArray):
            return cells
        if (
            isinstance(cells, list | tuple)
            or getattr(getattr(cells, "dtype", None), "kind", "") == "O"
        ):
            return objects_to_arrow(list(cells))
        if isinstance(cells, np.ndarray) and cells.ndim == 1:
            if cells.dtype.kind == "U":
                return objects_to_arrow(cells.tolist())
            if cells.dtype.kind in _KINDS:
                return pa.array(
                    cells
                    if cells.dtype.isnative
                    else cells.astype(cells.dtype.newbyteorder("="))
                )
        elif hasattr(cells, "to_frame"):
            import narwhals as nw

            return nw.from_native(cells, series_only=True).to_arrow()
    raise DataError(  # outside the handler: Arrow's message quotes the value
        f"column {name!r}: is a {type(cells).__name__} of mixed or unknown types, or of several axes; give a list or "
        "an array of one axis and one type, numbers, text, truth values or dates"
    )
