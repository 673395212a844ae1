"""Every kind of column that a schema may have, and the plain forms in which files hold them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, TypeAlias

from noisegate.cards import ResultCard, Sheet
from noisegate.errors import SchemaError, choices
from noisegate.schema.numeric import (
    Continuous,
    Date,
    Datetime,
    Decimal,
    Integer,
    NumericColumn,
)
from noisegate.schema.values import Boolean, Categorical, CodedColumn, Ordinal

Column: TypeAlias = NumericColumn | CodedColumn
"""Any column of a schema."""

COLUMN_KINDS: dict[str, type[Column]] = {
    kind.kind: kind
    for kind in (
        Continuous,
        Decimal,
        Integer,
        Date,
        Datetime,
        Ordinal,
        Categorical,
        Boolean,
    )
}
"""Every kind by the name that it has in a schema file."""


def column_form(column: Column) -> dict[str, Any]:
    """Returns the kind and the fields of ``column``, without its name; fields at their default are left out."""
    form: dict[str, Any] = {"kind": column.kind}
    for field in fields(column):
        value = getattr(column, field.name)
        if field.name != "name" and (
            field.default is MISSING or value != field.default
        ):
            form[field.name] = list(value) if isinstance(value, tuple) else value
    return form


def column_from_form(name: str, form: Any) -> Column:
    """Returns the column that ``form`` describes."""
    if not isinstance(form, Mapping):
        raise SchemaError(
            f"column {name!r}: expected a table with a kind, found {form!r}; write kind = ... under it"
        )
    kind = form.get("kind")
    if kind is None:
        raise SchemaError(
            f"column {name!r}: kind is missing; choose one of {', '.join(COLUMN_KINDS)}"
        )
    if not isinstance(kind, str) or kind not in COLUMN_KINDS:
        raise SchemaError(
            f"column {name!r}: unknown kind {kind!r}; choose one of {choices(kind, COLUMN_KINDS)}"
        )
    known = {
        field.name: field
        for field in fields(COLUMN_KINDS[kind])
        if field.name != "name"
    }
    check_keys(form, ["kind", *known], f"column {name!r} ({kind})")
    absent = [
        key
        for key, field in known.items()
        if field.default is MISSING and key not in form
    ]
    if absent:
        raise SchemaError(
            f"column {name!r} ({kind}): {' and '.join(absent)} missing; add what is publicly known"
        )
    return COLUMN_KINDS[kind](
        name=name, **{key: value for key, value in form.items() if key != "kind"}
    )


def check_keys(form: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
    """Requires that every key of ``form`` is allowed; a `SchemaError` names the first that is not."""
    names = list(allowed)
    for key in form:
        if key not in names:
            raise SchemaError(
                f"{where}: unknown key {key!r}; the allowed keys are {choices(key, names)}"
            )


CARD_HEADINGS = ("column", "kind", "range", "missing", "role")


def card_row(column: Column, label: str | None) -> list[str]:
    """Returns the name and kind of a column, its range, whether it may be missing, and whether it is the label."""
    if isinstance(column, Boolean | Ordinal | Categorical):
        span = f"{column.size - column.missing} levels"
    else:
        step = getattr(column, "step", None)
        span = f"{column.lower} to {column.upper}" + (
            f" by {step:g}" if step is not None else ""
        )
        span += f"; atoms {', '.join(map(str, column.atoms))}" if column.atoms else ""
    return [
        column.name,
        column.kind,
        span,
        "allowed" if column.missing else "no",
        "label" * (column.name == label),
    ]


def columns_card(
    columns: Sequence[Column], label: str | None, constraints: Sequence[Any]
) -> ResultCard:
    """Returns the card of a schema of a table."""
    rows = [card_row(column, label) for column in columns]
    sheets = [Sheet(title=f"{len(rows):,} columns", headings=CARD_HEADINGS, rows=rows)]
    title = f"Schema: {len(rows):,} columns" + (
        "" if label is None else f", label {label!r}"
    )
    if constraints:
        rules = [[str(one)] for one in constraints]
        sheets.append(
            Sheet(
                title=f"{len(rules):,} constraints",
                headings=["what records keep to"],
                rows=rules,
            )
        )
        title += f", {len(rules):,} constraints"
    missing = {"allowed": ", may be missing", "no": ""}
    facts = {name: f"{kind}, {span}{missing[may]}" for name, kind, span, may, _ in rows}
    return ResultCard(title=title, facts=facts, sheets=sheets)


_EXPECTED: dict[type[Column], str] = {
    Continuous: "a number",
    Decimal: "a number",
    Integer: "a whole number",
    Date: "a date such as 2020-12-31",
    Boolean: "true or false (or yes/no, 1/0)",
}


class Problem(Exception):  # noqa: N818 - not an error for users; the caller adds the place, and makes it one
    """What is wrong with the record at ``row`` of a batch, or a column; ``{found}`` stands for the private value."""

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
    if getattr(column, "format", "") is None:
        how = "%d.%m.%Y" if column.kind in ("date", "datetime") else "#.##0,00"
        cure = cure.replace(
            "list", f'state how it is written (such as format = "{how}"), list'
        )
    if isinstance(column, Ordinal):
        cure = "add the level to the schema; levels must be public knowledge"
    return Problem(
        row,
        f"column {column.name!r}: expected {_expected(column)}, found {{found}}; {cure}",
        value,
    )


def missing_cell(column: Column, row: int) -> Problem:
    """Returns what is wrong where the schema allows no missing value."""
    says = f"column {column.name!r}: the value is missing, and the schema allows none; set missing = true or fill it in"
    return Problem(row, says)


def _expected(column: Column) -> str:
    if isinstance(column, Datetime):
        zone = (
            "with a time zone, such as 2020-12-31T23:59:59Z"
            if column.aware
            else "such as 2020-12-31T23:59:59"
        )
        return f"a moment {zone}"
    if isinstance(column, Ordinal | Categorical):
        return f"one of the {len(column.levels)} levels in the schema"
    return _EXPECTED[type(column)]
