"""The private side's reader: records from files and tables in memory, in constant memory. Not for the public side."""

from noisegate.sources.frames import read_table
from noisegate.sources.sources import open_source
from noisegate.sources.tables.tables import Source, TableSource

__all__ = ["Source", "TableSource", "open_source", "read_table"]
