"""Encoded records as small as they can be kept: pixels as bytes, everything else as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from noisegate.schema import EncodedTable, Schema
from noisegate.schema.layout import Rows

_STEPS = 255


@dataclass(frozen=True, kw_only=True, eq=False)
class CompactRecords:
    """Records that are kept with a model.

    Attributes:
        numeric: Of images, whole intensities as uint8, (records, pixels); of tables, positions as float64.
        codes: int32, (records, coded columns).
    """

    numeric: npt.NDArray[Any]
    codes: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.numeric)

    def rows(self, rows: Rows) -> EncodedTable:
        """Returns the records at `rows`, bit for bit as they were encoded."""
        return EncodedTable(self._positions(self.numeric[rows]), self.codes[rows])

    def kept(self, rows: Rows) -> CompactRecords:
        """Returns the records at `rows`, as compact as they are here."""
        return CompactRecords(numeric=self.numeric[rows], codes=self.codes[rows])

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Returns what `from_tensors` needs, for safetensors."""
        return {"numeric": self.numeric, "codes": self.codes}

    @classmethod
    def of(cls, records: EncodedTable, schema: Schema) -> Self:
        """Returns `records`, which fit `schema`."""
        if schema.images is None:
            return cls(numeric=records.numeric, codes=records.codes)
        return cls(numeric=np.rint(records.numeric * _STEPS).astype(np.uint8), codes=records.codes)

    @classmethod
    def from_tensors(cls, schema: Schema, tensors: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Returns the records that `tensors` gave.

        Raises:
            KeyError, ValueError: if there are none, or they do not fit the schema.
        """
        layout, numeric, codes = schema.layout, tensors["numeric"], tensors["codes"]
        shapes = (len(numeric), len(layout.numeric)), (len(numeric), len(layout.coded))
        if (numeric.shape, codes.shape) != shapes or not len(numeric):
            raise ValueError(f"records of shapes {numeric.shape} and {codes.shape} do not fit the schema")
        wanted = np.dtype(np.float64 if schema.images is None else np.uint8)
        if numeric.dtype != wanted or codes.dtype != np.dtype(np.int32):
            raise ValueError(f"records of types {numeric.dtype} and {codes.dtype}")
        if schema.images is None:
            _check_positions(numeric, [column.missing for column in layout.numeric])
        if ((codes < 0) | (codes >= [column.size for column in layout.coded])).any():
            raise ValueError("a code stands for no level of its column")
        return cls(numeric=numeric, codes=codes)

    @staticmethod
    def concatenate(parts: Sequence[CompactRecords]) -> CompactRecords:
        """Returns the records of all parts, of which there is at least one."""
        return CompactRecords(
            numeric=np.concatenate([part.numeric for part in parts]),
            codes=np.concatenate([part.codes for part in parts]),
        )

    @staticmethod
    def _positions(numeric: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        return numeric / np.float64(_STEPS) if numeric.dtype == np.uint8 else numeric


def _check_positions(numeric: npt.NDArray[np.float64], missing: Sequence[bool]) -> None:
    absent = np.isnan(numeric)
    if (absent.any(axis=0) & ~np.array(missing, dtype=bool)).any():
        raise ValueError("a value is missing where the schema allows none")
    if not (absent | ((numeric >= 0) & (numeric <= 1))).all():
        raise ValueError("a number lies outside of the bounds of its column")
