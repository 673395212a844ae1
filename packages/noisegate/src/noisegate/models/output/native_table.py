"""From an Arrow table of synthetic records to the kind of table that a user works with.

In which Arrow types, and in text in which form, the data has its columns, a schema says, and synthetic data too.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from noisegate.containers import TABLES, of_package, plain_array
from noisegate.errors import DataError, OptionError, installed
from noisegate.schema.arrow_types import cast_column
from noisegate.schema.columns import Column
from noisegate.schema.schema import Schema, is_linked
from noisegate.schema.values import TEXT_PADDING

_CATEGORY, _ORDERED = "category", "ordered category"


@dataclass(frozen=True, kw_only=True)
class NativeForm:
    """The kind of table that a user works with; calling it turns an Arrow table into one.

    Types are the schema's: those of the user's table may have been chosen by the values in it. Of these only whether a
    column holds categories is copied, which no reader chooses; all of them where samples shall be like a table.
    """

    kind: str  # "pandas", "polars", "arrow", "datasets", "dict", "array" (two axes) or "records" (a structured array)
    schema: Schema
    families: Mapping[
        str, str
    ]  # of columns: categories; with `types` also pandas' "masked", "pyarrow", "string[...]"
    whole: Collection[str] = ()  # names that are whole numbers in pandas
    types: Mapping[str, Any] | None = (
        None  # of a table that samples shall be like, by whoever asks for it
    )

    def __call__(self, table: pa.Table) -> Any:
        """Returns ``table``, which has the columns of the schema, in this form."""
        if (
            not isinstance(table, pa.Table)
            or tuple(table.column_names) != self.schema.names
        ):
            says = f"expected a PyArrow table with the columns of the schema, found {type(table).__name__}"
            raise DataError(f"{says}; give what noisegate's batches(n) returns")
        names = sorted(
            self.schema.names, key=list(self.types or self.schema.names).index
        )
        table = pa.table(
            {name: self._cells(self.schema.column(name), table[name]) for name in names}
        )
        if self.kind == "pandas":
            return _to_pandas(table, self)
        if self.kind == "polars":
            return _to_polars(table, self)
        if self.kind == "datasets":
            import datasets

            return datasets.Dataset(table)
        return (
            _to_numpy(table, self.kind)
            if self.kind in ("dict", "array", "records")
            else table
        )

    def to_json(self) -> dict[str, Any]:
        """Returns what a model folder keeps of it beside the schema."""
        return {
            "kind": self.kind,
            "families": dict(self.families),
            "whole": list(self.whole),
        }

    def _cells(self, column: Column, cells: pa.ChunkedArray) -> pa.Array:
        """Returns the cells of a column as Arrow has them on their way to this kind of table."""
        plain, family = cells.combine_chunks(), self.families.get(column.name)
        if pa.types.is_dictionary(plain.type):
            if self.kind == "arrow" and self.types is None:
                return plain
            plain = plain.dictionary_decode()
        if self.types is not None and (self.kind == "arrow" or family == "pyarrow"):
            return self.cast(
                column.name,
                lambda one: cast_column(
                    column, plain, getattr(one, "pyarrow_dtype", one)
                ),
            )
        if family not in (_CATEGORY, _ORDERED) or self.kind == "polars":
            return plain
        return cast_column(
            column, plain, pa.dictionary(pa.int32(), plain.type, family == _ORDERED)
        )

    def wanted(self, name: str) -> Any:
        """Returns the dtype that is asked for; None where its categories are not the schema's, and may be private."""
        dtype: Any = (self.types or {}).get(name)
        levels = getattr(self.schema.column(name), "levels", ())
        listed = type(dtype).__name__ in ("CategoricalDtype", "Enum")
        return None if listed and set(dtype.categories) != set(levels) else dtype

    def cast(self, name: str, into: Callable[[Any], Any]) -> Any:
        """Returns a column in the type that is wanted; an OptionError where its values do not fit."""
        wanted = (self.types or {})[name]
        try:
            return into(wanted)
        except Exception as error:
            told = f"like: column {name!r} cannot be had as {wanted}; convert it there, or the sample: {error}"
        raise OptionError(told)


def native_form(like: Any, schema: Schema, *, exact: bool = False) -> NativeForm:
    """Returns the form of ``like``, of whose records and metadata nothing is kept; its dtypes only if ``exact``."""
    # Images in memory, which are no table, have the form of PyArrow; a DataError for what else is no table.
    import narwhals as nw

    dtypes: list[tuple[Any, Any]] = []
    if of_package(like, "pyarrow", "Table"):
        kind, dtypes = "arrow", [(field.name, field.type) for field in like.schema]
    elif nw.dependencies.is_pandas_dataframe(like):
        kind, dtypes = "pandas", list(like.dtypes.items())
    elif nw.dependencies.is_polars_dataframe(
        like
    ) or nw.dependencies.is_polars_lazyframe(like):
        kind, dtypes = "polars", list(like.collect_schema().items())
    else:
        kind = _kind(like, schema)
    types = {str(name).strip(TEXT_PADDING): dtype for name, dtype in dtypes}
    families = {
        name: family
        for name, dtype in types.items()
        if (family := _family(kind, dtype)) is not None
    }
    absent = (
        [name for name in schema.names if name not in types] if exact and types else []
    )
    if absent:
        raise OptionError(
            f"like: there is no column {absent[0]!r}, which the model makes; add it"
        )
    numbers = {
        column.name
        for column in schema.layout.numeric
        if _CATEGORY in families.get(column.name, "")
    }
    # One record may decide whether a reader finds whole numbers or text, or Arrow's few enough values for a dictionary;
    # that a column has categories in pandas or Polars is its user's choice.
    kept = {
        name: family
        for name, family in families.items()
        if exact or (kind != "arrow" and _CATEGORY in family)
    }
    known = {
        name: family
        for name, family in kept.items()
        if name in schema.names and name not in numbers
    }
    whole = [
        str(name)
        for name, _ in dtypes
        if type(name) is int and str(name) in schema.names
    ]
    return NativeForm(
        kind=kind,
        schema=schema,
        families=known,
        whole=whole,
        types=types if exact and types else None,
    )


def saved_form(form: Any, schema: Schema) -> NativeForm | None:
    """Returns the form that `NativeForm.to_json` described, if its package is here; None of a model that has none."""
    if form is None or (
        form["kind"] in ("pandas", "polars", "datasets") and not installed(form["kind"])
    ):
        return None
    return NativeForm(schema=schema, **form)


def in_kind(model: Any, data: Any) -> Any:
    """Returns the model; what it samples is of the kind of table that the records came in."""
    if not hasattr(model, "convert"):  # of a classifier
        return model
    if not is_linked(schema := model.release.stated_schema):
        return replace(model, convert=native_form(data, model.release.schema))
    tables = [
        table for table in schema.tables if not isinstance(data[table.name], str | Path)
    ]
    return replace(
        model,
        convert={
            table.name: native_form(data[table.name], table.synthetic())
            for table in tables
        },
    )


def _kind(like: Any, schema: Schema) -> str:
    if of_package(like, "datasets", "Dataset") or of_package(
        like, "datasets", "IterableDataset"
    ):
        return "datasets"
    like = plain_array(like)
    if isinstance(like, np.ndarray) and like.ndim < 3:
        return "records" if like.dtype.names else "array"
    if schema.images is not None:
        return "arrow"
    if isinstance(like, Mapping) and set(schema.names) <= set(like):
        return "dict"
    raise DataError(f"expected {TABLES}, found {type(like).__name__}; convert it")


def _family(kind: str, dtype: Any) -> str | None:
    if kind != "pandas":
        return (
            _CATEGORY
            if str(dtype).startswith(("dictionary", "Categorical", "Enum"))
            else None
        )
    import pandas as pd

    if isinstance(dtype, pd.CategoricalDtype):
        return _ORDERED if dtype.ordered else _CATEGORY
    if isinstance(dtype, pd.ArrowDtype):
        return "pyarrow"
    if getattr(dtype, "na_value", None) is not pd.NA:
        return None
    return f"string[{dtype.storage}]" if isinstance(dtype, pd.StringDtype) else "masked"


def _to_numpy(table: pa.Table, kind: str) -> Any:
    """Returns a dict of arrays; or an array of the columns, of objects where not all of them are numbers."""
    columns = {name: table[name].to_numpy() for name in table.column_names}
    if kind == "dict":
        return columns
    if kind == "records":
        return np.rec.fromarrays(
            list(columns.values()),
            dtype=[(name, one.dtype) for name, one in columns.items()],
        )
    if all(one.dtype.kind in "bif" for one in columns.values()):
        return np.column_stack(list(columns.values()))
    return np.column_stack(
        [np.array(table[name].to_pylist(), dtype=object) for name in table.column_names]
    )


def _to_pandas(table: pa.Table, form: NativeForm) -> Any:
    import pandas as pd

    columns: dict[Any, Any] = {}
    for name in table.column_names:
        cells, family = table[name], form.families.get(name, "")
        if pa.types.is_date(cells.type) and family != "pyarrow":
            cells = cells.cast(pa.timestamp("us"))
        dtype = _dtype(cells.type, family, missing=form.schema.column(name).missing)
        series = (
            cells.to_pandas()
            if dtype is None
            else pd.Series(dtype.__from_arrow__(cells))
        )
        series = series if form.wanted(name) is None else form.cast(name, series.astype)
        columns[int(name) if name in form.whole else name] = series
    return pd.DataFrame(columns)


def _dtype(kind: pa.DataType, family: str, *, missing: bool) -> Any:
    """Returns the dtype of an extension of pandas, or None for NumPy's."""
    import pandas as pd

    if family == "pyarrow":
        return pd.ArrowDtype(kind)
    if family.startswith("string") and (pt.is_string(kind) or pt.is_large_string(kind)):
        return pd.StringDtype(family[len("string[") : -1])
    if pt.is_boolean(kind):
        return pd.BooleanDtype() if missing or family == "masked" else None
    if (missing and pt.is_integer(kind)) or (
        family == "masked" and (pt.is_integer(kind) or pt.is_floating(kind))
    ):
        number = np.dtype(kind.to_pandas_dtype()).name
        return pd.api.types.pandas_dtype(number.title().replace("Uint", "UInt"))
    return None


def _to_polars(table: pa.Table, form: NativeForm) -> Any:
    """Returns a Polars frame; levels with an order are an Enum where the user's frame had categories, others text."""
    import polars as pl

    # Never as a Categorical, unasked: those of a process share, and carry along, a table of all texts that it ever saw.
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)  # from_arrow gives a Series for arrays only
    for name in table.column_names:
        levels: Any = getattr(form.schema.column(name), "levels", None)
        if form.wanted(name) is not None:
            frame = frame.with_columns(form.cast(name, frame[name].cast))
        elif (
            name in form.families
            and form.schema.column(name).kind == "ordinal"
            and isinstance(levels[0], str)
        ):
            frame = frame.with_columns(pl.col(name).cast(pl.Enum(levels)))
    return frame
