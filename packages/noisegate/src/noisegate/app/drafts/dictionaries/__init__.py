"""Data dictionaries, which are public knowledge, as drafts of a schema.

No record is read. The kind of a dictionary is told by what is in the file::

    .csv, .xlsx ──► sheets ──┬─► redcap ──────┐
                             ╰─► codebook ────┤
                                              ├──► Dictionary ──► schema file
    .json ───────────────────┬─► frictionless ┤
                             ╰─► csvw ────────┘

- `read_dictionary`: opens a file and chooses its reader.
- `sheets`: rows of a sheet, and what stands below which heading.
- `codebook`, `redcap`, `frictionless`, `csvw`: one reader each.
- `variable`: one column as a dictionary describes it, and its draft.
- `dictionary`: all columns, and the text of the schema file.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from noisegate.app.drafts.dictionaries.codebook import read_codebook
from noisegate.app.drafts.dictionaries.csvw import read_csvw
from noisegate.app.drafts.dictionaries.dictionary import Dictionary
from noisegate.app.drafts.dictionaries.frictionless import read_table_schema
from noisegate.app.drafts.dictionaries.redcap import read_redcap
from noisegate.app.drafts.dictionaries.sheets import EXCEL, read_sheets
from noisegate.errors import SchemaError, said
from noisegate.schema.files import checked_path, first_invisible, read_text

__all__ = ["UNDERSTOOD", "Dictionary", "read_dictionary"]

UNDERSTOOD = (
    "a code book (.csv or .xlsx) with a heading such as name or variable, and type, "
    "label, min, max or values; the data dictionary of a REDCap project (.csv); a "
    "Frictionless Table Schema or datapackage.json; CSVW metadata (.json)"
)
"""The kinds of dictionaries that can be read, in words."""

_Part = TypeVar("_Part")


def read_dictionary(
    path: str | Path, *, table: str | None = None, label: str | None = None
) -> Dictionary:
    """Reads a public data dictionary.

    Args:
        path: The file; see `UNDERSTOOD`.
        table: Its sheet, resource or table; None for the only one.
        label: Name of the column to be predicted from the others, or None.

    Returns:
        What it states of each column, without those whose name holds an invisible
        character.

    Raises:
        SchemaError: if the file is of no such kind, is broken, describes a column
            twice, or does not describe the label.
    """
    file = checked_path(path, "the dictionary")
    if file.suffix.lower() == ".json":
        dictionary = _read_json(file, table)
    else:
        dictionary = _read_sheet(file, table)
    visible_variables = tuple(
        variable
        for variable in dictionary.variables
        if first_invisible(variable.name) is None
    )
    dictionary = replace(dictionary, variables=visible_variables, label=label)

    names = [entry.name for entry in dictionary.entries]
    for name in names:
        if names.count(name) > 1:
            raise SchemaError(
                f"dictionary {file}: {name!r} is described twice; keep one"
            )
    usable_names = {entry.name for entry in dictionary.entries if not entry.is_ignored}
    if label is not None and label not in usable_names:
        raise SchemaError(
            f"label {label!r} is not a column that dictionary {file} describes: "
            f"{', '.join(names)}"
        )
    return dictionary


def _read_sheet(file: Path, table: str | None) -> Dictionary:
    """Reads the first sheet of a file that is a dictionary.

    Args:
        file: A CSV or Excel file.
        table: Name of the sheet of an Excel file, or None.
    """
    sheets = read_sheets(file)
    if table is not None and file.suffix.lower() in EXCEL:
        sheets = {table: _choose(sheets, table, f"dictionary {file}", "sheet")}
    for rows in sheets.values():
        dictionary = read_redcap(rows) or read_codebook(rows)
        if dictionary is not None:
            return dictionary
    raise _not_understood(f"dictionary {file}")


def _read_json(file: Path, table: str | None) -> Dictionary:
    """Reads a dictionary of JSON.

    Args:
        file: The file.
        table: Name of a resource or table in it, or None.
    """
    where = f"dictionary {file}"
    content = _load_json(file)
    try:
        dictionary = _read_json_content(content, file, table)
    except (KeyError, TypeError, AttributeError):
        raise SchemaError(
            f"{where} is broken: a part of it is missing or of another type; correct "
            "the file"
        ) from None
    if dictionary is None:
        raise _not_understood(where)
    return dictionary


def _load_json(file: Path) -> Any:
    """Parses a JSON file of a dictionary.

    Raises:
        SchemaError: if it is no JSON.
    """
    try:
        return json.loads(read_text(file, "dictionary"))
    except (json.JSONDecodeError, RecursionError) as error:
        raise SchemaError(
            f"dictionary {file} is not valid JSON: {error}; correct the file there"
        ) from None


def _read_json_content(
    content: Any, file: Path, table: str | None
) -> Dictionary | None:
    """Reads a dictionary by the keys that it has.

    Args:
        content: The file as JSON.
        file: The file, to which paths in it are relative.
        table: Name of a resource or table in it, or None.

    Returns:
        The dictionary; None if it is of no kind that is understood.

    Raises:
        KeyError, TypeError or AttributeError: if a part is missing or of another type.
    """
    where = f"dictionary {file}"
    if not isinstance(content, Mapping):
        return None
    if isinstance(content.get("resources"), list):
        resource = _choose(
            _by_name(content["resources"], "name"), table, where, "resource"
        )
        schema = resource.get("schema")
        if not isinstance(schema, Mapping):
            # The path of a file beside this one.
            schema_file = file.parent / str(schema)
            schema = _load_json(schema_file)
        return read_table_schema(schema)
    if isinstance(content.get("fields"), list):
        return read_table_schema(content)
    if "@context" in content and ("tableSchema" in content or "tables" in content):
        tables = _by_name(content.get("tables", [content]), "url")
        return read_csvw(_choose(tables, table, where, "table"), content)
    return None


def _by_name(parts: list[Any], key: str) -> dict[str, Any]:
    """Returns parts of a file by the name under a key; else by their index."""
    return {str(part.get(key, index)): part for index, part in enumerate(parts)}


def _choose(
    parts: Mapping[str, _Part], name: str | None, where: str, part_kind: str
) -> _Part:
    """Returns the part of a dictionary that is named, or the only one.

    Args:
        parts: The parts by name.
        name: Name of the part, or None.
        where: What messages call the file.
        part_kind: What messages call a part, such as "sheet".

    Raises:
        SchemaError: if there is none of this name, or several and none is named.
    """
    if name is not None and name in parts:
        return parts[name]
    if name is None and len(parts) == 1:
        return next(iter(parts.values()))
    if name is None:
        problem = f"there are {len(parts)} {part_kind}s"
    else:
        problem = f"there is no {part_kind} {name!r}"
    raise SchemaError(
        f"{where}: {problem}; choose one with {said('table')}: {', '.join(parts)}"
    )


def _not_understood(where: str) -> SchemaError:
    """Returns the error about a file of another kind."""
    return SchemaError(
        f"{where} is not a supported data dictionary; supported are: {UNDERSTOOD}"
    )
