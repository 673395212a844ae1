"""Data dictionaries: sheets, CSV or Excel, which are code books or REDCap's, and the JSON of Frictionless and CSVW.

https://www.project-redcap.org, https://specs.frictionlessdata.io/table-schema/, https://www.w3.org/TR/tabular-metadata/

The dictionary of a REDCap project (https://www.project-redcap.org) is read as a code
book: checkboxes become a column for each choice, days are exported as 2020-12-31, and
descriptive fields are not exported. For JSON:
https://specs.frictionlessdata.io/table-schema/,
https://datapackage.org/standard/table-schema/ and
https://www.w3.org/TR/tabular-metadata/ with its datatypes.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from noisegate.app.drafts.dictionaries.variable import (
    COMMA,
    FREE_TEXT,
    IDENTIFIER,
    Variable,
)
from noisegate.app.drafts.drafted import vocabulary
from noisegate.errors import MissingExtraError, SchemaError
from noisegate.schema.files import read_text

EXCEL = (".xlsx", ".xlsm")
_MARKS = (",", ";", "\t", "|")
_MOST_ABOVE = 10  # rows above the headings
_HEADINGS: dict[str, str] = vocabulary("headings")
_YES, _NO = vocabulary("yes"), vocabulary("no")
_RANGE = re.compile(
    r"\s*\[?\s*(-?[0-9.]+|[0-9]{4}-[0-9]{2}-[0-9]{2})\s*(?:-|–|\.\.|to|bis|,)\s*([^\s\]]+)\s*\]?\s*"
)


def read_sheets(path: Path) -> dict[str, list[list[str]]]:
    """Returns the rows of each sheet by its name; a CSV file has one, called as the file."""
    if path.suffix.lower() in EXCEL:
        return _workbook(path)
    text = read_text(path, "dictionary")
    first = next((line for line in text.splitlines() if line.strip()), "")
    mark = max(_MARKS, key=first.count)
    try:
        return {
            path.stem: [
                [cell.strip() for cell in row]
                for row in csv.reader(io.StringIO(text), delimiter=mark)
            ]
        }
    except csv.Error as error:
        raise SchemaError(
            f"dictionary {path} is no CSV file: {error}; correct it, or save it anew"
        ) from None


def _workbook(path: Path) -> dict[str, list[list[str]]]:
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ModuleNotFoundError:
        raise MissingExtraError.of("openpyxl", f"dictionary {path}") from None
    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except OSError as error:
        raise SchemaError(
            f"dictionary {path} cannot be read: {error.strerror}; check the path"
        ) from None
    except (BadZipFile, InvalidFileException, KeyError, ValueError):
        raise SchemaError(
            f"dictionary {path} is no Excel workbook; save it anew as .xlsx, or as CSV"
        ) from None
    try:
        return {
            sheet.title: [
                [_text(cell) for cell in row]
                for row in sheet.iter_rows(values_only=True)
            ]
            for sheet in book
        }
    finally:
        book.close()


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, datetime) and cell == datetime(cell.year, cell.month, cell.day):
        cell = cell.date()
    if isinstance(cell, date | datetime):
        return cell.isoformat()
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return (
        str(int(cell))
        if isinstance(cell, float) and cell == int(cell)
        else str(cell).strip()
    )


def _headed_rows(
    rows: Sequence[Sequence[str]], wanted: Mapping[str, str], needed: str
) -> list[dict[str, str]] | None:
    """Returns the rows below the headings, each by what `wanted` calls a heading; None without one for `needed`."""
    # Compared without case, blanks and marks: "Variable / Field Name" is "variablefieldname".
    for place, row in enumerate(rows[:_MOST_ABOVE]):
        found = [re.sub(r"[^a-z0-9]", "", cell.lower()) for cell in row]
        columns = {
            key: next(
                (found.index(name) for name in names.split() if name in found), None
            )
            for key, names in wanted.items()
        }
        if columns[needed] is not None and len([cell for cell in found if cell]) > 1:
            return [
                {
                    key: row[at] if at is not None and at < len(row) else ""
                    for key, at in columns.items()
                }
                for row in rows[place + 1 :]
                if any(row)
            ]
    return None


def _split_codes(text: str) -> list[tuple[str, str]]:
    """Returns the codes with their meanings of "1=Male | 2=Female", "1, Male | 2, Female" or "Male; Female"."""
    mark = next((mark for mark in ("|", "\n", ";") if mark in text), None)
    items = [item.strip() for item in (text.split(mark) if mark else text.split(","))]
    equals = r"\s*(?:=|:|\s-\s)\s*" if mark or "=" in text or ":" in text else r"$^"
    if mark and all(re.match(r"[^,=:]{1,20},", item) for item in items if item):
        equals = r"\s*,\s*"
    pairs = [re.split(equals, item, maxsplit=1) for item in items if item]
    return [(_bare(pair[0]), _bare(pair[1]) if len(pair) > 1 else "") for pair in pairs]


def _bare(text: str) -> str:
    return text.strip().strip("\"'").strip()


def codebook(rows: Sequence[Sequence[str]]) -> list[Variable] | None:
    """Returns the variables of a code book; None if the rows are none."""
    found = _headed_rows(rows, _HEADINGS, "name")
    if found is None or not any(
        row[key]
        for row in found
        for key in ("type", "values", "lower", "range", "label")
    ):
        return None
    told = any(row["absent"] for row in found)
    return [_variable(row, told=told) for row in found if row["name"]]


def _variable(row: dict[str, str], *, told: bool = False) -> Variable:
    plain = re.sub(r"[\s_-]+", " ", re.sub(r"\(.*?\)", "", row["type"])).strip().lower()
    kind = next(
        (
            kind
            for kind, pattern in vocabulary("kinds").items()
            if re.fullmatch(pattern, plain)
        ),
        None,
    )
    lower, upper, values = row["lower"] or None, row["upper"] or None, row["values"]
    span = _RANGE.fullmatch(
        row["range"] or ("" if kind in ("categorical", "ordinal") else values)
    )
    if span:
        lower, upper, values = (
            lower or span[1],
            upper or span[2],
            values if row["range"] else "",
        )
    levels = [] if kind in ("date", "datetime", "boolean") else _split_codes(values)
    about = f"{row['label']} [{row['unit']}]" if row["unit"] else row["label"]
    said: dict[str, Any] = {"name": row["name"], "about": about}
    codes = tuple(
        code
        for code, _ in _split_codes(row["codes"])
        if re.fullmatch(r"-?[0-9.]+", code)
    )
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
        missing=row["required"].lower() not in _YES
        if row["required"]
        else row["absent"].lower() not in _NO
        if told
        else None,
        codes=codes,
        **said,
    )


def _step(row: dict[str, str]) -> float | None:
    try:
        return (
            float(row["step"])
            if row["step"]
            else 10.0 ** -int(row["decimals"])
            if row["decimals"]
            else None
        )
    except ValueError:
        return None


def redcap(
    rows: Sequence[Sequence[str]],
) -> tuple[list[Variable], tuple[str, ...]] | None:
    """Returns the variables, and what else an export may have; None if the rows are no REDCap dictionary."""
    fields = _headed_rows(rows, vocabulary("redcap"), "choices")
    if fields is None or not any(field["name"] for field in fields):
        return None
    found = [
        variable
        for place, field in enumerate(fields)
        for variable in _columns(field, first=place == 0)
    ]
    forms = dict.fromkeys(field["form"] for field in fields if field["form"])
    names = {variable.name for variable in found}
    added = (
        *vocabulary("added"),
        *(name for form in forms for name in (f"{form}_complete", f"{form}_timestamp")),
    )
    return found, tuple(name for name in added if name not in names)


def _columns(field: dict[str, str], *, first: bool) -> Iterator[Variable]:
    name, kind = field["name"].strip().lower(), field["type"].strip().lower()
    if not name or kind == "descriptive":
        return
    if first:
        yield Variable(
            name=name,
            kind=None,
            about=field["label"],
            ignored="the number of the record",
        )
    elif field["identifier"].strip().lower() in _YES:
        yield Variable(
            name=name,
            kind=None,
            about=field["label"],
            ignored=f"marked as {IDENTIFIER}",
        )
    elif kind == "checkbox":
        for code, label in _split_codes(field["choices"]):
            # A minus sign becomes an underscore in names.
            column = f"{name}___{re.sub(r'[^a-z0-9_]', '_', code.lower())}"
            yield Variable(
                name=column,
                kind="boolean",
                about=f"{field['label']}: {label}",
                missing=False,
            )
    else:
        yield _single(name, kind, field)


def _single(name: str, kind: str, field: dict[str, str]) -> Variable:
    said: dict[str, str] = {
        "name": name,
        "label": field["label"],
        "lower": field["lower"],
        "upper": field["upper"],
    }
    validation = field["validation"].strip().lower() if kind == "text" else ""
    number = re.fullmatch(r"number(?:_([1-4])dp)?(_comma_decimal)?", validation)
    if kind == "text":
        told = next(
            (
                told
                for pattern, told in vocabulary("validated").items()
                if re.fullmatch(pattern, validation)
            ),
            None,
        )
        unread = (
            COMMA if number and number[2] else f"text of the validation {validation!r}"
        )
        said["decimals"] = (number[1] if number else None) or ""
    else:
        told, unread = (
            vocabulary("redcap_types").get(kind),
            f"a field of type {kind or 'unknown'}",
        )
    if told is None:
        unread += "" if unread == COMMA else ", which has no kind in a schema"
        return Variable(name=name, kind=None, about=field["label"], ignored=unread)
    if kind == "slider":
        said |= {"lower": said["lower"] or "0", "upper": said["upper"] or "100"}
    values = field["choices"] if kind in ("radio", "dropdown") else ""
    return _variable(
        dict.fromkeys(_HEADINGS, "") | said | {"type": told, "values": values}
    )


_TYPES: dict[str, str] = vocabulary("fields")
_CSVW = vocabulary("csvw")
_ALTERNATIVES = re.compile(r"\^?\(?([\w .-]+(?:\|[\w .-]+)+)\)?\$?")


def read_table_schema(
    form: Mapping[str, Any],
) -> tuple[list[Variable], tuple[str, ...]]:
    """Returns the variables of a table schema, and the text that stands for a missing value."""
    keys = form.get("primaryKey", form.get("primaryKeys", ()))
    keys = {keys} if isinstance(keys, str) else set(keys)
    tokens = [
        one.get("value", "") if isinstance(one, Mapping) else one
        for one in form.get("missingValues", [""])
    ]
    variables = [
        _of_field(field, keys)
        for field in form["fields"]
        if isinstance(field, Mapping) and field.get("name")
    ]
    return variables, tuple(str(token) for token in tokens)


def _of_field(field: Mapping[str, Any], keys: Iterable[str]) -> Variable:
    rules, kind = field.get("constraints") or {}, str(field.get("type", "string"))
    said: dict[str, Any] = {
        "name": str(field["name"]),
        "about": str(field.get("title") or field.get("description") or ""),
        "missing": not rules["required"] if "required" in rules else None,
    }
    if field["name"] in keys or rules.get("unique"):
        return Variable(kind=None, ignored=IDENTIFIER, **said)
    values = field.get("categories") or rules.get("enum") or ()
    pairs = [
        (one.get("value"), one.get("label", ""))
        if isinstance(one, Mapping)
        else (one, "")
        for one in values
    ]
    levels = [(str(code), str(label)) for code, label in pairs]
    if levels and kind in ("string", "integer", "any"):
        return Variable(
            kind="ordinal" if field.get("categoriesOrdered") else "categorical",
            levels=levels,
            **said,
        )
    reason = _unread(field, kind)
    if reason is not None:
        return Variable(kind=None, ignored=reason, **said)
    return Variable(
        kind=_TYPES[kind],
        lower=rules.get("minimum"),
        upper=rules.get("maximum"),
        **said,
    )


def _unread(field: Mapping[str, Any], kind: str) -> str | None:
    if kind == "string":
        return FREE_TEXT
    if kind not in _TYPES:
        return f"a field of type {kind}, which has no kind in a schema"
    if field.get("decimalChar", ".") != "." or field.get("groupChar"):
        return COMMA
    form = field.get("format", "default")
    if kind in ("date", "datetime") and form not in (
        "default",
        "any",
        "%Y-%m-%d",
        "%Y-%m-%dT%H:%M:%S",
    ):
        return _foreign_days(form)
    return None


def csvw(
    schema: Mapping[str, Any], inherited: Mapping[str, Any]
) -> tuple[list[Variable], tuple[str, ...]]:
    """Returns the variables of a table schema, and the text that stands for a missing value."""
    keys = schema.get("primaryKey", ())
    keys = {keys} if isinstance(keys, str) else set(keys)
    columns = [
        one
        for one in schema["columns"]
        if isinstance(one, Mapping) and not one.get("virtual")
    ]
    tokens: list[str] = []
    for column in [inherited, schema, *columns]:
        null = column.get("null", "")
        tokens += [null] if isinstance(null, str) else null
    found = [_of_column(column, keys, place) for place, column in enumerate(columns)]
    return found, tuple(dict.fromkeys(["", *map(str, tokens)]))


def _of_column(column: Mapping[str, Any], keys: set[str], place: int) -> Variable:
    datatype = column.get("datatype", "string")
    rules: Mapping[str, Any] = (
        datatype if isinstance(datatype, Mapping) else {"base": datatype}
    )
    base, form = str(rules.get("base", "string")), rules.get("format")
    name = _worded(column.get("titles")) or str(
        column.get("name") or f"_col.{place + 1}"
    )
    about = _worded(
        column.get("dc:description")
        or column.get("dc:title")
        or rules.get("dc:description")
    )
    said: dict[str, Any] = {
        "name": name,
        "about": about,
        "missing": not column["required"] if "required" in column else None,
    }
    if column.get("name") in keys:
        return Variable(kind=None, ignored=IDENTIFIER, **said)
    ends: dict[str, Any] = {
        key: next((rules[one] for one in ones if one in rules), None)
        for key, ones in _CSVW["ends"].items()
    }
    ends = {
        key: _CSVW["signs"].get(base, {}).get(key) if end is None else end
        for key, end in ends.items()
    }
    if base in _CSVW["whole"] or base in _CSVW["real"]:
        comma = isinstance(form, Mapping) and form.get("decimalChar", ".") != "."
        unread = COMMA if comma else None
        return Variable(
            kind="integer" if base in _CSVW["whole"] else "continuous",
            ignored=unread,
            **ends,
            **said,
        )
    if base in ("date", "datetime", "dateTime", "dateTimeStamp"):
        foreign = isinstance(form, str) and not form.startswith("yyyy-MM-dd")
        unread = _foreign_days(form) if foreign else None
        return Variable(
            kind="date" if base == "date" else "datetime",
            ignored=unread,
            **ends,
            **said,
        )
    if base == "boolean":
        return Variable(kind="boolean", **said)
    listed = _ALTERNATIVES.fullmatch(form) if isinstance(form, str) else None
    if base == "string" and listed:
        return Variable(
            kind="categorical",
            levels=[(level.strip(), "") for level in listed[1].split("|")],
            **said,
        )
    return Variable(
        kind=None,
        ignored=FREE_TEXT
        if base == "string"
        else f"values of type {base} have no kind",
        **said,
    )


def _worded(value: Any) -> str:
    """Returns natural-language text: plain, the first of a list, or that of the first language."""
    while isinstance(value, Mapping | list) and value:
        value = next(iter(value.values())) if isinstance(value, Mapping) else value[0]
    return value if isinstance(value, str) else ""


def _foreign_days(form: Any) -> str:
    return (
        f"days of the format {form} are not read; write them as 2020-12-31 in the data"
    )
