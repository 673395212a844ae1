"""Every kind of column that a schema may have, and the plain forms in which files hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeAlias

from noisegate.errors import SchemaError, choices
from noisegate.schema.bounded import MAX_STEPS
from noisegate.schema.coded import Boolean, Categorical, CodedColumn, Ordinal
from noisegate.schema.numeric import Continuous, Date, Datetime, Decimal, Integer, NumericColumn, SteppedColumn
from noisegate.schema.positions import numbers_at, positions_of
from noisegate.schema.values import TEXT_PADDING, column_name, flag, levels, text

__all__ = [
    "COLUMN_KINDS",
    "MAX_STEPS",
    "TEXT_PADDING",
    "Boolean",
    "Categorical",
    "CodedColumn",
    "Column",
    "Continuous",
    "Date",
    "Datetime",
    "Decimal",
    "Integer",
    "NumericColumn",
    "Ordinal",
    "SteppedColumn",
    "check_keys",
    "column_form",
    "column_from_form",
    "column_name",
    "flag",
    "levels",
    "numbers_at",
    "positions_of",
    "text",
]

Column: TypeAlias = NumericColumn | CodedColumn
"""Any column of a schema."""

COLUMN_KINDS: dict[str, type[Column]] = {
    kind.kind: kind for kind in (Continuous, Decimal, Integer, Date, Datetime, Ordinal, Categorical, Boolean)
}
"""Every kind by the name that it has in a schema file."""


def column_form(column: Column) -> dict[str, Any]:
    """Returns the kind and the fields of ``column``, without its name; fields at their default are left out."""
    form: dict[str, Any] = {"kind": column.kind}
    for field in fields(column):
        value = getattr(column, field.name)
        if field.name != "name" and (field.default is MISSING or value != field.default):
            form[field.name] = list(value) if isinstance(value, tuple) else value
    return form


def column_from_form(name: str, form: Any) -> Column:
    """Returns the column that ``form`` describes."""
    if not isinstance(form, Mapping):
        raise SchemaError(f"column {name!r}: expected a table with a kind, found {form!r}; write kind = ... under it")
    kind = form.get("kind")
    if kind is None:
        raise SchemaError(f"column {name!r}: kind is missing; choose one of {', '.join(COLUMN_KINDS)}")
    if not isinstance(kind, str) or kind not in COLUMN_KINDS:
        raise SchemaError(f"column {name!r}: unknown kind {kind!r}; choose one of {choices(kind, COLUMN_KINDS)}")
    known = {field.name: field for field in fields(COLUMN_KINDS[kind]) if field.name != "name"}
    check_keys(form, ["kind", *known], f"column {name!r} ({kind})")
    absent = [key for key, field in known.items() if field.default is MISSING and key not in form]
    if absent:
        raise SchemaError(f"column {name!r} ({kind}): {' and '.join(absent)} missing; add what is publicly known")
    return COLUMN_KINDS[kind](name=name, **{key: value for key, value in form.items() if key != "kind"})


def check_keys(form: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
    """Requires that every key of ``form`` is allowed; a `SchemaError` names the first that is not."""
    names = list(allowed)
    for key in form:
        if key not in names:
            raise SchemaError(f"{where}: unknown key {key!r}; the allowed keys are {choices(key, names)}")
