"""A file of public facts about a private table to fill in: the names of its columns, and no record."""

from __future__ import annotations

import re
from pathlib import Path

from noisegate.data.tables.raw import RawTable
from noisegate.errors import DataError, SchemaError
from noisegate.schema.partial import KINDS, OPEN_KIND
from noisegate.schema.toml import write_toml

_NO_NAME = re.compile(r"[+-]?[0-9.,:/ -]+")


def columns_file(path: str | Path, *, label: str | None = None) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return the text of the file, all names, and those whose kind is to be filled in; only headers are read.

    The types of a Parquet file say kinds, as in a discovery. The first line of a text file must hold names: one that
    looks like a record is refused, and nothing of it is shown.
    """
    table = RawTable(path)
    names, known = table.names, table.suggested_kinds()
    if not known and any(_NO_NAME.fullmatch(name) for name in names):
        raise DataError(
            f"{table.name}: a field of the first line is a number, as in a record, and not a name; write the names of "
            "the columns into the first line"
        )
    if label is not None and label not in names:
        raise SchemaError(f"label {label!r} is not a column of {table.name}: {', '.join(names)}")
    unknown = tuple(name for name in names if name not in known)
    head = (
        f"# The columns of {table.name}. Their names are taken as public; no record was read.\n"
        f"# Fill in each kind, one of: {', '.join(KINDS)}.\n"
        "# What is publicly known of bounds (lower, upper) and levels saves budget, as in\n"
        '# age = { kind = "integer", lower = 0, upper = 120 }.\n\n'
    )
    top = write_toml({"label": label}) + "\n" if label is not None else ""
    lines = write_toml({name: {"kind": known.get(name, OPEN_KIND)} for name in names})
    return f"{head}{top}[columns]\n{lines}", names, unknown
