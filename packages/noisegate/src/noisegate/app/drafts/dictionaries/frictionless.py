"""Frictionless Table Schema, as JSON.

https://specs.frictionlessdata.io/table-schema/ and its second version,
https://datapackage.org/standard/table-schema/
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from noisegate.app.drafts.dictionaries.dictionary import Dictionary
from noisegate.app.drafts.dictionaries.variable import (
    DECIMAL_COMMA,
    FREE_TEXT,
    IDENTIFIER,
    Variable,
)
from noisegate.app.drafts.drafted import vocabulary

_KINDS: dict[str, str] = vocabulary("frictionless_types")

# Formats of dates that are read without being stated.
_ISO_FORMATS = ("default", "any", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S")


def read_table_schema(schema: Mapping[str, Any]) -> Dictionary:
    """Reads a table schema.

    Args:
        schema: The object with `fields`, as JSON.

    Raises:
        KeyError, TypeError or AttributeError: if a part is missing or of another type.

    Examples:
        >>> from noisegate.app.drafts.dictionaries.frictionless import read_table_schema
        >>> field = {"name": "age", "type": "integer", "constraints": {"minimum": 18}}
        >>> read_table_schema({"fields": [field]}).entries[0].form
        {'kind': 'integer', 'lower': 18, 'upper': Ellipsis, 'missing': True}
    """
    keys = names_of_keys(schema.get("primaryKey", schema.get("primaryKeys", ())))
    missing_values = [
        value.get("value", "") if isinstance(value, Mapping) else value
        for value in schema.get("missingValues", [""])
    ]
    return Dictionary(
        kind="Frictionless Table Schema",
        variables=tuple(
            _variable_of_field(field, keys)
            for field in schema["fields"]
            if isinstance(field, Mapping) and field.get("name")
        ),
        missing_values=tuple(str(value) for value in missing_values),
    )


def names_of_keys(keys: Any) -> set[Any]:
    """Returns the columns of a key that is one name or a list of names."""
    return {keys} if isinstance(keys, str) else set(keys)


def foreign_format_reason(text_format: Any) -> str:
    """Returns why a column of dates in a format of their own is ignored."""
    return (
        f"days of the format {text_format} are not read; write them as 2020-12-31 in "
        "the data"
    )


def _variable_of_field(field: Mapping[str, Any], keys: Collection[Any]) -> Variable:
    """Returns the variable that a field describes.

    A field is ignored if it is a key or all its values differ, if it is text without
    listed values, or if its values are written in a way that is not read.

    Args:
        field: The field, with a name.
        keys: The columns of the table's key.
    """
    name = str(field["name"])
    description = str(field.get("title") or field.get("description") or "")
    field_type = str(field.get("type", "string"))
    rules = field.get("constraints") or {}
    missing = not rules["required"] if "required" in rules else None
    if field["name"] in keys or rules.get("unique"):
        return Variable(
            name=name,
            kind=None,
            description=description,
            missing=missing,
            ignored_reason=IDENTIFIER,
        )

    levels = _levels(field.get("categories") or rules.get("enum") or ())
    if levels and field_type in ("string", "integer", "any"):
        is_ordered = field.get("categoriesOrdered")
        return Variable(
            name=name,
            kind="ordinal" if is_ordered else "categorical",
            description=description,
            levels=levels,
            missing=missing,
        )
    unread_reason = _unread_reason(field, field_type)
    if unread_reason is not None:
        return Variable(
            name=name,
            kind=None,
            description=description,
            missing=missing,
            ignored_reason=unread_reason,
        )
    return Variable(
        name=name,
        kind=_KINDS[field_type],
        description=description,
        lower=rules.get("minimum"),
        upper=rules.get("maximum"),
        missing=missing,
    )


def _levels(values: Any) -> list[tuple[str, str]]:
    """Returns codes with their meanings, or "".

    Args:
        values: A list of values, or of objects with `value` and `label`.
    """
    levels = []
    for value in values:
        if isinstance(value, Mapping):
            levels.append((str(value.get("value")), str(value.get("label", ""))))
        else:
            levels.append((str(value), ""))
    return levels


def _unread_reason(field: Mapping[str, Any], field_type: str) -> str | None:
    """Returns why a field without levels cannot be used; None if it can."""
    if field_type == "string":
        return FREE_TEXT
    if field_type not in _KINDS:
        return f"a field of type {field_type}, which has no kind in a schema"
    if field.get("decimalChar", ".") != "." or field.get("groupChar"):
        return DECIMAL_COMMA
    text_format = field.get("format", "default")
    if field_type in ("date", "datetime") and text_format not in _ISO_FORMATS:
        return foreign_format_reason(text_format)
    return None
