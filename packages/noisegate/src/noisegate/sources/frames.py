"""Whole tables in memory: reading one from files, or from whatever holds one."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from noisegate.errors import DataError
from noisegate.schema import EncodedTable, Schema, decode
from noisegate.sources.headers import check_alike, check_once
from noisegate.sources.sources import open_source
from noisegate.sources.tables.memory import (
    MixedObjects,
    objects_to_arrow,
    table_in_memory,
)
from noisegate.sources.tables.tables import Origin, open_origins


def read_table(
    path: Any, schema: Schema | None = None, *, show_values: bool = False
) -> pa.Table:
    """Reads all records of files, or of a table in memory; a DataError if they cannot be read or do not fit."""
    # With a schema, the table has its columns and types, and values outside the bounds are moved to the bound; with one
    # of images, the path may also hold images. Without one, it has the columns of the files, as text where the files
    # are CSV.
    if schema is not None:
        source = open_source(path, schema, show_values=show_values)
        return decode(EncodedTable.concatenate(list(source.batches())), schema)
    tables: list[pa.Table] = []
    where, origins = open_origins(path)
    check_alike(
        [(origin.name, [name for name, _ in origin.columns()]) for origin in origins],
        show_names=True,
    )
    for origin in origins:
        columns = [name for name, _ in origin.columns()]
        check_once(columns, origin.name, show_names=origin.typed)
        # A table in memory at once: the type of a column of Python objects is that of all its cells.
        columns = tables[0].column_names if tables else columns
        tables.append(
            _whole(origin, columns, 1 << 16 if isinstance(path, str | Path) else 2**62)
        )
    if any(table.schema != tables[0].schema for table in tables):
        raise DataError(
            f"{where}: the files have different columns or types; make them consistent"
        )
    return pa.concat_tables(tables)


def read_linked(data: Any, schema: Any) -> dict[str, pa.Table]:
    """Reads all tables, of a folder or by name, with the files' columns; a DataError if one is lacking or broken."""
    return {name: read_table(part) for name, part in schema.parts(data).items()}


def _whole(origin: Origin, names: Sequence[str], rows: int) -> pa.Table:
    batches = [
        pa.table(dict(arrays)).select(names) for arrays in origin.batches(names, rows)
    ]
    kinds = dict(origin.columns())
    return pa.concat_tables(
        batches or [pa.table({name: pa.array([], kinds[name]) for name in names})]
    )


def records_table(records: Any, names: Sequence[str], *, where: str = "X") -> pa.Table:
    """Returns a table in memory, or an array with a column for each of ``names``, as Arrow; messages say ``where``."""
    if isinstance(records, np.ndarray | list | tuple):
        array = np.asarray(records)
        if array.ndim != 2 or array.shape[1] != len(names):
            raise DataError(
                f"{where}: an array of shape {array.shape}, expected (records, {len(names)}): one column for each of "
                "the schema but the label, in its order"
            )
        return pa.table(
            {name: np.ascontiguousarray(array[:, j]) for j, name in enumerate(names)}
        )
    table = table_in_memory(records)
    columns = dict(table.columns())
    absent = [name for name in names if name not in columns]
    if absent:
        raise DataError(
            f"{where}: there is no column {absent[0]!r}, which the schema describes; add it"
        )
    return _whole(
        table, names, 2**62
    )  # at once: the type of a column of Python objects is that of all its cells


def with_labels(records: pa.Table, labels: Any, name: str) -> pa.Table:
    """Returns ``records`` with one column more, called ``name``: the label of each, any sequence of plain values."""
    cells = np.asarray(labels).tolist() if not isinstance(labels, list) else labels
    if len(cells) != records.num_rows or np.ndim(labels) != 1:
        raise DataError(
            f"y has {len(cells)} labels for {records.num_rows} records in X; expected one for each"
        )
    with suppress(MixedObjects, pa.ArrowException):
        return records.append_column(name, objects_to_arrow(cells))
    raise DataError(
        "y: labels of mixed or unknown types; give them one type, text or whole numbers"
    )
