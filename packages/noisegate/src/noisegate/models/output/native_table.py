"""Converts Arrow tables of synthetic records to the kind that a user works with.

A user who fits a model to a pandas table gets pandas tables from it. `native_form`
notes the kind of the user's table, and the `NativeForm` that it returns converts Arrow
tables to it::

    native_form(user's table, schema) ──► NativeForm ──► form(pa.Table): pandas, ...
                                             │  ▲
                                     to_json ▼  │ saved_form
                                          model.json

Types come from the schema. Those of the user's table may have been chosen by the values
in it, so that they would reveal private records: pandas reads a column of integers as
float64 if one value is missing. Only whether a column has categories is copied, which a
user chooses and no reader does. Whoever asks for samples that are ``like`` a table gets
all its dtypes.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from noisegate.containers import TABLES, of_package, plain_array, query_package
from noisegate.errors import DataError, OptionError, installed
from noisegate.schema.arrow_types import cast_column
from noisegate.schema.checks import TEXT_PADDING
from noisegate.schema.columns import Column
from noisegate.schema.schema import Schema, is_linked

Kind: TypeAlias = Literal[
    "pandas", "polars", "arrow", "datasets", "dict", "array", "records"
]
"""Kinds of tables. "array" is a NumPy array with two axes, "records" a structured one,
and "dict" a dict of arrays by column."""

_CATEGORY = "category"
_ORDERED = "ordered category"


@dataclass(frozen=True, kw_only=True)
class NativeForm:
    """The kind of table that a user works with; calls convert Arrow tables to it.

    Attributes:
        kind: The kind of table.
        schema: Schema of the records.
        families: Dtype families by column, of those columns that have one: "category"
            or "ordered category". With `dtypes` also those of pandas: "masked" for
            nullable numbers, "pyarrow", and such as "string[python]".
        integer_names: Columns whose names are integers in pandas, as text.
        dtypes: Dtypes by column of a table that samples shall be like, in its order;
            None if samples have the schema's types.
    """

    kind: Kind
    schema: Schema
    families: Mapping[str, str]
    integer_names: Collection[str] = ()
    dtypes: Mapping[str, Any] | None = None

    def __call__(self, table: pa.Table) -> Any:
        """Converts a table.

        Args:
            table: Synthetic records with the columns of the schema.

        Returns:
            A table of the kind, with the columns in the order of `dtypes` if there are
            any.

        Raises:
            DataError: if `table` has other columns, or is no Arrow table.
            OptionError: if a dtype cannot hold a column.
        """
        is_of_schema = (
            isinstance(table, pa.Table)
            and tuple(table.column_names) == self.schema.names
        )
        if not is_of_schema:
            raise DataError(
                "expected a PyArrow table with the columns of the schema, found "
                f"{type(table).__name__}; give what noisegate's batches(n) returns"
            )
        order = list(self.dtypes or self.schema.names)
        cells_by_name = {
            name: self._arrow_cells(self.schema.column(name), table[name])
            for name in sorted(self.schema.names, key=order.index)
        }
        table = pa.table(cells_by_name)
        if self.kind == "pandas":
            return _to_pandas(table, self)
        if self.kind == "polars":
            return _to_polars(table, self)
        if self.kind == "datasets":
            import datasets

            return datasets.Dataset(table)
        if self.kind in ("dict", "array", "records"):
            return _to_numpy(table, self.kind)
        return table

    def to_json(self) -> dict[str, Any]:
        """Returns what a model folder stores of the form, beside the schema.

        Dtypes are not stored: they belong to one call of ``sample(like=...)``.
        """
        return {
            "kind": self.kind,
            "families": dict(self.families),
            "whole": list(self.integer_names),
        }

    def _arrow_cells(self, column: Column, cells: pa.ChunkedArray) -> pa.Array:
        """Returns the cells of a column in the Arrow type that converts to this kind.

        Categories become a dictionary of all levels; only Polars takes text for them.
        """
        values = cells.combine_chunks()
        if pa.types.is_dictionary(values.type):
            if self.kind == "arrow" and self.dtypes is None:
                return values
            values = values.dictionary_decode()

        family = self.families.get(column.name)
        has_arrow_dtype = self.kind == "arrow" or family == "pyarrow"
        if self.dtypes is not None and has_arrow_dtype:

            def cast(dtype: Any) -> pa.Array:
                # pandas wraps the type of Arrow.
                return cast_column(
                    column, values, getattr(dtype, "pyarrow_dtype", dtype)
                )

            return self.cast_to_requested(column.name, cast)

        has_categories = family in (_CATEGORY, _ORDERED)
        if not has_categories or self.kind == "polars":
            return values
        dictionary = pa.dictionary(pa.int32(), values.type, family == _ORDERED)
        return cast_column(column, values, dictionary)

    def requested_dtype(self, name: str) -> Any:
        """Returns the dtype that a column shall have; None for that of the schema.

        A dtype whose categories are not the schema's levels is not taken either, since
        they may be private values.

        Args:
            name: Name of a column.
        """
        dtype: Any = (self.dtypes or {}).get(name)
        levels = getattr(self.schema.column(name), "levels", ())
        lists_categories = type(dtype).__name__ in ("CategoricalDtype", "Enum")
        if lists_categories and set(dtype.categories) != set(levels):
            return None
        return dtype

    def cast_to_requested(self, name: str, cast: Callable[[Any], Any]) -> Any:
        """Casts a column to the dtype that is requested for it.

        Args:
            name: Name of a column that has one.
            cast: Returns the column in a dtype.

        Raises:
            OptionError: if the column's values do not fit it.
        """
        dtype = (self.dtypes or {})[name]
        try:
            return cast(dtype)
        except Exception as error:
            message = (
                f"like: column {name!r} cannot be had as {dtype}; convert it there, or "
                f"the sample: {error}"
            )
        # Outside of the handler, so that no traceback of another library comes along.
        raise OptionError(message)


def native_form(like: Any, schema: Schema, *, exact: bool = False) -> NativeForm:
    """Returns the form of a table, without its records and metadata.

    Args:
        like: A table in memory, of any kind in `noisegate.containers.TABLES`. Images in
            memory, which are no table, have the form of PyArrow.
        schema: Schema of the records to convert.
        exact: Whether samples shall have all dtypes of the table. They may reveal its
            records, so the caller must ask for it.

    Raises:
        DataError: if `like` is no table.
        OptionError: if `exact` and a column of the schema is missing.

    Examples:
        >>> import pandas as pd
        >>> import pyarrow as pa
        >>> from noisegate.models.output.native_table import native_form
        >>> from noisegate.schema import Integer, Schema
        >>> schema = Schema([Integer(name="age", lower=0, upper=99)])
        >>> form = native_form(pd.DataFrame({"age": [31.0, None]}), schema)
        >>> form(pa.table({"age": [40, 50]}))["age"].dtype
        dtype('int64')
    """
    kind, like_dtypes = _kind_and_dtypes(like, schema)
    dtypes = {str(name).strip(TEXT_PADDING): dtype for name, dtype in like_dtypes}
    if exact and dtypes:
        absent_names = [name for name in schema.names if name not in dtypes]
        if absent_names:
            raise OptionError(
                f"like: there is no column {absent_names[0]!r}, which the model makes; "
                "add it"
            )

    numeric_names = {column.name for column in schema.layout.numeric}
    families = {}
    for name, dtype in dtypes.items():
        family = _dtype_family(kind, dtype)
        if family is None or name not in schema.names:
            continue
        has_categories = _CATEGORY in family
        # One record may decide whether a reader finds integers or text, or whether
        # Arrow finds few enough values for a dictionary. Categories in pandas or Polars
        # are chosen by the user.
        is_public = exact or (kind != "arrow" and has_categories)
        # A numeric column has no levels to make categories of.
        is_numeric_category = has_categories and name in numeric_names
        if is_public and not is_numeric_category:
            families[name] = family

    integer_names = [
        str(name)
        for name, _ in like_dtypes
        if type(name) is int and str(name) in schema.names
    ]
    return NativeForm(
        kind=kind,
        schema=schema,
        families=families,
        integer_names=integer_names,
        dtypes=dtypes if exact and dtypes else None,
    )


def saved_form(form: Any, schema: Schema) -> NativeForm | None:
    """Reads the form that `NativeForm.to_json` wrote.

    Args:
        form: The JSON object; None in older models.
        schema: Schema of the records.

    Returns:
        The form; None if there is none, or the package of its kind is not installed.

    Raises:
        LookupError, TypeError, ValueError: if it is none.
    """
    if form is None:
        return None
    kind = form["kind"]
    if kind in ("pandas", "polars", "datasets") and not installed(kind):
        return None
    unknown_names = form.keys() - {"kind", "families", "whole"}
    if unknown_names:
        raise ValueError(f"a form has no {', '.join(sorted(unknown_names))}")
    return NativeForm(
        kind=kind,
        schema=schema,
        families=form["families"],
        integer_names=form.get("whole", ()),
    )


def with_native_output(model: Any, data: Any) -> Any:
    """Returns a model whose samples are tables of the kind that its records came in.

    Args:
        model: A `FittedModel`. A classifier, which has no samples, stays as it is.
        data: The records: a table in memory, or tables and paths by name if they are
            linked. Tables that were read from files come out as Arrow tables.
    """
    draws_records = hasattr(model, "convert")
    if not draws_records:
        return model
    schema = model.release.stated_schema
    if not is_linked(schema):
        return replace(model, convert=native_form(data, model.release.schema))
    forms = {
        table.name: native_form(data[table.name], table.synthetic())
        for table in schema.tables
        if not isinstance(data[table.name], str | Path)
    }
    return replace(model, convert=forms)


def _kind_and_dtypes(like: Any, schema: Schema) -> tuple[Kind, list[tuple[Any, Any]]]:
    """Returns the kind of a table, and the names and dtypes of its columns.

    Kinds without dtypes of their own have no columns here.
    """
    # Imported late, as it takes a moment and files need none of it.
    import narwhals as nw

    if of_package(like, "pyarrow", "Table"):
        return "arrow", [(field.name, field.type) for field in like.schema]
    if nw.dependencies.is_pandas_dataframe(like):
        return "pandas", list(like.dtypes.items())
    is_frame = nw.dependencies.is_polars_dataframe(like)
    if is_frame or nw.dependencies.is_polars_lazyframe(like):
        return "polars", list(like.collect_schema().items())
    return _kind_without_dtypes(like, schema), []


def _kind_without_dtypes(like: Any, schema: Schema) -> Kind:
    """Returns the kind of a container whose columns have no dtypes of their own.

    Raises:
        DataError: if it is no table.
    """
    if of_package(like, "datasets", "Dataset"):
        return "datasets"
    if of_package(like, "datasets", "IterableDataset"):
        return "datasets"
    if query_package(like) is not None:
        return "arrow"
    container = plain_array(like)
    if isinstance(container, np.ndarray) and container.ndim < 3:
        return "records" if container.dtype.names else "array"
    if schema.images is not None:
        return "arrow"
    if isinstance(container, Mapping) and set(schema.names) <= set(container):
        return "dict"
    raise DataError(f"expected {TABLES}, found {type(container).__name__}; convert it")


def _dtype_family(kind: Kind, dtype: Any) -> str | None:
    """Returns the family of a dtype as `NativeForm.families` has it, or None."""
    if kind != "pandas":
        has_categories = str(dtype).startswith(("dictionary", "Categorical", "Enum"))
        return _CATEGORY if has_categories else None

    import pandas as pd

    if isinstance(dtype, pd.CategoricalDtype):
        return _ORDERED if dtype.ordered else _CATEGORY
    if isinstance(dtype, pd.ArrowDtype):
        return "pyarrow"
    is_nullable = getattr(dtype, "na_value", None) is pd.NA
    if not is_nullable:
        return None
    if isinstance(dtype, pd.StringDtype):
        return f"string[{dtype.storage}]"
    return "masked"


def _to_numpy(table: pa.Table, kind: Kind) -> Any:
    """Converts a table to a dict of arrays, a structured array, or one with two axes.

    The array with two axes is of objects unless all columns are numbers.
    """
    arrays = {name: table[name].to_numpy() for name in table.column_names}
    if kind == "dict":
        return arrays
    if kind == "records":
        return np.rec.fromarrays(
            list(arrays.values()),
            dtype=[(name, array.dtype) for name, array in arrays.items()],
        )
    is_numeric = all(array.dtype.kind in "bif" for array in arrays.values())
    if is_numeric:
        return np.column_stack(list(arrays.values()))
    return np.column_stack(
        [np.array(table[name].to_pylist(), dtype=object) for name in table.column_names]
    )


def _to_pandas(table: pa.Table, form: NativeForm) -> Any:
    """Converts a table to pandas, with nullable dtypes where values may be missing."""
    import pandas as pd

    columns: dict[Any, Any] = {}
    for name in table.column_names:
        cells = table[name]
        family = form.families.get(name, "")
        if pa.types.is_date(cells.type) and family != "pyarrow":
            # NumPy has no dates; pandas would make objects of them.
            cells = cells.cast(pa.timestamp("us"))

        may_be_missing = form.schema.column(name).missing
        dtype = _extension_dtype(cells.type, family, may_be_missing=may_be_missing)
        if dtype is None:
            series = cells.to_pandas()
        else:
            series = pd.Series(dtype.__from_arrow__(cells))
        if form.requested_dtype(name) is not None:
            series = form.cast_to_requested(name, series.astype)

        label = int(name) if name in form.integer_names else name
        columns[label] = series
    return pd.DataFrame(columns)


def _extension_dtype(
    arrow_type: pa.DataType, family: str, *, may_be_missing: bool
) -> Any:
    """Returns the extension dtype of pandas for a column; None for NumPy's dtype.

    Args:
        arrow_type: Type of the cells.
        family: Dtype family of the column; empty for none.
        may_be_missing: Whether the schema allows missing values, which booleans and
            integers of NumPy cannot hold.
    """
    import pandas as pd

    if family == "pyarrow":
        return pd.ArrowDtype(arrow_type)
    is_text = pt.is_string(arrow_type) or pt.is_large_string(arrow_type)
    if family.startswith("string") and is_text:
        return pd.StringDtype(family.removeprefix("string[").removesuffix("]"))
    is_masked = family == "masked"
    if pt.is_boolean(arrow_type):
        return pd.BooleanDtype() if may_be_missing or is_masked else None
    is_integer = pt.is_integer(arrow_type)
    needs_mask = (may_be_missing and is_integer) or (
        is_masked and (is_integer or pt.is_floating(arrow_type))
    )
    if needs_mask:
        # Masked dtypes are named after NumPy's, as in UInt8 and Float64.
        numpy_name = np.dtype(arrow_type.to_pandas_dtype()).name
        return pd.api.types.pandas_dtype(numpy_name.title().replace("Uint", "UInt"))
    return None


def _to_polars(table: pa.Table, form: NativeForm) -> Any:
    """Converts a table to Polars.

    Levels with an order are an Enum if the user's frame had categories; others are
    text.
    """
    import polars as pl

    # No column becomes a Categorical unless that is requested: those of a process
    # share a table of all texts that it ever saw, and carry it along.
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)  # it is a Series for arrays only
    for name in table.column_names:
        column = form.schema.column(name)
        if form.requested_dtype(name) is not None:
            frame = frame.with_columns(form.cast_to_requested(name, frame[name].cast))
        elif (
            name in form.families
            and not column.numeric
            and column.ordered
            and isinstance(column.levels[0], str)
        ):
            frame = frame.with_columns(pl.col(name).cast(pl.Enum(column.levels)))
    return frame
