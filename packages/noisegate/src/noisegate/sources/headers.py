"""Names of columns that do not fit the schema, or each other; a message quotes none that may be a private record."""

import difflib
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence

from noisegate.errors import DataError
from noisegate.schema import Schema

A_TITLE = (
    "if the first line is a title, remove what stands above the names of the columns"
)
_MARKS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def check_header(
    found: Sequence[str], schema: Schema, name: str, *, show_names: bool
) -> None:
    """Requires the columns that the schema describes, each once, and no others than those it ignores."""
    # Without ``show_names``, unknown names are quoted only if some is known: a first line may be a private record.
    # Sets and counts: a table of pixels has thousands of columns.
    known, seen = set(schema.names) | set(schema.ignore), set(found)
    if not any(column in seen for column in schema.names) and not show_names:
        # Names of the schema behind another mark are public; then the line is a header and no record.
        if len(found) == 1 and any(
            not set(schema.names).isdisjoint(found[0].split(mark)) for mark in _MARKS
        ):
            check_titles(found, name)
        raise DataError(
            f"{name}: none of the {len(found)} field{'s' * (len(found) != 1)} of the first line is a column of the "
            f"schema; expected a first line with the names {', '.join(schema.names)}, separated by commas; "
            f"{A_TITLE}"
        )
    check_once(found, name, but=schema.ignore)
    absent = [column for column in schema.names if column not in seen]
    extra = [column for column in found if column not in known]
    if absent:
        alike = [
            column for column in extra if _composed(column) == _composed(absent[0])
        ]
        near = alike or difflib.get_close_matches(absent[0], extra, n=1)
        hint = f" (is it the one called {near[0]!r}?)" if near else ""
        hint = (
            " (one that looks the same has accents as letters of their own, as on a Mac)"
            if alike
            else hint
        )
        cure = (
            "copy the name from the data into the schema"
            if alike
            else "add it to the data"
        )
        note = f"{cure}, or remove it from the schema"
        raise DataError(
            f"{name}: column {', '.join(map(repr, absent))} of the schema is not in the data{hint}; {note}"
        )
    check_titles(found if "" in extra else extra, name)
    if extra:
        quoted = ", ".join(
            '"' + column.replace("\\", "\\\\").replace('"', '\\"') + '"'
            for column in extra
        )
        note = f"describe it there, or set ignore = [{quoted}] at the top of the schema"
        raise DataError(
            f"{name}: column {', '.join(map(repr, extra))} is not in the schema; {note}"
        )


def check_titles(found: Sequence[str], name: str) -> None:
    """Requires that every column has a name, and that they are told apart by commas."""
    other = next(
        (
            words
            for mark, words in _MARKS.items()
            if len(found) == 1 and mark in found[0]
        ),
        None,
    )
    if other is not None:
        raise DataError(
            f"{name}: the first line has {other} between its fields; save the file with commas"
        )
    if len(found) > 1 and found[0] and not any(found[1:]):
        raise DataError(
            f"{name}: only the first field of the first line has a text: {A_TITLE}"
        )
    if "" in found:
        cure = "remove it (pandas: write with index=False)"
        raise DataError(
            f"{name}: column {list(found).index('') + 1} has no name; {cure}"
        )


def check_once(
    found: Sequence[str],
    name: str,
    *,
    but: Collection[str] = (),
    show_names: bool = True,
) -> None:
    """Requires that no name but those of columns to ignore is there twice; quotes it with ``show_names``, as above."""
    twice = next(
        (
            column
            for column, times in Counter(found).items()
            if times > 1 and column not in but
        ),
        None,
    )
    if twice is not None:
        places = [
            str(place) for place, column in enumerate(found, start=1) if column == twice
        ]
        called = f"are all called {twice!r}" if show_names else "have the same name"
        raise DataError(
            f"{name}: columns {' and '.join(places)} {called}; rename or remove all but one"
        )


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def check_alike(
    headers: Sequence[tuple[str, Sequence[str]]], *, show_names: bool
) -> None:
    """Requires the same columns in all files, in any order; quotes none without ``show_names``, as above."""
    first, expected = headers[0]
    for name, found in headers[1:]:
        for here, columns, there, others in (
            (name, found, first, expected),
            (first, expected, name, found),
        ):
            known = set(others)
            place = next(
                (place for place, column in enumerate(columns) if column not in known),
                None,
            )
            if place is not None:
                shown = repr(columns[place]) if show_names else f"number {place + 1}"
                raise DataError(
                    f"{name}: the files of a folder are read as one table, and column {shown} of {here} is not in "
                    f"{there}; make the files consistent, or move away the one that does not belong there"
                )
