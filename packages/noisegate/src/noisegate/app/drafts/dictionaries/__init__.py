"""Data dictionaries, which are public knowledge, as the draft of a schema, by what is in a file: no record is read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from noisegate.app.drafts.dictionaries.sheets import (
    EXCEL,
    codebook,
    csvw,
    read_sheets,
    read_table_schema,
    redcap,
)
from noisegate.app.drafts.dictionaries.variable import Variable
from noisegate.app.drafts.drafted import DraftedColumn, drafted_text
from noisegate.errors import SchemaError, said
from noisegate.schema.files import checked_path, first_invisible, parse_toml, read_text
from noisegate.schema.schema import DEFAULT_MISSING_VALUES

UNDERSTOOD = (
    "a code book (.csv or .xlsx) with a heading such as name or variable, and type, label, min, max or values; the "
    "data dictionary of a REDCap project (.csv); a Frictionless Table Schema or datapackage.json; CSVW metadata (.json)"
)


@dataclass(frozen=True, kw_only=True)
class Dictionary:
    """The draft of a schema that a data dictionary gives."""

    kind: str  # what the file is, in words
    variables: tuple[Variable, ...]  # the columns
    missing_values: tuple[str, ...] = (
        DEFAULT_MISSING_VALUES  # text that stands for a missing value
    )
    added: tuple[
        str, ...
    ] = ()  # columns that the data may have beside them, which are ignored
    label: str | None = None  # the column to be predicted from the others, or None

    @cached_property
    def entries(self) -> tuple[DraftedColumn, ...]:
        """What the file says of each column; the label is never missing, unless the dictionary says that it may be."""
        known = (
            replace(one, missing=bool(one.missing)) if one.name == self.label else one
            for one in self.variables
        )
        return tuple(variable.entry() for variable in known)

    @property
    def open(self) -> tuple[str, ...]:
        """The columns of which something is still to be stated."""
        return tuple(entry.name for entry in self.entries if entry.is_open)

    @property
    def ignored(self) -> dict[str, str]:
        """The columns that were left out, with the reason."""
        return {
            entry.name: " ".join(entry.why) for entry in self.entries if entry.ignored
        }

    def toml(self) -> str:
        """Returns the schema file."""
        top: dict[str, Any] = {"label": self.label} if self.label else {}
        top |= {"missing_values": list(self.missing_values), "ignore": list(self.added)}
        text = drafted_text(self.entries, top=top)
        parse_toml(text, "the draft")
        return text


def read_dictionary(
    path: str | Path, *, table: str | None = None, label: str | None = None
) -> Dictionary:
    """Returns what a public dictionary, or a `table` of it, says of columns; a SchemaError if none `UNDERSTOOD`."""
    file = checked_path(path, "the dictionary")
    found = replace(
        _json(file, table) if file.suffix.lower() == ".json" else _sheet(file, table),
        label=label,
    )
    names = [entry.name for entry in found.entries]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SchemaError(f"dictionary {file}: {twice!r} is described twice; keep one")
    if label is not None and label not in {
        entry.name for entry in found.entries if not entry.ignored
    }:
        raise SchemaError(
            f"label {label!r} is not a column that dictionary {file} describes: {', '.join(names)}"
        )
    return found


def _sheet(file: Path, table: str | None) -> Dictionary:
    sheets = read_sheets(file)
    if table is not None and file.suffix.lower() in EXCEL:
        sheets = {table: _chosen(sheets, table, f"dictionary {file}", "sheet")}
    for rows in sheets.values():
        project = redcap(rows)
        if project is not None:
            return Dictionary(
                kind="REDCap data dictionary",
                variables=_seen(project[0]),
                added=project[1],
            )
        variables = codebook(rows)
        if variables:
            return Dictionary(kind="code book", variables=_seen(variables))
    raise SchemaError(
        f"dictionary {file} is of no kind that is understood, which are: {UNDERSTOOD}"
    )


def _json(file: Path, table: str | None) -> Dictionary:
    try:
        form = json.loads(read_text(file, "dictionary"))
    except (json.JSONDecodeError, RecursionError) as error:
        raise SchemaError(
            f"dictionary {file} is not valid JSON: {error}; correct the file there"
        ) from None
    where = f"dictionary {file}"
    try:
        if isinstance(form, Mapping) and isinstance(form.get("resources"), list):
            named = {
                str(one.get("name", place)): one
                for place, one in enumerate(form["resources"])
            }
            schema = _chosen(named, table, where, "resource").get("schema")
            linked = not isinstance(schema, Mapping)
            return _frictionless(
                json.loads(read_text(file.parent / str(schema), "dictionary"))
                if linked
                else schema
            )
        if isinstance(form, Mapping) and isinstance(form.get("fields"), list):
            return _frictionless(form)
        if (
            isinstance(form, Mapping)
            and "@context" in form
            and ("tableSchema" in form or "tables" in form)
        ):
            named = {
                str(one.get("url", place)): one
                for place, one in enumerate(form.get("tables", [form]))
            }
            one = _chosen(named, table, where, "table")
            variables, tokens = csvw(
                one.get("tableSchema", form.get("tableSchema")), {**form, **one}
            )
            return Dictionary(
                kind="CSVW metadata", variables=_seen(variables), missing_values=tokens
            )
    except (KeyError, TypeError, AttributeError):
        raise SchemaError(
            f"{where} is broken: a part of it is missing or of another type; correct the file"
        ) from None
    raise SchemaError(
        f"{where} is of no kind that is understood, which are: {UNDERSTOOD}"
    )


def _frictionless(form: Mapping[str, Any]) -> Dictionary:
    variables, tokens = read_table_schema(form)
    return Dictionary(
        kind="Frictionless Table Schema",
        variables=_seen(variables),
        missing_values=tokens,
    )


def _chosen(named: Mapping[str, Any], table: str | None, where: str, what: str) -> Any:
    if table in named:
        return named[str(table)]
    if table is None and len(named) == 1:
        return next(iter(named.values()))
    problem = (
        f"there is no {what} {table!r}"
        if table is not None
        else f"there are {len(named)} {what}s"
    )
    raise SchemaError(
        f"{where}: {problem}; choose one with {said('table')}: {', '.join(named)}"
    )


def _seen(variables: Sequence[Variable]) -> tuple[Variable, ...]:
    return tuple(
        variable for variable in variables if first_invisible(variable.name) is None
    )
