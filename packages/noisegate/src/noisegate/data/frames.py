"""Whole tables in memory: reading one from files, and turning an Arrow table into the kind that a user works with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from noisegate.data.headers import check_alike, check_once
from noisegate.data.sources import open_source
from noisegate.data.tables.memory import (
    TABLES,
    MixedObjects,
    objects_to_arrow,
    of_package,
    plain_array,
    table_in_memory,
)
from noisegate.data.tables.tables import Origin, open_origins
from noisegate.errors import DataError
from noisegate.schema import Categorical, EncodedTable, Ordinal, Schema, decode


def read_table(path: Any, schema: Schema | None = None, *, show_values: bool = False) -> pa.Table:
    """Reads all records of files, or of a table in memory; a DataError if they cannot be read or do not fit.

    With a schema, the table has its columns and types, and values outside the bounds are moved to the bound; with one
    of images, the path may also hold images. Without one, it has the columns of the files, as text where the files are
    CSV.
    """
    if schema is not None:
        source = open_source(path, schema, show_values=show_values)
        return decode(EncodedTable.concatenate(list(source.batches())), schema)
    tables: list[pa.Table] = []
    where, origins = open_origins(path)
    check_alike([(origin.name, [name for name, _ in origin.columns()]) for origin in origins], show_names=True)
    for origin in origins:
        columns = [name for name, _ in origin.columns()]
        check_once(columns, origin.name, show_names=origin.typed)
        # A table in memory at once: the type of a column of Python objects is that of all its cells.
        columns = tables[0].column_names if tables else columns
        tables.append(_whole(origin, columns, 1 << 16 if isinstance(path, str | Path) else 2**62))
    if any(table.schema != tables[0].schema for table in tables):
        raise DataError(f"{where}: the files have different columns or types; make them alike")
    return pa.concat_tables(tables)


def read_linked(data: Any, schema: Any) -> dict[str, pa.Table]:
    """Reads all tables, of a folder or by name, with the files' columns; a DataError if one is lacking or broken."""
    return {name: read_table(part) for name, part in schema.parts(data).items()}


def _whole(origin: Origin, names: Sequence[str], rows: int) -> pa.Table:
    batches = [pa.table(dict(arrays)).select(names) for arrays in origin.batches(names, rows)]
    kinds = dict(origin.columns())
    return pa.concat_tables(batches or [pa.table({name: pa.array([], kinds[name]) for name in names})])


@dataclass(frozen=True, kw_only=True)
class NativeForm:
    """The kind of table that a user works with; calling it turns an Arrow table into one.

    Dtypes follow from the schema alone: those of the user's table may have been chosen by the values in it. Only
    whether a column with levels is kept as categories is copied; the categories are the schema's.
    """

    kind: str  # "pandas", "polars", "arrow", "datasets", "dict", "array" (two axes) or "records" (a structured array)
    schema: Schema
    categories: Mapping[str, bool]  # columns with levels kept as categories, and whether they are ordered (pandas only)

    def __call__(self, table: pa.Table) -> Any:
        """Returns ``table``, which has the columns of the schema, in this form."""
        if not isinstance(table, pa.Table) or tuple(table.column_names) != self.schema.names:
            raise DataError(
                f"expected a PyArrow table with the columns of the schema, found {type(table).__name__}; give what "
                "noisegate's batches(n) returns"
            )
        if self.kind == "pandas":
            return _to_pandas(table, self)
        if self.kind == "polars":
            return _to_polars(table, self)
        if self.kind == "datasets":
            import datasets

            return datasets.Dataset(table)
        if self.kind in ("dict", "array", "records"):
            return _to_numpy(table, self.kind)
        encoded = {name: _dictionary(table[name], self.levels(name)) for name in self.categories}
        return pa.table({name: encoded.get(name, table[name]) for name in table.column_names})

    def levels(self, name: str) -> list[Any]:
        """Returns the public levels of a column that is kept as categories."""
        column = self.schema.column(name)
        assert isinstance(column, Categorical | Ordinal)
        return list(column.levels)


def native_form(like: Any, schema: Schema) -> NativeForm:
    """Returns the form of ``like``, of whose records, dtypes and metadata nothing is kept; a DataError for another.

    Images in memory, which are no table, have that of PyArrow.
    """
    import narwhals as nw

    with_levels = [column.name for column in schema.columns if isinstance(column, Categorical | Ordinal)]
    if isinstance(like, pa.Table):
        kind, types = "arrow", {name: like.schema.field(name).type for name in like.column_names}
        kept = {name: False for name in with_levels if name in types and pa.types.is_dictionary(types[name])}
    elif nw.dependencies.is_pandas_dataframe(like):
        kind, types = "pandas", {str(name): dtype for name, dtype in like.dtypes.items()}
        kept = {name: bool(types[name].ordered) for name in with_levels if str(types.get(name)) == "category"}
    elif nw.dependencies.is_polars_dataframe(like) or nw.dependencies.is_polars_lazyframe(like):
        import polars as pl

        kind, types = "polars", like.collect_schema()
        kept = {name: False for name in with_levels if isinstance(types.get(name), pl.Categorical | pl.Enum)}
    else:
        kind, kept = _kind(like, schema), {}
    return NativeForm(kind=kind, schema=schema, categories=kept)


def _kind(like: Any, schema: Schema) -> str:
    if of_package(like, "datasets", "Dataset") or of_package(like, "datasets", "IterableDataset"):
        return "datasets"
    like = plain_array(like)
    if isinstance(like, np.ndarray) and like.ndim < 3:
        return "records" if like.dtype.names else "array"
    if schema.images is not None:
        return "arrow"
    if isinstance(like, Mapping) and set(schema.names) <= set(like):
        return "dict"
    raise DataError(f"expected {TABLES}, found {type(like).__name__}; convert it")


def _to_numpy(table: pa.Table, kind: str) -> Any:
    """Returns a dict of arrays; or an array of the columns, of objects where not all of them are numbers."""
    columns = {name: table[name].to_numpy() for name in table.column_names}
    if kind == "dict":
        return columns
    if kind == "records":
        return np.rec.fromarrays(list(columns.values()), dtype=[(name, one.dtype) for name, one in columns.items()])
    if all(one.dtype.kind in "bif" for one in columns.values()):
        return np.column_stack(list(columns.values()))
    return np.column_stack([np.array(table[name].to_pylist(), dtype=object) for name in table.column_names])


def _dictionary(cells: pa.ChunkedArray, levels: list[Any]) -> pa.ChunkedArray:
    known = pa.array(levels, cells.type)
    codes = pa.compute.index_in(cells, value_set=known)
    chunks = [pa.DictionaryArray.from_arrays(chunk, known) for chunk in codes.chunks]
    return pa.chunked_array(chunks, pa.dictionary(pa.int32(), cells.type))


def _to_pandas(table: pa.Table, form: NativeForm) -> Any:
    import pandas as pd

    columns = {}
    for column in form.schema.columns:
        cells = table[column.name]
        if pa.types.is_date(cells.type):
            cells = cells.cast(pa.timestamp("us"))
        series = cells.to_pandas()
        if column.name in form.categories:
            dtype = pd.CategoricalDtype(form.levels(column.name), ordered=form.categories[column.name])
            series = series.astype("Int64").astype(dtype) if pa.types.is_integer(cells.type) else series.astype(dtype)
        elif column.missing and pa.types.is_integer(cells.type):
            series = pd.Series(cells.to_pylist(), dtype="Int64")
        elif column.missing and pa.types.is_boolean(cells.type):
            series = series.astype("boolean")
        columns[column.name] = series
    return pd.DataFrame(columns)


def _to_polars(table: pa.Table, form: NativeForm) -> Any:
    """Returns a Polars frame, with the levels of the schema as an Enum where the user's frame had categories."""
    import polars as pl

    # Never as a Categorical: those of a process share, and carry along, a table of all texts that it ever saw.
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)  # from_arrow gives a Series for arrays only
    for name in form.categories:
        if table.schema.field(name).type == pa.string():
            frame = frame.with_columns(pl.col(name).cast(pl.Enum(form.levels(name))))
    return frame


def records_table(records: Any, names: Sequence[str], *, where: str = "X") -> pa.Table:
    """Returns a table in memory, or an array with a column for each of ``names``, as Arrow; messages say ``where``."""
    if isinstance(records, np.ndarray | list | tuple):
        array = np.asarray(records)
        if array.ndim != 2 or array.shape[1] != len(names):
            raise DataError(
                f"{where}: an array of shape {array.shape}, expected (records, {len(names)}): one column for each of "
                "the schema but the label, in its order"
            )
        return pa.table({name: np.ascontiguousarray(array[:, j]) for j, name in enumerate(names)})
    table = table_in_memory(records)
    columns = dict(table.columns())
    absent = [name for name in names if name not in columns]
    if absent:
        raise DataError(f"{where}: there is no column {absent[0]!r}, which the schema describes; add it")
    return _whole(table, names, 2**62)  # at once: the type of a column of Python objects is that of all its cells


def with_labels(records: pa.Table, labels: Any, name: str) -> pa.Table:
    """Returns ``records`` with one column more, called ``name``: the label of each, any sequence of plain values."""
    cells = np.asarray(labels).tolist() if not isinstance(labels, list) else labels
    if len(cells) != records.num_rows or np.ndim(labels) != 1:
        raise DataError(f"y has {len(cells)} labels for {records.num_rows} records in X; expected one for each")
    try:
        return records.append_column(name, objects_to_arrow(cells))
    except (MixedObjects, pa.ArrowException):
        pass
    raise DataError("y: labels of mixed or unknown types; give them one type, text or whole numbers")
