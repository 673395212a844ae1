"""Data dictionaries of REDCap, as projects export them (CSV), with the columns that their raw data has.

https://www.project-redcap.org; checkboxes become a column for each choice, days are exported as 2020-12-31 whatever the
validation shows, and descriptive fields are not exported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from noisegate.schema.dictionaries.rows import headed_rows, split_codes
from noisegate.schema.dictionaries.variable import FREE_TEXT, IDENTIFIER, Variable

_HEADINGS = {
    "name": ("variablefieldname", "fieldname"),
    "form": ("formname",),
    "type": ("fieldtype",),
    "label": ("fieldlabel",),
    "choices": ("choicescalculationsorsliderlabels", "choicesorcalculations", "selectchoicesorcalculations"),
    "validation": ("textvalidationtypeorshowslidernumber",),
    "lower": ("textvalidationmin",),
    "upper": ("textvalidationmax",),
    "identifier": ("identifier",),
}
ADDED = (
    "redcap_event_name",
    "redcap_repeat_instrument",
    "redcap_repeat_instance",
    "redcap_data_access_group",
    "redcap_survey_identifier",
)
"""Columns that an export may have beside those of the dictionary."""

_NOT_EXPORTED = ("descriptive",)
_NUMBER = re.compile(r"number(?:_([1-4])dp)?(_comma_decimal)?")


def redcap(rows: Sequence[Sequence[str]]) -> tuple[list[Variable], tuple[str, ...]] | None:
    """Return the variables, and what else an export may have; None if the rows are no REDCap dictionary."""
    fields = headed_rows(rows, _HEADINGS, "choices")
    if fields is None or not any(field["name"] for field in fields):
        return None
    found = [variable for place, field in enumerate(fields) for variable in _columns(field, first=place == 0)]
    forms = dict.fromkeys(field["form"] for field in fields if field["form"])
    names = {variable.name for variable in found}
    added = (*ADDED, *(name for form in forms for name in (f"{form}_complete", f"{form}_timestamp")))
    return found, tuple(name for name in added if name not in names)


def _columns(field: dict[str, str], *, first: bool) -> Iterator[Variable]:
    name, kind = field["name"].strip().lower(), field["type"].strip().lower()
    if not name or kind in _NOT_EXPORTED:
        return
    if first:
        yield Variable(name=name, kind=None, about=field["label"], ignored="the number of the record")
    elif field["identifier"].strip().lower() in ("y", "yes", "1", "true"):
        yield Variable(name=name, kind=None, about=field["label"], ignored=f"marked as {IDENTIFIER}")
    elif kind == "checkbox":
        for code, label in split_codes(field["choices"]):
            # A minus sign becomes an underscore in names.
            column = f"{name}___{re.sub(r'[^a-z0-9_]', '_', code.lower())}"
            yield Variable(name=column, kind="boolean", about=f"{field['label']}: {label}", missing=False)
    else:
        yield _single(name, kind, field)


def _single(name: str, kind: str, field: dict[str, str]) -> Variable:
    """Return the variable of a field that is one column."""
    said: dict[str, Any] = {"name": name, "about": field["label"]}
    if kind in ("yesno", "truefalse"):
        return Variable(kind="boolean", **said)
    if kind in ("radio", "dropdown"):
        return Variable(kind="categorical", levels=split_codes(field["choices"]), **said)
    if kind == "slider":
        ends: dict[str, Any] = {"lower": field["lower"] or "0", "upper": field["upper"] or "100"}
        return Variable(kind="integer", **ends, **said)
    if kind == "calc":
        return Variable(kind="continuous", lower=field["lower"] or None, upper=field["upper"] or None, **said)
    if kind == "text":
        return _validated(field, said)
    reason = FREE_TEXT if kind == "notes" else f"a field of type {kind or 'unknown'}, which has no kind in a schema"
    return Variable(kind=None, ignored=reason, **said)


def _validated(field: dict[str, str], said: dict[str, Any]) -> Variable:
    """Return the variable of a field of text, by what its validation lets through."""
    validation = field["validation"].strip().lower()
    ends: dict[str, Any] = {"lower": field["lower"] or None, "upper": field["upper"] or None}
    if validation in ("integer", "int"):
        return Variable(kind="integer", **ends, **said)
    number = _NUMBER.fullmatch(validation)
    if number and number[2]:
        return Variable(kind=None, ignored="numbers with a comma are not read; write them with a point", **said)
    if number or validation == "float":
        digits = number[1] if number else None
        return Variable(kind="continuous", step=None if digits is None else 10.0 ** -int(digits), **ends, **said)
    if validation.startswith("datetime"):
        return Variable(kind="datetime", **ends, **said)
    if validation.startswith("date"):
        return Variable(kind="date", **ends, **said)
    reason = f"text of the validation {validation!r}, which has no kind in a schema" if validation else FREE_TEXT
    return Variable(kind=None, ignored=reason, **said)
