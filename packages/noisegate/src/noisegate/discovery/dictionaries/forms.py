"""Data dictionaries in JSON: Frictionless Table Schemas, and metadata of CSV on the Web.

https://specs.frictionlessdata.io/table-schema/, https://datapackage.org/standard/table-schema/ and
https://www.w3.org/TR/tabular-metadata/ with its datatypes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from noisegate.discovery.dictionaries.variable import COMMA, FREE_TEXT, IDENTIFIER, Variable

_KINDS = {"integer": "integer", "year": "integer", "number": "continuous"}
_KINDS |= {kind: kind for kind in ("boolean", "date", "datetime")}
_SIGNS = {"nonNegativeInteger": {"lower": 0}, "positiveInteger": {"lower": 1}, "nonPositiveInteger": {"upper": 0}}
_WHOLE = {"integer", "int", "long", "short", "byte", "gYear", *_SIGNS}
_WHOLE |= {"unsignedInt", "unsignedLong", "unsignedShort", "unsignedByte", "negativeInteger"}
_REAL = {"decimal", "double", "float", "number", "percent"}
_ENDS = {"lower": ("minimum", "minInclusive", "minExclusive"), "upper": ("maximum", "maxInclusive", "maxExclusive")}
_ALTERNATIVES = re.compile(r"\^?\(?([\w .-]+(?:\|[\w .-]+)+)\)?\$?")


def read_table_schema(form: Mapping[str, Any]) -> tuple[list[Variable], tuple[str, ...]]:
    """Returns the variables of a table schema, and the text that stands for a missing value."""
    keys = form.get("primaryKey", form.get("primaryKeys", ()))
    keys = {keys} if isinstance(keys, str) else set(keys)
    tokens = [one.get("value", "") if isinstance(one, Mapping) else one for one in form.get("missingValues", [""])]
    variables = [_of_field(field, keys) for field in form["fields"] if isinstance(field, Mapping) and field.get("name")]
    return variables, tuple(str(token) for token in tokens)


def _of_field(field: Mapping[str, Any], keys: Iterable[str]) -> Variable:
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
    """Returns why a field cannot be described, or None."""
    if kind == "string":
        return FREE_TEXT
    if kind not in _KINDS:
        return f"a field of type {kind}, which has no kind in a schema"
    if field.get("decimalChar", ".") != "." or field.get("groupChar"):
        return COMMA
    form = field.get("format", "default")
    if kind in ("date", "datetime") and form not in ("default", "any", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"):
        return _foreign_days(form)
    return None


def _levels(values: Iterable[Any]) -> list[tuple[str, str]]:
    """Returns codes with their meanings, of plain values or of objects with value and label."""
    pairs = [(one.get("value"), one.get("label", "")) if isinstance(one, Mapping) else (one, "") for one in values]
    return [(str(code), str(label)) for code, label in pairs]


def csvw(schema: Mapping[str, Any], inherited: Mapping[str, Any]) -> tuple[list[Variable], tuple[str, ...]]:
    """Returns the variables of a table schema, and the text that stands for a missing value."""
    keys = schema.get("primaryKey", ())
    keys = {keys} if isinstance(keys, str) else set(keys)
    columns = [one for one in schema["columns"] if isinstance(one, Mapping) and not one.get("virtual")]
    tokens: list[str] = []
    for column in [inherited, schema, *columns]:
        null = column.get("null", "")
        tokens += [null] if isinstance(null, str) else null
    found = [_of_column(column, keys, place) for place, column in enumerate(columns)]
    return found, tuple(dict.fromkeys(["", *map(str, tokens)]))


def _of_column(column: Mapping[str, Any], keys: set[str], place: int) -> Variable:
    datatype = column.get("datatype", "string")
    rules: Mapping[str, Any] = datatype if isinstance(datatype, Mapping) else {"base": datatype}
    base, form = str(rules.get("base", "string")), rules.get("format")
    name = _text(column.get("titles")) or str(column.get("name") or f"_col.{place + 1}")
    about = _text(column.get("dc:description") or column.get("dc:title") or rules.get("dc:description"))
    said: dict[str, Any] = {"name": name, "about": about, "missing": not column.get("required", False)}
    if column.get("name") in keys:
        return Variable(kind=None, ignored=IDENTIFIER, **said)
    ends: dict[str, Any] = {
        key: next((rules[one] for one in ones if one in rules), None) for key, ones in _ENDS.items()
    }
    ends = {key: _SIGNS.get(base, {}).get(key) if end is None else end for key, end in ends.items()}
    if base in _WHOLE or base in _REAL:
        comma = isinstance(form, Mapping) and form.get("decimalChar", ".") != "."
        unread = COMMA if comma else None
        return Variable(kind="integer" if base in _WHOLE else "continuous", ignored=unread, **ends, **said)
    if base in ("date", "datetime", "dateTime", "dateTimeStamp"):
        foreign = isinstance(form, str) and not form.startswith("yyyy-MM-dd")
        unread = _foreign_days(form) if foreign else None
        return Variable(kind="date" if base == "date" else "datetime", ignored=unread, **ends, **said)
    if base == "boolean":
        return Variable(kind="boolean", **said)
    listed = _ALTERNATIVES.fullmatch(form) if isinstance(form, str) else None
    if base == "string" and listed:
        return Variable(kind="categorical", levels=[(level.strip(), "") for level in listed[1].split("|")], **said)
    return Variable(kind=None, ignored=FREE_TEXT if base == "string" else f"values of type {base} have no kind", **said)


def _text(value: Any) -> str:
    """Returns natural-language text: plain, the first of a list, or that of the first language."""
    while isinstance(value, Mapping | list) and value:
        value = next(iter(value.values())) if isinstance(value, Mapping) else value[0]
    return value if isinstance(value, str) else ""


def _foreign_days(form: Any) -> str:
    return f"days of the format {form} are not read; write them as 2020-12-31 in the data"
