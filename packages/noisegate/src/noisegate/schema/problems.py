"""What may be wrong with a record or a column, in words that quote no value: whoever may show it puts it in."""

from __future__ import annotations

from typing import Any

from noisegate.schema.columns import Boolean, Categorical, Column, Continuous, Date, Datetime, Decimal, Integer, Ordinal

_EXPECTED: dict[type[Column], str] = {
    Continuous: "a number",
    Decimal: "a number",
    Integer: "a whole number",
    Date: "a date such as 2020-12-31",
    Boolean: "true or false (or yes/no, 1/0)",
}


class Problem(Exception):  # noqa: N818 - not an error for users; the caller adds the place, and makes it one
    """What is wrong with the record at ``row`` of a batch, or with all of a column.

    ``{found}`` in what it ``says`` stands for the value, which is private.
    """

    def __init__(self, row: int | None, says: str, value: Any = None) -> None:
        super().__init__()
        self.row, self.says, self.value = row, says, value


def unfit_type(column: Column, found: str) -> Problem:
    """Returns what is wrong with a column whose Arrow type, in words, cannot hold what the schema says."""
    return Problem(
        None,
        f"column {column.name!r}: expected {_expected(column)}, found a column of {found}; "
        f"convert the column, or describe it as another kind than {column.kind!r} in the schema",
    )


def unfit_cell(column: Column, row: int, value: Any) -> Problem:
    """Returns what is wrong with a cell that does not fit its column."""
    cure = "correct the data, list the value in missing_values, or describe the column as another kind in the schema"
    if isinstance(column, Categorical):
        cure = "add the level to the schema, or name one of the levels as `other`; levels must be public knowledge"
    if isinstance(column, Ordinal):
        cure = "add the level to the schema; levels must be public knowledge"
    return Problem(row, f"column {column.name!r}: expected {_expected(column)}, found {{found}}; {cure}", value)


def missing_cell(column: Column, row: int) -> Problem:
    """Returns what is wrong where the schema allows no missing value."""
    return Problem(
        row,
        f"column {column.name!r}: the value is missing, and the schema allows none here; set missing = true for this "
        "column, or fill the value in",
    )


def _expected(column: Column) -> str:
    if isinstance(column, Datetime):
        zone = "with a time zone, such as 2020-12-31T23:59:59Z" if column.aware else "such as 2020-12-31T23:59:59"
        return f"a moment {zone}"
    if isinstance(column, Ordinal | Categorical):
        return f"one of the {len(column.levels)} levels in the schema"
    return _EXPECTED[type(column)]
