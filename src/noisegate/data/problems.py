"""Messages about private data: they name the column, the place and the cure, and quote a value only when asked to."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from noisegate.errors import DataError
from noisegate.schema import Boolean, Categorical, Column, Continuous, Date, Datetime, Integer, Ordinal, Schema
from noisegate.schema.encode import CellProblem, TypeProblem

NOT_SHOWN = "not shown; use --show-values (in Python: show_values=True) to see it"

_EXPECTED: dict[type[Column], str] = {
    Continuous: "a number",
    Integer: "a whole number",
    Date: "a date such as 2020-12-31",
    Boolean: "true or false (or yes/no, 1/0)",
}


class Problem(Exception):  # noqa: N818 - not an error for users; `tables.told` adds the place, and makes it one
    """What is wrong with the record at ``row`` of a batch, or with all of a column.

    ``{found}`` in what it ``says`` stands for the value, which is private.
    """

    def __init__(self, row: int | None, says: str, value: Any = None) -> None:
        super().__init__()
        self.row, self.says, self.value = row, says, value


def text_of(problem: CellProblem | TypeProblem | Problem, *, show_values: bool) -> tuple[int | None, str]:
    """Return the position in the batch, None for the whole column, and what is wrong there."""
    row, value = getattr(problem, "row", None), getattr(problem, "value", None)
    if isinstance(problem, Problem):
        says = problem.says
    elif isinstance(problem, CellProblem):
        says = _of_cell(problem)
    else:
        column = problem.column
        says = (
            f"column {column.name!r}: expected {_expected(column)}, found a column of {problem.found}; "
            f"convert the column, or describe it as another kind than {column.kind!r} in the schema"
        )
    return row, says.replace("{found}", repr(value) if show_values else f"another value ({NOT_SHOWN})")


def check_header(found: Sequence[str], schema: Schema, name: str, *, show_names: bool) -> None:
    """Require the columns that the schema describes, each once, and no others than those it ignores.

    Without ``show_names``, unknown names are quoted only if some column is known: the first line of a text file
    without a header is a private record.
    """
    # Sets and counts: a table of pixels has thousands of columns.
    known, seen = set(schema.names) | set(schema.ignore), Counter(found)
    if not any(column in seen for column in schema.names) and not show_names:
        raise DataError(
            f"{name}: none of the {len(found)} fields of the first line is a column of the schema; "
            f"expected a first line with the names {', '.join(schema.names)}, separated by commas"
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
    """Require that every column has a name."""
    if "" in found:
        raise DataError(
            f"{name}: column {list(found).index('') + 1} has no name; remove it (pandas: write with index=False)"
        )


def check_alike(headers: Sequence[tuple[str, Sequence[str]]], *, show_names: bool) -> None:
    """Require the same columns in all files, given by their names and columns, in any order.

    Without ``show_names`` no column is quoted: the first line of a text without a header is a record.
    """
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


def _of_cell(problem: CellProblem) -> str:
    column = problem.column
    where = f"column {column.name!r}"
    if problem.missing:
        return (
            f"{where}: the value is missing, and the schema allows none here; set missing = true for this column, "
            "or fill the value in"
        )
    return f"{where}: expected {_expected(column)}, found {{found}}; {_cure(column)}"


def _expected(column: Column) -> str:
    if isinstance(column, Datetime):
        zone = "with a time zone, such as 2020-12-31T23:59:59Z" if column.aware else "such as 2020-12-31T23:59:59"
        return f"a moment {zone}"
    if isinstance(column, Ordinal | Categorical):
        return f"one of the {len(column.levels)} levels in the schema"
    return _EXPECTED[type(column)]


def _cure(column: Column) -> str:
    if column.kind == "categorical":
        return "add the level to the schema, or name one of the levels as `other`; levels must be public knowledge"
    if column.kind == "ordinal":
        return "add the level to the schema; levels must be public knowledge"
    return "correct the data, list the value in missing_values, or describe the column as another kind in the schema"
