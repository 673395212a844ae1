"""Records in a pandas, Polars or PyArrow table in memory, and records that come apart from their labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from noisegate.data.tables.objects import MixedObjects, objects_to_arrow
from noisegate.errors import DataError
from noisegate.schema.columns import TEXT_PADDING

_ALL = 2**62  # at once: the type of a column of Python objects is that of all its cells


class MemoryTable:
    """A table in memory, turned to Arrow some records at a time and never copied; see `files.Origin`.

    Raises:
        DataError: if ``native`` is no pandas, Polars or PyArrow table, or repeats a column name.
    """

    name = "DataFrame"
    typed = True

    def __init__(self, native: Any) -> None:
        try:
            self._frame: nw.DataFrame[Any] = nw.from_native(native, eager_only=True)
            self._names = {str(name).strip(TEXT_PADDING): name for name in self._frame.columns}
        except TypeError:
            raise DataError(
                f"expected a path, or a pandas, Polars or PyArrow table, found {type(native).__name__}; "
                "convert it (a lazy frame: call .collect() first)"
            ) from None
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
            return cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
        except (MixedObjects, pa.ArrowException, TypeError, ValueError, OverflowError):
            pass
        raise DataError(  # outside the handler: Arrow's message quotes the value
            f"{self.name}, column {name!r}: holds Python objects of mixed or unknown types; give it one type"
        )


def records_table(records: Any, names: Sequence[str], *, where: str = "X") -> pa.Table:
    """Return records, as they come apart from labels in scikit-learn, as an Arrow table.

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
    columns = dict(table.columns())
    absent = [name for name in names if name not in columns]
    if absent:
        raise DataError(f"{where}: there is no column {absent[0]!r}, which the schema describes; add it")
    batches = [pa.table(dict(arrays)) for arrays in table.batches(names, _ALL)]
    return pa.concat_tables(batches or [pa.table({name: pa.array([], columns[name]) for name in names})])


def with_labels(records: pa.Table, labels: Any, name: str) -> pa.Table:
    """Return ``records`` with one column more, called ``name``: the label of each, any sequence of plain values.

    Raises:
        DataError: if there is not one label for each record, or they mix types.
    """
    cells = np.asarray(labels).tolist() if not isinstance(labels, list) else labels
    if len(cells) != records.num_rows or np.ndim(labels) != 1:
        raise DataError(f"y has {len(cells)} labels for {records.num_rows} records in X; expected one for each")
    try:
        return records.append_column(name, objects_to_arrow(cells))
    except (MixedObjects, pa.ArrowException):
        pass
    raise DataError("y: labels of mixed or unknown types; give them one type, text or whole numbers")
