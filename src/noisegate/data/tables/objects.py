"""Python objects of a pandas column to Arrow, under one type: what a cell becomes depends on that cell alone.

Arrow would infer one type from all cells together: a date among moments makes midnights of them all, so one record
would change the others (docs/guarantees.md, G-06). Here cells of different Python types are refused instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

_INT64 = np.iinfo(np.int64)
_AWARE = "datetime with a time zone"


class MixedObjects(Exception):  # noqa: N818 - not an error for users; the caller turns it into one
    """The cells are of several Python types, or of one that stands for no kind of column."""


def objects_to_arrow(cells: Sequence[Any]) -> pa.Array:
    """Return an array of the cells; None, NaN, pandas.NA and NaT are missing.

    Raises:
        MixedObjects: if they are not all of one known Python type. The message quotes nothing.
    """
    plain = [_plain(cell) for cell in cells]
    kinds = {_kind(cell) for cell in plain if cell is not None}
    if not kinds:
        return pa.nulls(len(plain))
    if len(kinds) > 1 or not kinds <= set(_FORMS):
        raise MixedObjects
    kind, form = _FORMS[kinds.pop()]
    return pa.array([None if cell is None else form(cell) for cell in plain], kind)


def _plain(cell: Any) -> Any:
    """Return the cell as a plain Python object, or None when it is missing."""
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
