"""Private tables: what reads one file or one table in memory, and `TableSource`."""
