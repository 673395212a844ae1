"""How an encoded table is laid out: numeric columns as positions in [0, 1], all others as codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.errors import SchemaError
from noisegate.schema.columns import CodedColumn, Column, NumericColumn

Rows: TypeAlias = slice | Sequence[int] | npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Which column of a schema stands where in an encoded table.

    Attributes:
        numeric: the columns of ``EncodedTable.numeric``, in schema order.
        coded: the columns of ``EncodedTable.codes``, in schema order.
        label: index into ``coded`` of the label, or None without a label or with a numeric one.
    """

    numeric: tuple[NumericColumn, ...]
    coded: tuple[CodedColumn, ...]
    label: int | None = None

    def column(self, name: str) -> Column:
        """Return the column called ``name``.

        Raises:
            SchemaError: if there is none.
        """
        found = self._by_name.get(name)
        if found is None:
            raise SchemaError(f"no column {name!r} in the schema; its columns are {listed(tuple(self._by_name))}")
        return found

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in (*self.numeric, *self.coded)}


def listed(names: Sequence[str], most: int = 100) -> str:
    """Return the names for a message, the first ``most`` of them: images have a column for each pixel."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """Records as numbers.

    Attributes:
        numeric: float64, records x numeric columns; (value - lower) / (upper - lower), NaN where missing.
        codes: int32, records x coded columns; position among the levels, ``size - 1`` where missing.
    """

    numeric: npt.NDArray[np.float64]
    codes: npt.NDArray[np.int32]

    def __post_init__(self) -> None:
        if self.numeric.ndim != 2 or self.codes.ndim != 2 or len(self.numeric) != len(self.codes):
            raise ValueError(f"expected two tables of equal length, found {self.numeric.shape} and {self.codes.shape}")
        if self.numeric.dtype != np.float64 or self.codes.dtype != np.int32:
            raise ValueError(f"expected float64 and int32, found {self.numeric.dtype} and {self.codes.dtype}")

    def __len__(self) -> int:
        return len(self.numeric)

    def rows(self, rows: Rows) -> EncodedTable:
        """Return the records at ``rows``: a slice, a list of positions or a mask."""
        return EncodedTable(self.numeric[rows], self.codes[rows])

    @staticmethod
    def concatenate(tables: Sequence[EncodedTable]) -> EncodedTable:
        """Return one table with the records of all ``tables``, of which there is at least one."""
        return EncodedTable(
            np.concatenate([table.numeric for table in tables]), np.concatenate([table.codes for table in tables])
        )
