"""Linked tables as a person has them: a folder with a file or a folder for each, or a mapping of paths and frames."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisegate.errors import DataError, choices
from noisegate.schema.linked import LinkedSchema

_ENDINGS = (".csv", ".parquet", ".pq")


def linked_paths(folder: str | Path, schema: LinkedSchema) -> dict[str, Path]:
    """Find the file or the folder of each table: visits.csv, visits.parquet, or a folder visits.

    Raises:
        DataError: if it is no folder, or there is not exactly one for a table.
    """
    place = Path(folder)
    if not place.is_dir():
        raise DataError(f"{place}: expected a folder with a file for each of the tables {', '.join(schema.names)}")
    found: dict[str, Path] = {}
    for name in schema.names:
        several = [path for path in (place / f"{name}{ending}" for ending in ("", *_ENDINGS)) if path.exists()]
        if len(several) != 1:
            told = " and ".join(path.name for path in several) or "no such file"
            raise DataError(f"{place}: expected one of {name}.csv, {name}.parquet or a folder {name}, found {told}")
        found[name] = several[0]
    return found


def linked_parts(data: Any, schema: LinkedSchema) -> dict[str, Any]:
    """Return what holds each table: found in a folder, or as it is given by name.

    Raises:
        DataError: if a table of the schema is not there, or one is that the schema does not know.
    """
    parts = linked_paths(data, schema) if isinstance(data, str | Path) else data
    if not isinstance(parts, Mapping):
        raise DataError(
            f"expected a folder, or a mapping from the tables {', '.join(schema.names)} to paths or tables in memory, "
            f"found {type(data).__name__}"
        )
    unknown = next((name for name in parts if name not in schema.names), None)
    if unknown is not None:
        raise DataError(f"table {unknown!r} is not in the schema, whose tables are {choices(unknown, schema.names)}")
    absent = next((name for name in schema.names if name not in parts), None)
    if absent is not None:
        raise DataError(f"no data for table {absent!r} of the schema; give its file or frame too")
    return {name: parts[name] for name in schema.names}
