"""Whole tables in memory, for public files and for evaluation."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from noisegate.errors import DataError
from noisegate.schema import Categorical, EncodedTable, Schema, decode
from noisegate.schema.columns import Column
from noisegate.sources.headers import check_same_columns, check_unique_names
from noisegate.sources.sources import open_source
from noisegate.sources.tables.csv_file import NO_LAYOUT, TextLayout
from noisegate.sources.tables.memory import (
    MixedObjects,
    objects_to_arrow,
    table_in_memory,
)
from noisegate.sources.tables.tables import Origin, open_origins

# Records of a file that are converted at a time.
_FILE_BATCH_ROWS = 1 << 16
# The type of a column of Python objects is that of all its cells, so a table in memory
# is taken at once.
_ALL_ROWS = 2**62


def read_table(
    path: Any,
    schema: Schema | None = None,
    *,
    show_values: bool = False,
    layout: TextLayout = NO_LAYOUT,
) -> pa.Table:
    """Reads all records of files, or of a table in memory.

    Args:
        path: A path, or a table in memory; with a schema of images, also images.
        schema: What the records fit; None to read them as they are.
        show_values: Whether messages may quote values.
        layout: How text files are written, where there is no schema that says so.

    Returns:
        With a schema, a table with its columns and types, in which values beyond the
        bounds are moved to them. Without one, the columns of the files, as text where
        the files are CSV.

    Raises:
        DataError: if the records cannot be read, or do not fit.
    """
    if schema is not None:
        source = open_source(path, schema, show_values=show_values)
        return decode(EncodedTable.concatenate(list(source.batches())), schema)
    name, origins = open_origins(path, layout=layout)
    headers = [
        (origin.name, [column for column, _ in origin.columns()]) for origin in origins
    ]
    check_same_columns(headers, show_names=True)
    for origin, (file, columns) in zip(origins, headers, strict=True):
        check_unique_names(columns, file, show_names=origin.has_types)
    batch_rows = _FILE_BATCH_ROWS if isinstance(path, str | Path) else _ALL_ROWS
    # All files in the order of the first.
    _, first_columns = headers[0]
    tables = [_read_origin(origin, first_columns, batch_rows) for origin in origins]
    if any(table.schema != tables[0].schema for table in tables):
        raise DataError(
            f"{name}: the files have different columns or types; make them consistent"
        )
    return pa.concat_tables(tables)


def read_known_records(
    path: Any, schema: Schema, *, show_values: bool = False
) -> tuple[pa.Table, int]:
    """Reads the records whose levels a schema knows, as `read_table` does.

    Real records for an evaluation may have a level that nobody saw before them.

    Args:
        path: A path, or a table in memory.
        schema: What the records fit, but for unknown levels.
        show_values: Whether messages may quote values.

    Returns:
        The records with known levels alone; and how many others there are.

    Raises:
        DataError: if the records cannot be read, or none has known levels alone.
    """
    widened = [_with_unknown_level(column, schema) for column in schema.columns]
    source = open_source(
        path, replace(schema, columns=tuple(widened)), show_values=show_values
    )
    records = EncodedTable.concatenate(list(source.batches()))
    codes = records.codes.copy()
    is_known = np.ones(len(records), dtype=np.bool_)
    for index, column in enumerate(schema.layout.coded):
        unknown_code = len(column.levels)
        has_unknown_level = source.schema.layout.coded[index].levels != column.levels
        if has_unknown_level:
            is_known &= codes[:, index] != unknown_code
            # Behind it, a missing value has one code less without that level.
            codes[:, index] -= codes[:, index] > unknown_code
    if not is_known.any():
        raise DataError(f"{path}: no record has levels of the schema alone")
    known_records = EncodedTable(records.numeric, codes).rows(is_known)
    return decode(known_records, schema), int((~is_known).sum())


def _with_unknown_level(column: Column, schema: Schema) -> Column:
    """Returns a column with a further level, which stands for all unknown ones.

    Columns that have such a level, truth values and columns of relations stay as they
    are.
    """
    if column.numeric or column.is_truth_value:
        return column
    has_other = getattr(column, "other", None) is not None
    if has_other or column.name in schema.related_names:
        return column
    unknown: str | int = "\x00unknown"
    if isinstance(column.levels[0], int):
        unknown = max(column.levels) + 1
    return Categorical(
        name=column.name,
        levels=(*column.levels, unknown),
        missing=column.missing,
        other=unknown,
    )


def read_linked(data: Any, schema: Any) -> dict[str, pa.Table]:
    """Reads all tables of a linked schema.

    Args:
        data: A folder, or a mapping from their names.
        schema: A `LinkedSchema`.

    Returns:
        Each table with the columns of its files, by its name.

    Raises:
        DataError: if one is lacking or broken.
    """
    layouts = {table.name: TextLayout.of(table.schema) for table in schema.tables}
    return {
        name: read_table(part, layout=layouts[name])
        for name, part in schema.parts(data).items()
    }


def _read_origin(origin: Origin, names: Sequence[str], batch_rows: int) -> pa.Table:
    """Reads some columns of an origin into memory.

    Args:
        origin: A file, or a table in memory.
        names: The columns, in the order of the result.
        batch_rows: How many records are read at a time.
    """
    batches = [
        pa.table(dict(columns)).select(names)
        for columns in origin.batches(names, batch_rows)
    ]
    if not batches:
        # Without records, the types are those of the header.
        types = dict(origin.columns())
        batches = [pa.table({name: pa.array([], types[name]) for name in names})]
    return pa.concat_tables(batches)


def records_table(records: Any, names: Sequence[str], *, where: str = "X") -> pa.Table:
    """Converts records without labels to a table of Arrow.

    Args:
        records: A table in memory, or an array (records, columns).
        names: The columns; of an array, in its order.
        where: What messages call the records: the argument of the user's call.

    Raises:
        DataError: if a column is lacking.
    """
    if isinstance(records, np.ndarray | list | tuple):
        array = np.asarray(records)
        if array.ndim != 2 or array.shape[1] != len(names):
            raise DataError(
                f"{where}: an array of shape {array.shape}, expected (records, "
                f"{len(names)}): one column for each of the schema but the label, in "
                "its order"
            )
        return pa.table(
            {
                name: np.ascontiguousarray(array[:, index])
                for index, name in enumerate(names)
            }
        )
    table = table_in_memory(records)
    present = dict(table.columns())
    for name in names:
        if name not in present:
            raise DataError(
                f"{where}: there is no column {name!r}, which the schema describes; "
                "add it"
            )
    return _read_origin(table, names, _ALL_ROWS)


def with_labels(records: pa.Table, labels: Any, name: str) -> pa.Table:
    """Appends a column of labels.

    Args:
        records: The table.
        labels: The label of each record, a sequence of plain values.
        name: The name of the new column.

    Raises:
        DataError: if there are more or fewer labels than records, or they have
            several types.
    """
    cells = labels if isinstance(labels, list) else np.asarray(labels).tolist()
    if len(cells) != records.num_rows or np.ndim(labels) != 1:
        raise DataError(
            f"y has {len(cells)} labels for {records.num_rows} records in X; expected "
            "one for each"
        )
    with suppress(MixedObjects, pa.ArrowException):
        return records.append_column(name, objects_to_arrow(cells))
    raise DataError(
        "y: labels of mixed or unknown types; give them one type, text or whole numbers"
    )
