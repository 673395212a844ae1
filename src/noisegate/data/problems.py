"""Messages about private data: they name the column, the place and the cure, and quote a value only when asked to."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

from noisegate.data.encode import CellProblem, TypeProblem
from noisegate.errors import DataError
from noisegate.schema import Boolean, Column, Continuous, Date, Datetime, Integer, Schema

_NOT_SHOWN = "not shown; use --show-values (in Python: show_values=True) to see it"


def cell_error(problem: CellProblem, place: str, *, show_values: bool) -> DataError:
    """Return the error for one cell; ``place`` says where it is, such as ``adult.csv, line 7``."""
    column, where = problem.column, f"{place}, column {problem.column.name!r}"
    if problem.missing:
        return DataError(
            f"{where}: the value is missing, and the schema allows none here; set missing = true for this column, "
            "or fill the value in"
        )
    found = repr(problem.value) if show_values else f"another value ({_NOT_SHOWN})"
    return DataError(f"{where}: expected {_expected(column)}, found {found}; {_cure(column)}")


def type_error(problem: TypeProblem, name: str) -> DataError:
    """Return the error for a column of the wrong type in the data called ``name``."""
    column = problem.column
    return DataError(
        f"{name}, column {column.name!r}: expected {_expected(column)}, found a column of {problem.found}; "
        f"convert the column, or describe it as another kind than {column.kind!r} in the schema"
    )


def check_header(found: Sequence[str], schema: Schema, name: str, *, show_names: bool) -> None:
    """Require the columns that the schema describes, each once, and no others than those it ignores.

    Without ``show_names``, unknown names are quoted only if some column is known: the first line of a text file
    without a header is a private record.

    Raises:
        DataError: naming the columns that are missing, repeated or unknown.
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
        raise DataError(
            f"{name}: column {_quoted(absent)} of the schema is not in the data{_near(absent[0], extra)}; "
            "add it to the data, or remove it from the schema"
        )
    if extra and "" in extra:
        raise DataError(
            f"{name}: column {list(found).index('') + 1} has no name; remove it (pandas: write with index=False)"
        )
    if extra:
        raise DataError(
            f"{name}: column {_quoted(extra)} is not in the schema; describe it there, or set "
            f"ignore = [{', '.join(map(_toml_quoted, extra))}] at the top of the schema"
        )


def _expected(column: Column) -> str:
    if isinstance(column, Continuous):
        return "a number"
    if isinstance(column, Integer):
        return "a whole number"
    if isinstance(column, Date):
        return "a date such as 2020-12-31"
    if isinstance(column, Datetime):
        zone = "with a time zone, such as 2020-12-31T23:59:59Z" if column.aware else "such as 2020-12-31T23:59:59"
        return f"a moment {zone}"
    if isinstance(column, Boolean):
        return "true or false (or yes/no, 1/0)"
    return f"one of the {len(column.levels)} levels in the schema"


def _cure(column: Column) -> str:
    if column.kind == "categorical":
        return "add the level to the schema, or name one of the levels as `other`; levels must be public knowledge"
    if column.kind == "ordinal":
        return "add the level to the schema; levels must be public knowledge"
    return "correct the data, list the value in missing_values, or describe the column as another kind in the schema"


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _toml_quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _near(name: str, others: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, others, n=1)
    return f" (is it the one called {near[0]!r}?)" if near else ""
