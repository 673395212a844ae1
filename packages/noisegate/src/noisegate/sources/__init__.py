"""Private records: read from files, frames and stores, in constant memory.

A source is opened with a schema, and read from the start as often as the gate has
rounds. It passes on encoded batches, and what it makes of a record follows from that
record alone (G-06)::

    path or table in memory ──► origins ──► raw batches ──► encoded batches
                                                 │
                                                 └─► so many records of each unit

Nothing that comes after a release can import this room (`.importlinter`).

- `sources`: `open_source` and `open_records`, by the kind of the schema.
- `tables.tables`: `Source`, what every source can do, and `TableSource`.
- `tables.csv_file`, `tables.parts`, `tables.memory`: a CSV file, a Parquet file, a
  table in memory; and parts of files for workers.
- `headers`: names of columns that do not fit the schema.
- `units`: which records of a unit are used.
- `linked`, `families`, `spill`: linked tables, their families in bounded memory.
- `stores`: files on a disk or in an object store.
- `frames`: whole tables in memory, of public files and for evaluation.
- `overlap`: whether public data are the private data.
- `split`: test records, held out before anything else.
"""

from noisegate.sources.frames import read_table
from noisegate.sources.sources import open_source
from noisegate.sources.tables.tables import Source, TableSource

__all__ = ["Source", "TableSource", "open_source", "read_table"]
