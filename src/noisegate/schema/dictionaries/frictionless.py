"""Frictionless Table Schemas and data packages.

https://specs.frictionlessdata.io/table-schema/ and https://datapackage.org/standard/table-schema/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from noisegate.schema.dictionaries.variable import FREE_TEXT, IDENTIFIER, Variable

_KINDS = {
    "integer": "integer",
    "year": "integer",
    "number": "continuous",
    "boolean": "boolean",
    "date": "date",
    "datetime": "datetime",
}


def read_table_schema(form: Mapping[str, Any]) -> tuple[list[Variable], tuple[str, ...]]:
    """Return the variables of a table schema, and the text that stands for a missing value."""
    keys = form.get("primaryKey", form.get("primaryKeys", ()))
    keys = {keys} if isinstance(keys, str) else set(keys)
    tokens = [one.get("value", "") if isinstance(one, Mapping) else one for one in form.get("missingValues", [""])]
    variables = [_variable(field, keys) for field in form["fields"] if isinstance(field, Mapping) and field.get("name")]
    return variables, tuple(str(token) for token in tokens)


def _variable(field: Mapping[str, Any], keys: Iterable[str]) -> Variable:
    rules, kind = field.get("constraints") or {}, str(field.get("type", "string"))
    said: dict[str, Any] = {
        "name": str(field["name"]),
        "about": str(field.get("title") or field.get("description") or ""),
        "missing": not rules.get("required", False),
    }
    if field["name"] in keys or rules.get("unique"):
        return Variable(kind=None, ignored=IDENTIFIER, **said)
    levels = _levels(field.get("categories") or rules.get("enum") or ())
    if levels and kind in ("string", "integer", "any"):
        return Variable(kind="ordinal" if field.get("categoriesOrdered") else "categorical", levels=levels, **said)
    reason = _unread(field, kind)
    if reason is not None:
        return Variable(kind=None, ignored=reason, **said)
    return Variable(kind=_KINDS[kind], lower=rules.get("minimum"), upper=rules.get("maximum"), **said)


def _unread(field: Mapping[str, Any], kind: str) -> str | None:
    """Return why a field cannot be described, or None."""
    if kind == "string":
        return FREE_TEXT
    if kind not in _KINDS:
        return f"a field of type {kind}, which has no kind in a schema"
    if field.get("decimalChar", ".") != "." or field.get("groupChar"):
        return "numbers with a comma are not read; write them with a point"
    form = field.get("format", "default")
    if kind in ("date", "datetime") and form not in ("default", "any", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"):
        return f"days of the format {form} are not read; write them as 2020-12-31 in the data"
    return None


def _levels(values: Iterable[Any]) -> list[tuple[str, str]]:
    """Return codes with their meanings, of plain values or of objects with value and label."""
    pairs = [(one.get("value"), one.get("label", "")) if isinstance(one, Mapping) else (one, "") for one in values]
    return [(str(code), str(label)) for code, label in pairs]
