"""Columns of Python objects, arrays of NumPy and torch, and lists to Arrow: a cell depends on that cell alone (G-06).

Arrow would infer one type from all cells together: a date among moments makes midnights of them all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from noisegate.errors import DataError

_KINDS = "biufM"
_INT64 = np.iinfo(np.int64)
_AWARE = "datetime with a time zone"


class MixedObjects(Exception):  # noqa: N818 - not an error for users; the caller turns it into one
    """The cells are of several Python types, or of one that stands for no kind of column."""


def objects_to_arrow(cells: Sequence[Any]) -> pa.Array:
    """Returns the cells, None, NaN, pandas.NA and NaT missing; MixedObjects, quoting none, if not of one type."""
    plain = [_plain(cell) for cell in cells]
    kinds = {_kind(cell) for cell in plain if cell is not None}
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


def _kind(cell: Any) -> Any:
    return _AWARE if type(cell) is datetime and cell.tzinfo is not None else type(cell)


def _same(cell: Any) -> Any:
    return cell


_FORMS: dict[Any, tuple[pa.DataType, Callable[[Any], Any]]] = {
    str: (pa.string(), _same),
    bool: (pa.bool_(), _same),
    int: (pa.int64(), lambda cell: min(max(cell, int(_INT64.min)), int(_INT64.max))),
    float: (pa.float64(), _same),
    Decimal: (pa.string(), str),  # text, which is parsed cell by cell: Arrow's decimals share one scale
    date: (pa.date32(), _same),
    datetime: (pa.timestamp("us"), _same),
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
        raise DataError(
            f"array of shape {data.shape}: its columns have no names here; convert it, with data = "
            "pandas.DataFrame(data, columns=[...])"
        )
    if data.ndim != 2 or data.shape[1] != len(names):
        raise DataError(
            f"array of shape {data.shape}: expected (records, {len(names)}), one column for each of the schema in its "
            "order, the label included; numpy.column_stack((X, y)) puts a label behind the others"
        )
    return {name: data[:, place] for place, name in enumerate(names)}


def plain_array(data: Any) -> Any:
    """Returns a tensor of torch as an array of NumPy, and anything else as it is."""
    torch = sys.modules.get("torch")
    return data.detach().cpu().numpy() if torch is not None and isinstance(data, torch.Tensor) else data


def table_of_arrays(columns: Mapping[str, Any]) -> pa.Table:
    """Returns columns that may be arrays, lists or Series as an Arrow table; a `DataError` names one that is none."""
    made = {name: to_arrow(name, cells) for name, cells in columns.items()}
    lengths = {name: len(cells) for name, cells in made.items()}
    short = min(lengths, key=lambda name: lengths[name], default="")
    if len(set(lengths.values())) > 1:
        raise DataError(f"column {short!r}: is shorter than another; give each column a cell for every record")
    return pa.table(made)


def to_arrow(name: str, cells: Any) -> pa.Array | pa.ChunkedArray:
    """Returns an array, a list or a Series as Arrow; a `DataError` calls it the column ``name``."""
    cells = plain_array(cells)
    try:
        if isinstance(cells, pa.Array | pa.ChunkedArray):
            return cells
        if isinstance(cells, list | tuple) or getattr(getattr(cells, "dtype", None), "kind", "") == "O":
            return objects_to_arrow(list(cells))
        if isinstance(cells, np.ndarray) and cells.ndim == 1:
            if cells.dtype.kind == "U":
                return objects_to_arrow(cells.tolist())
            if cells.dtype.kind in _KINDS:
                return pa.array(cells if cells.dtype.isnative else cells.astype(cells.dtype.newbyteorder("=")))
        elif hasattr(cells, "to_frame"):
            import narwhals as nw

            return nw.from_native(cells, series_only=True).to_arrow()
    except (MixedObjects, pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    raise DataError(  # outside the handler: Arrow's message quotes the value
        f"column {name!r}: is a {type(cells).__name__} of mixed or unknown types, or of several axes; give a list or "
        "an array of one axis and one type, numbers, text, truth values or dates"
    )
