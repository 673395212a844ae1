"""Whole tables in memory: reading one from files, and turning an Arrow table into the kind that a user works with."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa

from noisegate.data.files import find_files
from noisegate.data.tables import TableSource
from noisegate.errors import DataError
from noisegate.schema import Categorical, EncodedTable, Ordinal, Schema, decode


def read_table(path: str | Path, schema: Schema | None = None, *, show_values: bool = False) -> pa.Table:
    """Read all records of a CSV or Parquet file, or of a folder of either, into memory.

    With a schema, the table has its columns and types, and values outside the bounds are moved to the bound.
    Without one, it has the columns of the files, as text where the files are CSV.

    Raises:
        DataError: if the data cannot be read or does not fit the schema.
    """
    if schema is not None:
        return decode(
            EncodedTable.concatenate(list(TableSource(path, schema, show_values=show_values).batches())), schema
        )
    tables = []
    for origin in find_files(Path(path)):
        columns = dict(origin.columns().values())
        if len(columns) < len(origin.columns()):
            raise DataError(f"{origin.name}: two columns have the same name; rename or remove one")
        batches = [pa.table(dict(arrays)) for arrays in origin.batches(list(columns), 1 << 16)]
        empty = pa.table({name: pa.array([], kind) for name, kind in columns.items()})
        tables.append(pa.concat_tables([empty, *(batch.select(list(columns)) for batch in batches)]))
    if any(table.schema != tables[0].schema for table in tables):
        raise DataError(f"{path}: the files have different columns or types; make them alike")
    return pa.concat_tables(tables)


def to_native(table: pa.Table, like: Any, schema: Schema) -> Any:
    """Return ``table`` as the same kind of object as ``like``, each column with the dtype that it has there.

    A column keeps a wider dtype where its values do not fit: nulls or numbers beyond an integer dtype, say. Columns
    that ``like`` does not have keep their own type.

    Raises:
        DataError: if ``like`` is no pandas, Polars or PyArrow table.
    """
    like = empty_like(like, schema)
    if isinstance(like, pa.Table):
        return _to_arrow(table, like.schema)
    return _to_pandas(table, like) if nw.dependencies.is_pandas_dataframe(like) else _to_polars(table, like)


def empty_like(like: Any, schema: Schema) -> Any:
    """Return a table of the kind of ``like`` without records, made anew from its column names and dtypes.

    Nothing of the records may ride along: slices share buffers, tables have metadata, and categorical dtypes list
    values. So their levels come from the schema, and a dtype that could hold anything else is left out.

    Raises:
        DataError: if ``like`` is no pandas, Polars or PyArrow table.
    """
    levels = {column.name: column.levels for column in schema.columns if isinstance(column, Categorical | Ordinal)}
    if isinstance(like, pa.Table):
        fields = [(field.name, field.type) for field in like.schema if not isinstance(field.type, pa.ExtensionType)]
        return pa.schema(fields).empty_table()
    if nw.dependencies.is_pandas_dataframe(like):
        return _empty_pandas(like, levels)
    if nw.dependencies.is_polars_dataframe(like):
        return _empty_polars(like, levels)
    raise DataError(f"expected a pandas, Polars or PyArrow table, found {type(like).__name__}; convert it")


def _empty_pandas(like: Any, levels: Mapping[str, Sequence[Any]]) -> Any:
    import pandas as pd

    plain = (
        pd.api.types.is_numeric_dtype,
        pd.api.types.is_datetime64_any_dtype,
        pd.api.types.is_object_dtype,
        pd.api.types.is_string_dtype,
    )
    columns = {}
    for name, dtype in like.dtypes.items():
        if isinstance(dtype, pd.CategoricalDtype):
            if name in levels:
                columns[name] = pd.Series([], dtype=pd.CategoricalDtype(list(levels[name]), ordered=dtype.ordered))
        elif not isinstance(dtype, pd.SparseDtype) and any(check(dtype) for check in plain):
            columns[name] = pd.Series([], dtype=dtype)
    return pd.DataFrame(columns)


def _empty_polars(like: Any, levels: Mapping[str, Sequence[Any]]) -> Any:
    import polars as pl

    dtypes = {}
    for name, dtype in like.schema.items():
        if not isinstance(dtype, pl.Enum):
            dtypes[name] = dtype
        elif all(isinstance(level, str) for level in levels.get(name, [0])):
            dtypes[name] = pl.Enum(levels[name])
    return pl.DataFrame(schema=dtypes)


def _to_arrow(table: pa.Table, like: pa.Schema) -> pa.Table:
    columns = {}
    for name in table.column_names:
        column = table[name]
        if name in like.names and like.field(name).type != column.type:
            with contextlib.suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                column = _cast(column, like.field(name).type)
        columns[name] = column
    return pa.table(columns)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_dictionary(kind):
        return column.cast(kind)
    return column.cast(kind.value_type).dictionary_encode().cast(kind)


def _to_pandas(table: pa.Table, like: Any) -> Any:
    import pandas as pd

    columns = {}
    for name in table.column_names:
        column = table[name]
        if (
            name in like.columns
            and pd.api.types.is_datetime64_any_dtype(like[name].dtype)
            and pa.types.is_date(column.type)
        ):
            column = column.cast(pa.timestamp("us"))
        series = column.to_pandas()
        if pa.types.is_integer(column.type) and column.null_count:
            series = pd.Series(column.to_pylist(), dtype="Int64")
        columns[name] = _as_dtype(series, like[name].dtype) if name in like.columns else series
    return pd.DataFrame(columns)


def _as_dtype(series: Any, dtype: Any) -> Any:
    """Return ``series`` as ``dtype`` if no value changes by that, else as it is."""
    import pandas as pd

    if pd.api.types.is_bool_dtype(dtype) and series.isna().any():
        return series.astype("boolean")
    try:
        cast = series.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        return series
    if pd.api.types.is_integer_dtype(dtype) and not (cast == series).fillna(True).all():
        return series
    return cast


def _to_polars(table: pa.Table, like: Any) -> Any:
    import polars as pl

    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)  # from_arrow gives a Series for arrays only
    columns = []
    for series in frame.get_columns():
        dtype = like.schema.get(series.name)
        try:
            columns.append(series if dtype is None else series.cast(dtype))
        except pl.exceptions.PolarsError:
            columns.append(series)
    return pl.DataFrame(columns)
