"""The private side's reader: records from files and tables in memory, in constant memory. Not for the public side."""

from noisegate.data.draft import draft_schema
from noisegate.data.frames import native_form, read_table
from noisegate.data.sources import RecordSource, open_source
from noisegate.data.tables.tables import TableSource

__all__ = ["RecordSource", "TableSource", "draft_schema", "native_form", "open_source", "read_table"]
