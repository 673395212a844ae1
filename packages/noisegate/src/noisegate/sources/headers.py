"""Checks the names of columns against a schema, and against each other.

A first line that does not fit may be a private record, in a file without header. So a
message quotes a name of the data only if some name of the schema stands in the same
line, or if the caller allows it.
"""

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from noisegate.errors import DataError
from noisegate.schema import Schema
from noisegate.schema.checks import TEXT_PADDING
from noisegate.schema.parsing import is_text, parse_floats

TITLE_CURE = (
    "if the first line is a title, remove what stands above the names of the columns"
)
"""The cure for a file whose names of columns do not stand in its first line."""

Header: TypeAlias = tuple[str, Sequence[str]]
"""The name of a file, and the names of its columns in their order."""

VALUE_PATTERN = re.compile(
    r"[+-]?[0-9.,:/ -]+|[+-]?[0-9]*[.,]?[0-9]+e[+-]?[0-9]+|\d{4}-\d{2}-\d{2}[T ].*"
    r"|\S+@\S+\.\S+|true|false|null|n/a|nan",
    re.IGNORECASE,
)
"""Texts that are values and no names of columns: numbers, times, addresses, and words
for a value."""

# Names of columns for a day each, as 2020-01-31 and 1/31/20.
_DAY = re.compile(r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}")
# Numbers that are names: the years of a table with a column for each.
_NAMED_YEARS = range(1800, 2201)
# So many equally spaced numbers, as 0, 1, 2, are names too. Two days may be those of an
# admission and a discharge.
_MIN_NAMED_NUMBERS = 3
# A name is a value of its column if so many of the cells are of its kind.
_MIN_CELLS_OF_KIND = 0.9
SEPARATOR_NAMES = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
"""What may stand between two fields, in words."""

# What some programs write between fields in place of commas.
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def check_header(
    columns: Sequence[str], schema: Schema, file: str, *, show_names: bool
) -> None:
    """Requires the columns that the schema describes, each once, and no others.

    Columns that the schema ignores may be there, more than once too.

    Args:
        columns: The names in the data, in their order.
        schema: What is expected.
        file: What messages call the data.
        show_names: Whether names of the data may be quoted even where none of them is
            in the schema.

    Raises:
        DataError: that says what is wrong, and its cure.
    """
    # Sets, since a table of pixels has thousands of columns.
    present = set(columns)
    is_known_header = any(column in present for column in schema.names)
    if not is_known_header and not show_names:
        _refuse_unknown_header(columns, schema, file)
    check_unique_names(columns, file, may_repeat=schema.ignore)
    described = set(schema.names) | set(schema.ignore)
    absent = [column for column in schema.names if column not in present]
    extra = [column for column in columns if column not in described]
    if absent:
        _refuse_absent(absent, extra, file)
    # An empty name is reported by its position among all columns.
    unexpected = columns if "" in extra else extra
    check_first_line(unexpected, file)
    if extra:
        quoted = ", ".join(_toml_string(column) for column in extra)
        raise DataError(
            f"{file}: column {', '.join(map(repr, extra))} is not in the schema; "
            f"describe it there, or set ignore = [{quoted}] at the top of the schema"
        )


def _refuse_unknown_header(columns: Sequence[str], schema: Schema, file: str) -> None:
    """Refuses a first line without any name of the schema; quotes nothing of it.

    Args:
        columns: The fields of the first line, none of which is in the schema.
        schema: What is expected.
        file: What messages call the data.

    Raises:
        DataError: always.
    """
    # If names of the schema stand behind another separator, the line is a header, and
    # its separator may be named.
    if len(columns) == 1:
        expected = set(schema.names)
        for separator in _SEPARATORS:
            if not expected.isdisjoint(columns[0].split(separator)):
                check_first_line(columns, file)
    field_count = "1 field" if len(columns) == 1 else f"{len(columns)} fields"
    raise DataError(
        f"{file}: none of the {field_count} of the first line is a column of the "
        f"schema; expected a first line with the names {', '.join(schema.names)}, separated by "
        f"commas; {TITLE_CURE}"
    )


def _refuse_absent(absent: list[str], extra: list[str], file: str) -> None:
    """Refuses a header without some columns of the schema; names one that is similar.

    Args:
        absent: The columns that are not there; not empty.
        extra: The columns that the schema does not describe.
        file: What messages call the data.

    Raises:
        DataError: always.
    """
    looks_the_same = any(
        _compose_accents(column) == _compose_accents(absent[0]) for column in extra
    )
    if looks_the_same:
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
        f"{file}: column {', '.join(map(repr, absent))} of the schema is not in the "
        f"data{hint}; {cure}, or remove it from the schema"
    )


def _compose_accents(name: str) -> str:
    """Returns a name with each accent composed with its letter (Unicode's NFC)."""
    return unicodedata.normalize("NFC", name)


def _toml_string(text: str) -> str:
    """Returns a text as TOML writes it, in quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def check_first_line(columns: Sequence[str], file: str) -> None:
    """Requires that a first line holds names of columns, with commas between them.

    Args:
        columns: The fields of the line, all or those that the schema does not know.
        file: What messages call the data.

    Raises:
        DataError: for another separator, a title above the names, or an empty name.
    """
    if len(columns) == 1:
        for separator, separator_name in _SEPARATORS.items():
            if separator in columns[0]:
                raise DataError(
                    f"{file}: the first line has {separator_name} between its fields; "
                    "save the file with commas"
                )
    is_title = len(columns) > 1 and columns[0] and not any(columns[1:])
    if is_title:
        raise DataError(
            f"{file}: only the first field of the first line has a text: {TITLE_CURE}"
        )
    if "" in columns:
        raise DataError(
            f"{file}: column {list(columns).index('') + 1} has no name; remove it "
            "(pandas: write with index=False)"
        )


def record_values(cells_by_name: Mapping[str, pa.Array]) -> list[str]:
    """Returns the names of columns that look like values of a record.

    A text file without a header has its first record there. Then some names are also
    values of their columns, or numbers in columns of numbers, or codes like those below
    them. Numbers and days in a row, such as a column for each year, are names.

    Args:
        cells_by_name: The cells below the first line, text, by the fields of that line.

    Returns:
        The names that look so, in order; empty for a header.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate.sources.headers import record_values
        >>> cars = {"audi": pa.array(["bmw", "audi"]), "88.6": pa.array(["99", "75.5"])}
        >>> record_values(cars)
        ['audi', '88.6']
        >>> record_values({"make": cars["audi"], "2020": cars["88.6"]})
        []
    """
    numbers = [name for name in cells_by_name if VALUE_PATTERN.fullmatch(name)]
    has_words = len(numbers) < len(cells_by_name)
    may_be_names = _are_in_a_row(numbers, has_words=has_words)
    return [
        name
        for name, cells in cells_by_name.items()
        if is_text(cells.type)
        and not (may_be_names and name in numbers)
        and _is_value_among(name, cells)
    ]


def _are_in_a_row(names: Sequence[str], *, has_words: bool) -> bool:
    """Returns whether numbers or days are the names of a row of columns.

    Args:
        names: The names that are numbers, days or the like, in order.
        has_words: Whether there are other names beside them.
    """
    if len(names) >= _MIN_NAMED_NUMBERS and all(map(_DAY.fullmatch, names)):
        return True
    if not all(re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", name) for name in names):
        return False
    numbers = [float(name) for name in names]
    is_ascending = numbers == sorted(set(numbers))
    are_years = all(number in _NAMED_YEARS for number in numbers)
    if are_years and (has_words or len(names) >= _MIN_NAMED_NUMBERS):
        return is_ascending
    distances = {round(after - before, 9) for before, after in pairwise(numbers)}
    return len(names) >= _MIN_NAMED_NUMBERS and is_ascending and len(distances) == 1


def _is_value_among(name: str, cells: pa.Array) -> bool:
    """Returns whether a name is, or looks like, one of the values of its column.

    Args:
        name: Name of the column.
        cells: Its cells, text.
    """
    trimmed = pc.utf8_trim(cells.cast(pa.string()), TEXT_PADDING)
    values = trimmed.unique().drop_null()
    values = values.filter(pc.not_equal(values, ""))
    # Cells of the name alone mark what was chosen, as in answers of a questionnaire.
    are_marks = values.to_pylist() in ([], [name])
    if are_marks:
        return False
    if pc.index(values, name).as_py() >= 0:
        return True
    if VALUE_PATTERN.fullmatch(name):
        is_number = not parse_floats(pa.array([name])).is_bad[0]
        if is_number:
            return bool((~parse_floats(values).is_bad).mean() >= _MIN_CELLS_OF_KIND)
        return _share_of_shape(name, values) >= _MIN_CELLS_OF_KIND
    is_code = re.search("[0-9]", name) is not None and len(name) > 2
    return is_code and _share_of_shape(name, values) >= _MIN_CELLS_OF_KIND


def _share_of_shape(name: str, values: pa.Array) -> float:
    """Returns the fraction of texts with the letters, digits and marks of a name.

    J45 has the shape of K12, and 02/01/2020 that of 31/12/2019.
    """
    shapes = pc.replace_substring_regex(values, "[0-9]", "0")
    shapes = pc.replace_substring_regex(shapes, "[A-Za-z]", "a")
    shape = re.sub("[A-Za-z]", "a", re.sub("[0-9]", "0", name))
    return float(pc.mean(pc.equal(shapes, shape).cast(pa.float64())).as_py())


def check_unique_names(
    columns: Sequence[str],
    file: str,
    *,
    may_repeat: Collection[str] = (),
    show_names: bool = True,
) -> None:
    """Requires that no two columns have the same name.

    Args:
        columns: The names in the data, in their order.
        file: What messages call the data.
        may_repeat: Names that may be there more than once.
        show_names: Whether the repeated name may be quoted.

    Raises:
        DataError: for the first name that is there more than once.
    """
    for column, count in Counter(columns).items():
        if count == 1 or column in may_repeat:
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
            f"{file}: columns {' and '.join(positions)} {repeated}; rename or remove "
            "all but one"
        )


def check_same_columns(headers: Sequence[Header], *, show_names: bool) -> None:
    """Requires that all files of a folder have the same columns, in any order.

    Each file is compared with the first one, both ways.

    Args:
        headers: The header of each file; at least one.
        show_names: Whether a name that differs may be quoted; if not, the position of
            the column is given.

    Raises:
        DataError: for the first file that differs.
    """
    first_header = headers[0]
    for header in headers[1:]:
        difference = _describe_unshared(header, first_header, show_names=show_names)
        if difference is None:
            difference = _describe_unshared(first_header, header, show_names=show_names)
        if difference is not None:
            file, _ = header
            raise DataError(
                f"{file}: the files of a folder are read as one table, and "
                f"{difference}; make the files consistent, or move away the one that "
                "does not belong there"
            )


def _describe_unshared(
    header: Header, other_header: Header, *, show_names: bool
) -> str | None:
    """Returns words for the first column of a file that another file lacks.

    Args:
        header: The header of the file.
        other_header: That of the other file.
        show_names: Whether the name of the column may be quoted.

    Returns:
        Such as "column 'age' of a.csv is not in b.csv"; None if all are in both.
    """
    file, columns = header
    other_file, other_columns = other_header
    present = set(other_columns)
    for position, column in enumerate(columns, start=1):
        if column not in present:
            shown_column = repr(column) if show_names else f"number {position}"
            return f"column {shown_column} of {file} is not in {other_file}"
    return None
