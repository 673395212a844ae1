"""A private table, read once through in constant memory and handed on as encoded records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from noisegate.data.problems import check_alike, check_header, told
from noisegate.data.reading import Source
from noisegate.data.tables.files import Origin, open_origins
from noisegate.data.units import UnitLimit, check_unit_column
from noisegate.records import Rows
from noisegate.schema import Schema
from noisegate.schema.encode import Mask, encode


class TableSource(Source[Origin]):
    """Private records in a CSV or Parquet file, a folder of either, or a pandas, Polars or PyArrow table.

    Args:
        source: a path, or a table in memory. Nothing of it is read yet.
        schema: the schema that the records must fit.
        show_values: whether messages may quote private values.
        batch_rows: number of records in each batch but the last.
        units: whose record each one is, and how many of each are used; None to use all.

    Raises:
        DataError: if there is no such file, or it is no kind of table that can be read.
        OptionError: if ``batch_rows`` is not positive, or the schema describes the column of the units.
    """

    def __init__(
        self,
        source: str | Path | Any,
        schema: Schema,
        *,
        show_values: bool = False,
        batch_rows: int = 32768,
        units: UnitLimit | None = None,
    ) -> None:
        super().__init__(schema, show_values=show_values, batch_rows=batch_rows, units=units)
        self.name, self._origins = open_origins(source)

    def check(self) -> None:
        """Check names and types of the columns; no record is read.

        Raises:
            DataError: if a header cannot be read or does not fit the schema.
        """
        headers = []
        for origin in self._origins:
            columns = origin.columns()
            names = [name for name, _ in columns]
            headers.append((origin.name, names))
            if self._units is not None:
                check_unit_column(self._units.column, columns, origin.name)
                names = [name for name in names if name != self._units.column]
            check_header(names, self.schema, origin.name, show_names=origin.typed or self._show_values)
            empty = {name: pa.array([], kind.value_type if pt.is_dictionary(kind) else kind) for name, kind in columns}
            told(partial(encode, empty, self.schema), origin, show_values=False)
        check_alike(headers, show_names=True)  # each is in the schema by now: described, ignored, or the unit column

    def _pieces(self, origin: Origin) -> Iterator[tuple[Mapping[str, pa.Array], int, pa.Array | None]]:
        unit = () if self._units is None else (self._units.column,)
        for arrays in origin.batches((*self.schema.names, *unit), self.batch_rows):
            yield arrays, len(next(iter(arrays.values()))), arrays[unit[0]] if unit else None

    def _encoded(self, piece: Mapping[str, pa.Array], used: Mask | None, origin: Origin, done: int) -> Rows:
        records = told(partial(encode, piece, self.schema), origin, done, show_values=self._show_values)
        return records if used is None or used.all() else records.rows(used)
