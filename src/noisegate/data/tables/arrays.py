"""Columns as arrays: NumPy's, those of torch, and lists; each to Arrow by its own type, which no value decides.

A cell of a list has its Python type, and a list of several is refused, as in a pandas column of objects
(`noisegate.data.tables.objects`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from noisegate.data.tables.objects import MixedObjects, objects_to_arrow
from noisegate.errors import DataError

_KINDS = "biufM"


def columns_of(data: Any, names: Sequence[str] | None) -> dict[str, Any] | None:
    """Return the columns of a dict, of a structured array, or of an array of two axes whose columns are ``names``.

    None where it is nothing of this.
    """
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
    """Return a tensor of torch as an array of NumPy, and anything else as it is."""
    torch = sys.modules.get("torch")
    return data.detach().cpu().numpy() if torch is not None and isinstance(data, torch.Tensor) else data


def table_of_arrays(columns: Mapping[str, Any]) -> pa.Table:
    """Return columns, which may be arrays, lists or Series, as an Arrow table; a `DataError` names one that is none."""
    made = {name: to_arrow(name, cells) for name, cells in columns.items()}
    lengths = {name: len(cells) for name, cells in made.items()}
    short = min(lengths, key=lambda name: lengths[name], default="")
    if len(set(lengths.values())) > 1:
        raise DataError(f"column {short!r}: is shorter than another; give each column a cell for every record")
    return pa.table(made)


def to_arrow(name: str, cells: Any) -> pa.Array | pa.ChunkedArray:
    """Return an array, a list or a Series as Arrow; a `DataError` calls it the column ``name``."""
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
