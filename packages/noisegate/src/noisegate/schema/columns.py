"""Every kind of column, its form in files, its row on a card, and what data do wrong.

A *form* is what a schema file holds: a dict of plain values, here the kind and the
fields of a column without its name::

    [columns.age]           Integer(name="age", lower=0, upper=120)
    kind = "integer"    ⇄
    lower = 0               {"kind": "integer", "lower": 0, "upper": 120}
    upper = 120

The last part of the file words what is wrong with data that do not fit their column.
The value itself is private, so a message holds `{found}` in its place; whoever reads
the data fills that in, with the value only where the user asked for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, TypeAlias

from noisegate.cards import ResultCard, Sheet
from noisegate.errors import SchemaError, choices
from noisegate.schema.kinds.bounded import RealColumn
from noisegate.schema.kinds.coded import CodedColumn
from noisegate.schema.kinds.registry import COLUMN_KINDS
from noisegate.schema.kinds.stepped import SteppedColumn

NumericColumn: TypeAlias = RealColumn | SteppedColumn
"""Any kind of column that is encoded as a position in [0, 1]; see
`noisegate.schema.layout`.
"""

Column: TypeAlias = NumericColumn | CodedColumn
"""Any kind of column."""

CARD_HEADINGS = ("column", "kind", "range", "missing", "role")
"""Headings of the rows that `card_row` returns."""


def column_form(column: Column) -> dict[str, Any]:
    """Returns the form of a column: its kind and fields, without its name.

    Fields at their default are left out; tuples become lists.
    """
    form: dict[str, Any] = {"kind": column.kind}
    for field in fields(column):
        value = getattr(column, field.name)
        is_at_default = field.default is not MISSING and value == field.default
        if field.name == "name" or is_at_default:
            continue
        if isinstance(value, tuple):
            form[field.name] = [column.form_value(item) for item in value]
        else:
            form[field.name] = column.form_value(value)
    return form


def column_from_form(name: str, form: Any) -> Column:
    """Creates a column from its form, as `column_form` returns it.

    Args:
        name: Name of the column.
        form: The kind and the fields, as read from a file.

    Raises:
        SchemaError: if it is no mapping, its kind or a key is unknown, a required key
            is missing, or a value is unusable.
    """
    if not isinstance(form, Mapping):
        raise SchemaError(
            f"column {name!r}: expected a table with a kind, found {form!r}; write "
            "kind = ... under it"
        )
    kind = form.get("kind")
    if kind is None:
        raise SchemaError(
            f"column {name!r}: kind is missing; choose one of {', '.join(COLUMN_KINDS)}"
        )
    if not isinstance(kind, str) or kind not in COLUMN_KINDS:
        raise SchemaError(
            f"column {name!r}: unknown kind {kind!r}; choose one of "
            f"{choices(kind, COLUMN_KINDS)}, or install the package that adds it"
        )

    column_class: Any = COLUMN_KINDS[kind]
    known_fields = [field for field in fields(column_class) if field.name != "name"]
    known_keys = [field.name for field in known_fields]
    check_keys(form, ["kind", *known_keys], f"column {name!r} ({kind})")
    missing_keys = [
        field.name
        for field in known_fields
        if field.default is MISSING and field.name not in form
    ]
    if missing_keys:
        raise SchemaError(
            f"column {name!r} ({kind}): {' and '.join(missing_keys)} missing; add what "
            "is publicly known"
        )
    values = {key: value for key, value in form.items() if key != "kind"}
    column: Column = column_class(name=name, **values)
    return column


def check_keys(form: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
    """Checks that every key of a form is allowed.

    Args:
        form: A form of a column, or of another part of a schema.
        allowed: Names of the allowed keys.
        where: Where the form stands, for the message.

    Raises:
        SchemaError: for the first key that is not allowed, with the one that was
            probably meant.
    """
    names = list(allowed)
    for key in form:
        if key not in names:
            raise SchemaError(
                f"{where}: unknown key {key!r}; the allowed keys are "
                f"{choices(key, names)}"
            )


def card_row(
    column: Column, label: str | None, weights: str | None = None
) -> list[str]:
    """Returns the row of a column on a card, under `CARD_HEADINGS`.

    Args:
        column: The column.
        label: Name of the schema's label, or None.
        weights: Name of its column of survey weights, or None.

    Examples:
        >>> from noisegate.schema import Integer
        >>> card_row(Integer(name="age", lower=0, upper=120, missing=True), "age")
        ['age', 'integer', '0 to 120', 'allowed', 'label']
    """
    roles = {label: "label", weights: "survey weights"}
    return [
        column.name,
        column.kind,
        column.range_text,
        "allowed" if column.missing else "no",
        roles.get(column.name, ""),
    ]


def columns_card(
    columns: Sequence[Column],
    label: str | None,
    constraints: Sequence[object],
    relations: Sequence[object] = (),
    *,
    weights: str | None = None,
) -> ResultCard:
    """Returns the card of a table's schema.

    Args:
        columns: The columns, in order.
        label: Name of the label, or None.
        constraints: The constraints; each is shown as its text.
        relations: The relations; each is shown as its text.
        weights: Name of the column of survey weights, or None.
    """
    rows = [card_row(column, label, weights) for column in columns]
    title = f"Schema: {len(rows):,} columns"
    sheets = [Sheet(title=f"{len(rows):,} columns", headings=CARD_HEADINGS, rows=rows)]
    if label is not None:
        title += f", label {label!r}"
    for kind, rules in (("relations", relations), ("constraints", constraints)):
        if not rules:
            continue
        counted = f"{len(rules):,} {kind}"
        title += f", {counted}"
        sheet = Sheet(
            title=counted,
            headings=["what holds in every record"],
            rows=[[str(rule)] for rule in rules],
        )
        sheets.append(sheet)

    facts = {}
    for column in columns:
        missing = ", may be missing" if column.missing else ""
        facts[column.name] = f"{column.kind}, {column.range_text}{missing}"
    return ResultCard(title=title, facts=facts, sheets=sheets)


class Problem(Exception):  # noqa: N818 - for callers, who make an error of it
    """A cell, or a column, of the data that does not fit the schema.

    It is no error for users yet: the caller adds the file, and the line of the record.

    Attributes:
        row: Index of the record in its batch; None if the column as such is wrong.
        message: What is wrong, and the cure. `{found}` in it stands for `value`.
        value: The private value that does not fit; None if there is none to show.
    """

    def __init__(self, row: int | None, message: str, value: Any = None) -> None:
        super().__init__()
        self.row = row
        self.message = message
        self.value = value


def unfit_type(column: Column, found_type: str) -> Problem:
    """Words the problem of a column whose Arrow type holds no values of its kind.

    Args:
        column: The column as the schema describes it.
        found_type: The Arrow type in words, as `describe_type` returns it.
    """
    return Problem(
        None,
        f"column {column.name!r}: expected {column.expected_value}, found a column "
        f"of {found_type}; convert the column, or describe it as another kind than "
        f"{column.kind!r} in the schema, or put it under `ignore`",
    )


def unfit_cell(column: Column, row: int, value: Any) -> Problem:
    """Words the problem of a cell that does not fit its column.

    Args:
        column: The column as the schema describes it.
        row: Index of the record in its batch.
        value: The cell, which is private.
    """
    return Problem(
        row,
        f"column {column.name!r}: expected {column.expected_value}, found {{found}}; "
        f"{column.cell_cure}",
        value,
    )


def missing_cell(column: Column, row: int) -> Problem:
    """Words the problem of a missing value where the schema allows none.

    Args:
        column: The column as the schema describes it.
        row: Index of the record in its batch.
    """
    message = (
        f"column {column.name!r}: the value is missing, and the schema allows none; "
        "set missing = true or fill it in"
    )
    return Problem(row, message)
