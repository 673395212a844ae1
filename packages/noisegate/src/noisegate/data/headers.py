"""Names of columns that do not fit the schema, or each other; a message quotes none that may be a private record."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

from noisegate.errors import DataError
from noisegate.schema import Schema

_MARKS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def check_header(found: Sequence[str], schema: Schema, name: str, *, show_names: bool) -> None:
    """Requires the columns that the schema describes, each once, and no others than those it ignores.

    Without ``show_names``, unknown names are quoted only if some is known: a first line may be a private record.
    """
    # Sets and counts: a table of pixels has thousands of columns.
    known, seen = set(schema.names) | set(schema.ignore), Counter(found)
    if not any(column in seen for column in schema.names) and not show_names:
        # Names of the schema behind another mark are public; then the line is a header and no record.
        if len(found) == 1 and any(not set(schema.names).isdisjoint(found[0].split(mark)) for mark in _MARKS):
            check_titles(found, name)
        raise DataError(
            f"{name}: none of the {len(found)} field{'s' * (len(found) != 1)} of the first line is a column of the "
            f"schema; expected a first line with the names {', '.join(schema.names)}, separated by commas"
        )
    repeated = sorted(column for column, times in seen.items() if times > 1 and column not in schema.ignore)
    if repeated:
        raise DataError(f"{name}: more than one column is called {repeated[0]!r}; rename or remove all but one")
    absent = [column for column in schema.names if column not in seen]
    extra = [column for column in found if column not in known]
    if absent:
        near = difflib.get_close_matches(absent[0], extra, n=1)
        raise DataError(
            f"{name}: column {', '.join(map(repr, absent))} of the schema is not in the data"
            f"{f' (is it the one called {near[0]!r}?)' if near else ''}; "
            "add it to the data, or remove it from the schema"
        )
    check_titles(found if "" in extra else extra, name)
    if extra:
        quoted = ", ".join('"' + column.replace("\\", "\\\\").replace('"', '\\"') + '"' for column in extra)
        raise DataError(
            f"{name}: column {', '.join(map(repr, extra))} is not in the schema; describe it there, or set "
            f"ignore = [{quoted}] at the top of the schema"
        )


def check_titles(found: Sequence[str], name: str) -> None:
    """Requires that every column has a name, and that they are told apart by commas."""
    other = next((words for mark, words in _MARKS.items() if len(found) == 1 and mark in found[0]), None)
    if other is not None:
        raise DataError(f"{name}: the first line has {other} between its fields; save the file with commas")
    if "" in found:
        raise DataError(
            f"{name}: column {list(found).index('') + 1} has no name; remove it (pandas: write with index=False)"
        )


def check_alike(headers: Sequence[tuple[str, Sequence[str]]], *, show_names: bool) -> None:
    """Requires the same columns in all files, in any order; quotes none without ``show_names``, as above."""
    first, expected = headers[0]
    for name, found in headers[1:]:
        for here, columns, there, others in ((name, found, first, expected), (first, expected, name, found)):
            known = set(others)
            place = next((place for place, column in enumerate(columns) if column not in known), None)
            if place is not None:
                shown = repr(columns[place]) if show_names else f"number {place + 1}"
                raise DataError(
                    f"{name}: the files of a folder are read as one table, and column {shown} of {here} is not in "
                    f"{there}; make the files alike, or move away the one that does not belong there"
                )
