"""Checks the names of columns against a schema, and against each other.

A first line that does not fit may be a private record, in a file without header. So a
message quotes a name of the data only if some name of the schema stands in the same
line, or if the caller allows it.
"""

import difflib
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence

from noisegate.errors import DataError
from noisegate.schema import Schema

TITLE_CURE = (
    "if the first line is a title, remove what stands above the names of the columns"
)
"""The cure for a file whose names of columns do not stand in its first line."""

_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def check_header(
    columns: Sequence[str], schema: Schema, name: str, *, show_names: bool
) -> None:
    """Requires the columns that the schema describes, each once, and no others.

    Columns that the schema ignores may be there, more than once too.

    Args:
        columns: The names in the data, in their order.
        schema: What is expected.
        name: Of the file, for messages.
        show_names: Whether names of the data may be quoted even where none of them is
            in the schema.

    Raises:
        DataError: that says what is wrong, and its cure.
    """
    # Sets and counts: a table of pixels has thousands of columns.
    present = set(columns)
    is_known_header = any(column in present for column in schema.names)
    if not is_known_header and not show_names:
        _refuse_unknown_header(columns, schema, name)
    check_once(columns, name, but=schema.ignore)
    described = set(schema.names) | set(schema.ignore)
    absent = [column for column in schema.names if column not in present]
    extra = [column for column in columns if column not in described]
    if absent:
        _refuse_absent(absent, extra, name)
    # An empty name is reported by its position among all columns.
    check_titles(columns if "" in extra else extra, name)
    if extra:
        quoted = ", ".join(_toml_string(column) for column in extra)
        raise DataError(
            f"{name}: column {', '.join(map(repr, extra))} is not in the schema; "
            f"describe it there, or set ignore = [{quoted}] at the top of the schema"
        )


def _refuse_unknown_header(columns: Sequence[str], schema: Schema, name: str) -> None:
    """Refuses a first line without any name of the schema; quotes nothing of it."""
    # If names of the schema stand behind another separator, the line is a header, and
    # its separator may be named.
    if len(columns) == 1:
        expected = set(schema.names)
        for separator in _SEPARATORS:
            if not expected.isdisjoint(columns[0].split(separator)):
                check_titles(columns, name)
    fields = "1 field" if len(columns) == 1 else f"{len(columns)} fields"
    raise DataError(
        f"{name}: none of the {fields} of the first line is a column of the schema; "
        f"expected a first line with the names {', '.join(schema.names)}, separated by "
        f"commas; {TITLE_CURE}"
    )


def _refuse_absent(absent: list[str], extra: list[str], name: str) -> None:
    """Refuses a header without some columns of the schema; names one that is similar.

    Args:
        absent: The columns that are not there; not empty.
        extra: The columns that the schema does not describe.
        name: Of the file.
    """
    equivalent = [column for column in extra if _nfc(column) == _nfc(absent[0])]
    if equivalent:
        hint = (
            " (one that looks the same has accents as letters of their own, as on a "
            "Mac)"
        )
        cure = "copy the name from the data into the schema"
    else:
        similar = difflib.get_close_matches(absent[0], extra, n=1)
        hint = f" (is it the one called {similar[0]!r}?)" if similar else ""
        cure = "add it to the data"
    raise DataError(
        f"{name}: column {', '.join(map(repr, absent))} of the schema is not in the "
        f"data{hint}; {cure}, or remove it from the schema"
    )


def _nfc(name: str) -> str:
    """Returns a name with each accent composed with its letter."""
    return unicodedata.normalize("NFC", name)


def _toml_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def check_titles(columns: Sequence[str], name: str) -> None:
    """Requires that every column has a name, and that commas separate them.

    Args:
        columns: Names, all or those that the schema does not know.
        name: Of the file, for messages.

    Raises:
        DataError: for another separator, a title above the names, or an empty name.
    """
    if len(columns) == 1:
        for separator, words in _SEPARATORS.items():
            if separator in columns[0]:
                raise DataError(
                    f"{name}: the first line has {words} between its fields; save the "
                    "file with commas"
                )
    if len(columns) > 1 and columns[0] and not any(columns[1:]):
        raise DataError(
            f"{name}: only the first field of the first line has a text: {TITLE_CURE}"
        )
    if "" in columns:
        raise DataError(
            f"{name}: column {list(columns).index('') + 1} has no name; remove it "
            "(pandas: write with index=False)"
        )


def check_once(
    columns: Sequence[str],
    name: str,
    *,
    but: Collection[str] = (),
    show_names: bool = True,
) -> None:
    """Requires that no two columns have one name.

    Args:
        columns: The names in the data, in their order.
        name: Of the file, for messages.
        but: Names that may be there more than once.
        show_names: Whether the repeated name may be quoted.
    """
    for column, times in Counter(columns).items():
        if times == 1 or column in but:
            continue
        positions = [
            str(position)
            for position, other in enumerate(columns, start=1)
            if other == column
        ]
        if show_names:
            repeated = f"are all called {column!r}"
        else:
            repeated = "have the same name"
        raise DataError(
            f"{name}: columns {' and '.join(positions)} {repeated}; rename or remove "
            "all but one"
        )


def check_same_columns(
    headers: Sequence[tuple[str, Sequence[str]]], *, show_names: bool
) -> None:
    """Requires that all files of a folder have the same columns, in any order.

    Args:
        headers: The name of each file, with the names of its columns.
        show_names: Whether a name that differs may be quoted.
    """
    first_file, first_columns = headers[0]
    for file, columns in headers[1:]:
        for here, names, there, others in (
            (file, columns, first_file, first_columns),
            (first_file, first_columns, file, columns),
        ):
            position = _first_unshared(names, others)
            if position is None:
                continue
            if show_names:
                shown = repr(names[position])
            else:
                shown = f"number {position + 1}"
            raise DataError(
                f"{file}: the files of a folder are read as one table, and column "
                f"{shown} of {here} is not in {there}; make the files consistent, or "
                "move away the one that does not belong there"
            )


def _first_unshared(names: Sequence[str], others: Collection[str]) -> int | None:
    """Returns the index of the first name that is not among `others`."""
    known = set(others)
    for index, name in enumerate(names):
        if name not in known:
            return index
    return None
