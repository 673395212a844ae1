"""Tables written to CSV and Parquet in constant memory: a file appears when it is whole, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisegate.atomic import new_file
from noisegate.errors import OptionError, said

if TYPE_CHECKING:
    import pyarrow as pa

    from noisegate.schema import Schema


@contextmanager
def table_writer(out: Path, schema: Schema) -> Iterator[Callable[[pa.Table], None]]:
    """Yields a function that appends a table to the file `out`, which appears only when all is written.

    In a CSV file, missing cells are empty where the schema reads these as missing, else its first missing value.
    """
    if out.suffix not in (".csv", ".parquet"):
        raise OptionError(f"{said('out', out)}: the ending must be .csv or .parquet, not {out.suffix!r}.")
    with new_file(out) as path, ExitStack() as opened:
        writer: Any = None

        def write(rows: pa.Table) -> None:
            import pyarrow.csv as csv
            import pyarrow.parquet as parquet

            nonlocal writer
            if out.suffix == ".csv":
                rows = _spelled(rows, schema)
            make = csv.CSVWriter if out.suffix == ".csv" else parquet.ParquetWriter
            writer = writer or opened.enter_context(make(str(path), rows.schema))
            writer.write_table(rows)

        yield write


def _spelled(rows: pa.Table, schema: Schema) -> pa.Table:
    """Returns the table with its missing cells as text, where an empty cell would not be read as missing."""
    import pyarrow as pa

    if not schema.missing_values or "" in schema.missing_values:
        return rows
    for column in schema.columns:
        if column.missing:
            # The text that the CSV writer would make of the cells.
            cells = rows[column.name].cast(pa.string()).fill_null(schema.missing_values[0])
            rows = rows.set_column(rows.column_names.index(column.name), column.name, cells)
    return rows
