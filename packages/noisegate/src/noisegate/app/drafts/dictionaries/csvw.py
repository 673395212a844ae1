"""CSV on the Web metadata, as JSON, with its datatypes.

https://www.w3.org/TR/tabular-metadata/
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from noisegate.app.drafts.dictionaries.dictionary import Dictionary
from noisegate.app.drafts.dictionaries.frictionless import (
    foreign_format_reason,
    names_of_keys,
)
from noisegate.app.drafts.dictionaries.variable import (
    DECIMAL_COMMA,
    FREE_TEXT,
    IDENTIFIER,
    Variable,
)
from noisegate.app.drafts.drafted import vocabulary

_WORDS = vocabulary("csvw")
_INTEGER_TYPES: list[str] = _WORDS["integers"]
_REAL_TYPES: list[str] = _WORDS["reals"]
_DATETIME_TYPES = ("datetime", "dateTime", "dateTimeStamp")

# Names of the properties for each bound, and the bounds that a datatype implies.
_BOUND_PROPERTIES: dict[str, list[str]] = _WORDS["bounds"]
_IMPLIED_BOUNDS: dict[str, dict[str, int]] = _WORDS["implied_bounds"]

# A format that lists all values: "red|green", also in brackets or with anchors.
_ALTERNATIVES = re.compile(r"\^?\(?([\w .-]+(?:\|[\w .-]+)+)\)?\$?")


def read_csvw(table: Mapping[str, Any], metadata: Mapping[str, Any]) -> Dictionary:
    """Reads the description of one table.

    Args:
        table: The description of the table.
        metadata: The whole file, from which a table inherits what it does not state;
            the same object where the file describes a single table.

    Raises:
        KeyError, TypeError or AttributeError: if a part is missing or of another type.

    Examples:
        >>> from noisegate.app.drafts.dictionaries.csvw import read_csvw
        >>> column = {"titles": "age", "datatype": "positiveInteger"}
        >>> table = {"tableSchema": {"columns": [column]}}
        >>> read_csvw(table, table).entries[0].form
        {'kind': 'integer', 'lower': 1, 'upper': Ellipsis, 'missing': True}
    """
    schema = table.get("tableSchema", metadata.get("tableSchema"))
    columns = [
        column
        for column in schema["columns"]
        if isinstance(column, Mapping) and not column.get("virtual")
    ]
    keys = names_of_keys(schema.get("primaryKey", ()))
    inherited = {**metadata, **table}
    missing_values = [""]
    for described in (inherited, schema, *columns):
        null = described.get("null", "")
        missing_values += [null] if isinstance(null, str) else map(str, null)
    return Dictionary(
        kind="CSVW metadata",
        variables=tuple(
            _variable_of_column(column, keys, number)
            for number, column in enumerate(columns, start=1)
        ),
        missing_values=tuple(dict.fromkeys(missing_values)),
    )


def _variable_of_column(
    column: Mapping[str, Any], keys: Collection[Any], number: int
) -> Variable:
    """Returns the variable that a column description stands for.

    It is called like its title, which the heading of the data says, and only else like
    its name.

    Args:
        column: The description.
        keys: Names of the columns of the table's key.
        number: Its position in the table, from 1, which names it where nothing else
            does.
    """
    datatype = column.get("datatype", "string")
    rules: Mapping[str, Any]
    rules = datatype if isinstance(datatype, Mapping) else {"base": datatype}
    base = str(rules.get("base", "string"))
    value_format = rules.get("format")
    name = _plain_text(column.get("titles")) or str(
        column.get("name") or f"_col.{number}"
    )
    description = _plain_text(
        column.get("dc:description")
        or column.get("dc:title")
        or rules.get("dc:description")
    )
    missing = not column["required"] if "required" in column else None

    kind = None
    ignored_reason = None
    levels: list[tuple[str, str]] = []
    if column.get("name") in keys:
        ignored_reason = IDENTIFIER
    elif base in _INTEGER_TYPES or base in _REAL_TYPES:
        kind = "integer" if base in _INTEGER_TYPES else "continuous"
        ignored_reason = _number_format_reason(value_format)
    elif base == "date" or base in _DATETIME_TYPES:
        kind = "date" if base == "date" else "datetime"
        ignored_reason = _time_format_reason(value_format)
    elif base == "boolean":
        kind = "boolean"
    elif base == "string":
        levels = _alternatives(value_format)
        if levels:
            kind = "categorical"
        else:
            ignored_reason = FREE_TEXT
    else:
        ignored_reason = f"values of type {base} have no kind"
    return Variable(
        name=name,
        kind=kind,
        description=description,
        lower=_bound(rules, "lower", base),
        upper=_bound(rules, "upper", base),
        levels=levels,
        missing=missing,
        ignored_reason=ignored_reason,
    )


def _bound(rules: Mapping[str, Any], key: str, base: str) -> Any:
    """Returns a bound: the stated one, else that of the datatype, else None.

    Args:
        rules: The datatype with its properties.
        key: "lower" or "upper".
        base: Name of the datatype.
    """
    stated = [rules[name] for name in _BOUND_PROPERTIES[key] if name in rules]
    if stated and stated[0] is not None:
        return stated[0]
    return _IMPLIED_BOUNDS.get(base, {}).get(key)


def _number_format_reason(value_format: Any) -> str | None:
    """Returns why numbers in a format are ignored; None if they are not."""
    if (
        isinstance(value_format, Mapping)
        and value_format.get("decimalChar", ".") != "."
    ):
        return DECIMAL_COMMA
    return None


def _time_format_reason(value_format: Any) -> str | None:
    """Returns why dates in a format are ignored; None if they are not."""
    is_foreign = isinstance(value_format, str) and not value_format.startswith(
        "yyyy-MM-dd"
    )
    return foreign_format_reason(value_format) if is_foreign else None


def _alternatives(value_format: Any) -> list[tuple[str, str]]:
    """Returns the levels that a format lists, without meanings; empty for none."""
    match = None
    if isinstance(value_format, str):
        match = _ALTERNATIVES.fullmatch(value_format)
    if match is None:
        return []
    return [(level.strip(), "") for level in match[1].split("|")]


def _plain_text(value: Any) -> str:
    """Returns natural-language text: itself, or the first of a list or of languages."""
    while isinstance(value, Mapping | list) and value:
        value = next(iter(value.values())) if isinstance(value, Mapping) else value[0]
    return value if isinstance(value, str) else ""
