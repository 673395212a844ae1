"""Records and their labels, as they come apart in scikit-learn, as one Arrow table. Nothing is fitted to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from noisegate.data.memory import MemoryTable
from noisegate.data.objects import MixedObjects, objects_to_arrow
from noisegate.errors import DataError

# All at once: the type of a column of Python objects is that of all its cells.
_ROWS = 2**62


def records_table(records: Any, names: Sequence[str], *, where: str = "X") -> pa.Table:
    """Return records as an Arrow table.

    Args:
        records: a pandas, Polars or PyArrow table, or an array with one column for each of ``names``.
        names: what the columns of an array are called; of a table, which columns are taken.
        where: what messages call the records.

    Raises:
        DataError: if there is no such column, or an array has another number of columns.
    """
    if isinstance(records, np.ndarray | list | tuple):
        array = np.asarray(records)
        if array.ndim != 2 or array.shape[1] != len(names):
            raise DataError(
                f"{where}: an array of shape {array.shape}, expected (records, {len(names)}): one column for each of "
                "the schema but the label, in its order"
            )
        return pa.table({name: np.ascontiguousarray(array[:, j]) for j, name in enumerate(names)})
    table = MemoryTable(records)
    columns = dict(table.columns().values())
    absent = [name for name in names if name not in columns]
    if absent:
        raise DataError(f"{where}: there is no column {absent[0]!r}, which the schema describes; add it")
    batches = [pa.table(dict(arrays)) for arrays in table.batches(names, _ROWS)]
    return pa.concat_tables(batches or [pa.table({name: pa.array([], columns[name]) for name in names})])


def with_labels(records: pa.Table, labels: Any, name: str) -> pa.Table:
    """Return ``records`` with one column more.

    Args:
        records: an Arrow table.
        labels: the label of each record; any sequence of plain values.
        name: what the column is called.

    Raises:
        DataError: if there is not one label for each record, or they mix types.
    """
    cells = np.asarray(labels).tolist() if not isinstance(labels, list) else labels
    if len(cells) != records.num_rows or np.ndim(labels) != 1:
        raise DataError(f"y has {len(cells)} labels for {records.num_rows} records in X; expected one for each")
    try:
        column = objects_to_arrow(cells)
    except (MixedObjects, pa.ArrowException):
        column = None
    if column is None:  # outside the handler: Arrow's message quotes the value
        raise DataError("y: labels of mixed or unknown types; give them one type, text or whole numbers")
    return records.append_column(name, column)
