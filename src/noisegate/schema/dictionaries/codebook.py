"""Code books: a row for each column of the data, under headings that people choose."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from noisegate.schema.dictionaries.rows import headed_rows, split_codes
from noisegate.schema.dictionaries.variable import FREE_TEXT, IDENTIFIER, Variable

_HEADINGS = {
    "name": (
        "variablename",
        "columnname",
        "fieldname",
        "variable",
        "column",
        "field",
        "varname",
        "var",
        "name",
        "item",
    ),
    "type": (
        "type",
        "datatype",
        "variabletype",
        "fieldtype",
        "columntype",
        "vartype",
        "kind",
        "class",
        "format",
        "measure",
    ),
    "label": (
        "label",
        "variablelabel",
        "description",
        "fieldlabel",
        "definition",
        "meaning",
        "question",
        "title",
        "comment",
    ),
    "lower": ("min", "minimum", "lower", "lowerbound", "minvalue", "rangemin", "validmin", "from"),
    "upper": ("max", "maximum", "upper", "upperbound", "maxvalue", "rangemax", "validmax", "to"),
    "range": ("range", "validrange", "allowedrange"),
    "values": (
        *("values", "levels", "codes", "choices", "categories", "valuelabels", "allowedvalues", "validvalues"),
        *("permissiblevalues", "permittedvalues", "enum", "coding", "options", "responseoptions", "value"),
    ),
    "missing": ("missingcodes", "missingvalues", "missingcode", "missing", "navalues"),
    "required": ("required", "mandatory", "requiredfield"),
    "decimals": ("decimals", "decimalplaces", "precision"),
    "step": ("step", "resolution"),
    "unit": ("unit", "units"),
    "identifier": ("identifier", "phi", "pii", "isid", "isidentifier"),
}
_YES = ("y", "yes", "1", "true", "x")
_KINDS = {
    "integer": r"int(eger)?|whole( number)?|count|smallint|bigint|long|i(nt)?(8|16|32|64)",
    "continuous": r"num(eric|ber)?|float(32|64)?|double|decimal|real|continuous|scale|interval|ratio",
    "datetime": r"date ?time|timestamp|posixct",
    "date": r"date",
    "ordinal": r"ordinal|ordered( factor)?",
    "categorical": r"categor(y|ical)|factor|nominal|enum|coded|code|select( one)?|radio|dropdown|single choice|choice",
    "boolean": r"bool(ean)?|logical|binary|yes ?/? ?no|flag|dichotomous|indicator",
    "identifier": r"id|identifier|key|primary key|uuid",
    "text": r"str(ing)?|text|char(acter)?|varchar|object|free ?text|note|memo|open|comment",
}
_RANGE = re.compile(r"\s*\[?\s*(-?[0-9.]+|[0-9]{4}-[0-9]{2}-[0-9]{2})\s*(?:-|–|\.\.|to|bis|,)\s*([^\s\]]+)\s*\]?\s*")


def codebook(rows: Sequence[Sequence[str]]) -> list[Variable] | None:
    """Return the variables of a code book; None if the rows are none."""
    found = headed_rows(rows, _HEADINGS, "name")
    if found is None or not any(row[key] for row in found for key in ("type", "values", "lower", "range", "label")):
        return None
    return [_variable(row) for row in found if row["name"]]


def _variable(row: dict[str, str]) -> Variable:
    kind = _kind(row["type"])
    lower, upper, values = row["lower"] or None, row["upper"] or None, row["values"]
    span = _RANGE.fullmatch(row["range"] or ("" if kind in ("categorical", "ordinal") else values))
    if span:
        lower, upper, values = lower or span[1], upper or span[2], values if row["range"] else ""
    levels = [] if kind in ("date", "datetime", "boolean") else split_codes(values)
    about = f"{row['label']} [{row['unit']}]" if row["unit"] else row["label"]
    said: dict[str, Any] = {"name": row["name"], "about": about}
    codes = tuple(code for code, _ in split_codes(row["missing"]) if re.fullmatch(r"-?[0-9.]+", code))
    if kind == "identifier" or row["identifier"].lower() in _YES:
        return Variable(kind=None, ignored=IDENTIFIER, **said)
    if kind in ("text", None) and not levels and not lower and not upper:
        return Variable(kind=None, ignored=FREE_TEXT if kind else None, **said)
    numeric = kind in ("integer", "continuous", "date", "datetime", "boolean")
    if levels and not (numeric and (lower or kind == "boolean")):
        kind = kind if kind == "ordinal" else "categorical"
    elif kind in ("text", None):
        kind = "continuous"
    return Variable(
        kind=kind,
        lower=lower,
        upper=upper,
        levels=levels,
        step=_step(row),
        missing=row["required"].lower() not in _YES,
        codes=codes,
        **said,
    )


def _kind(said: str) -> str | None:
    """Return the kind that a type means, "identifier" or "text"; None where it is not known."""
    plain = re.sub(r"[\s_-]+", " ", re.sub(r"\(.*?\)", "", said)).strip().lower()
    return next((kind for kind, pattern in _KINDS.items() if re.fullmatch(pattern, plain)), None)


def _step(row: dict[str, str]) -> float | None:
    try:
        return float(row["step"]) if row["step"] else 10.0 ** -int(row["decimals"]) if row["decimals"] else None
    except ValueError:
        return None
