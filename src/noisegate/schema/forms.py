"""A schema as plain values (dictionaries, lists, numbers, text), the common form of TOML and JSON, and as TOML text."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import date
from pathlib import Path
from typing import Any

from noisegate.errors import SchemaError
from noisegate.schema import checks
from noisegate.schema.columns import COLUMN_KINDS, Column

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_SPECIAL = re.compile(r'["\\\x00-\x1f\x7f]')
_WIDTH = 120


def column_form(column: Column) -> dict[str, Any]:
    """Return the kind and the fields of ``column``, without its name; fields at their default are left out."""
    form: dict[str, Any] = {"kind": column.kind}
    for field in fields(column):
        value = getattr(column, field.name)
        if field.name != "name" and (field.default is MISSING or value != field.default):
            form[field.name] = list(value) if isinstance(value, tuple) else value
    return form


def column_from_form(name: str, form: Any) -> Column:
    """Return the column that ``form`` describes.

    Raises:
        SchemaError: if a key is missing or unknown, or a value is wrong.
    """
    if not isinstance(form, Mapping):
        raise SchemaError(f"column {name!r}: expected a table with a kind, found {form!r}; write kind = ... under it")
    kind = form.get("kind")
    if kind is None:
        raise SchemaError(f"column {name!r}: kind is missing; choose one of {', '.join(COLUMN_KINDS)}")
    if not isinstance(kind, str) or kind not in COLUMN_KINDS:
        raise SchemaError(f"column {name!r}: unknown kind {kind!r}; choose one of {_choices(kind, COLUMN_KINDS)}")
    known = {field.name: field for field in fields(COLUMN_KINDS[kind]) if field.name != "name"}
    check_keys(form, ["kind", *known], f"column {name!r} ({kind})")
    absent = [key for key, field in known.items() if field.default is MISSING and key not in form]
    if absent:
        raise SchemaError(f"column {name!r} ({kind}): {' and '.join(absent)} missing; add what is publicly known")
    return COLUMN_KINDS[kind](name=name, **{key: value for key, value in form.items() if key != "kind"})


def check_keys(form: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
    """Require that every key of ``form`` is allowed.

    Raises:
        SchemaError: naming the first key that is not, and the allowed ones.
    """
    names = list(allowed)
    for key in form:
        if key not in names:
            raise SchemaError(f"{where}: unknown key {key!r}; the allowed keys are {_choices(key, names)}")


def json_value(value: Any) -> Any:
    """Return a value of a column form as JSON can hold it: dates become ISO text."""
    return value.isoformat() if isinstance(value, date) else value


def _choices(found: Any, names: Iterable[str]) -> str:
    listed = list(names)
    near = difflib.get_close_matches(str(found), listed, n=1)
    return ", ".join(listed) + (f" (did you mean {near[0]}?)" if near else "")


def read_text(path: str | Path, what: str) -> str:
    """Return the text of a file, called ``what`` in messages.

    Raises:
        SchemaError: if it cannot be read or is not UTF-8.
    """
    try:
        return checks.path(path, f"the {what}").read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SchemaError(f"{what} {path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise SchemaError(f"{what} {path} cannot be read: {error.strerror}; check the path") from None


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Return what the TOML ``text`` says; ``origin`` names it in messages.

    Raises:
        SchemaError: if the syntax is wrong, with line and column.
    """
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SchemaError(f"{origin} is not valid TOML: {error}; correct the file there") from error


def write_toml(
    top: Mapping[str, Any],
    columns: Mapping[str, Mapping[str, Any]],
    constraints: Sequence[Mapping[str, Any]] = (),
    *,
    images: Mapping[str, Any] | None = None,
) -> str:
    """Return TOML text: the ``top`` keys, ``[images]``, a table ``[columns.NAME]`` for each, ``[[constraints]]``."""
    blocks = [_lines(top)] if top else []
    blocks += [] if images is None else [f"[images]\n{_lines(images)}"]
    blocks += [f"[columns.{_key(name)}]\n{_lines(form)}" for name, form in columns.items()]
    blocks += [f"[[constraints]]\n{_lines(form)}" for form in constraints]
    return "\n".join(blocks)


def _lines(form: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in form.items())


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    return '"' + _SPECIAL.sub(lambda match: _SHORT.get(match[0]) or f"\\u{ord(match[0]):04x}", text) + '"'


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list):
        items = [_value(item) for item in value]
        line = ", ".join(items)  # on one line if it fits, else with one item on each
        return f"[{line}]" if len(line) < _WIDTH - 20 else "[\n" + "".join(f"  {item},\n" for item in items) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {_value(item)}" for name, item in value.items()) + " }"
    return value.isoformat() if isinstance(value, date) else repr(value)
