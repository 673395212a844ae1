"""Records in a pandas, Polars or PyArrow table in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import narwhals as nw
import pyarrow as pa

from noisegate.data.objects import MixedObjects, objects_to_arrow
from noisegate.errors import DataError
from noisegate.schema.checks import TEXT_PADDING


class MemoryTable:
    """A table in memory, turned to Arrow some records at a time."""

    name = "DataFrame"
    typed = True

    def __init__(self, native: Any) -> None:
        """Take ``native`` as it is; nothing is copied.

        Raises:
            DataError: if it is no pandas, Polars or PyArrow table, or repeats a column name.
        """
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

    def columns(self) -> Mapping[int, tuple[str, pa.DataType]]:
        """Return name and type of each column; a pandas column of Python objects has the type null.

        Raises:
            DataError: if a column's type has no counterpart in Arrow.
        """
        raw = self._frame.columns
        types = [self._slice(str(name).strip(TEXT_PADDING), name, 0, 0).type for name in raw]
        return {i: (str(name).strip(TEXT_PADDING), kind) for i, (name, kind) in enumerate(zip(raw, types, strict=True))}

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Mapping[str, pa.Array]]:
        """Yield the columns called ``names``, ``rows`` records at a time.

        Raises:
            DataError: if a column mixes Python types.
        """
        for start in range(0, len(self._frame), rows):
            yield {name: self._slice(name, self._names[name], start, start + rows) for name in names}

    def place(self, row: int) -> str:
        """Return the number of the record, counted from 1."""
        return f"{self.name}, record {row + 1}"

    def _slice(self, name: str, raw: Any, start: int, stop: int) -> pa.Array:
        try:
            if raw in self._objects:
                cells = objects_to_arrow(self._frame.get_column(raw)[start:stop].to_list())
            else:
                cells = self._frame.get_column(raw)[start:stop].to_arrow()
        except (MixedObjects, pa.ArrowException, TypeError, ValueError, OverflowError):
            cells = None
        if cells is None:  # outside the handler: Arrow's message quotes the value
            raise DataError(
                f"{self.name}, column {name!r}: holds Python objects of mixed or unknown types; give it one type"
            )
        return cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
