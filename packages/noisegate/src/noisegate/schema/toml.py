"""A schema in its plain form (dictionaries, lists, numbers, text) as TOML text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from itertools import chain, repeat
from types import MappingProxyType
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_SPECIAL = re.compile(r'["\\\x00-\x1f\x7f]')
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_WIDTH = 120


def write_toml(
    form: Mapping[str, Any],
    *,
    columns: Mapping[str, Sequence[str]] = MappingProxyType({}),
    constraints: Sequence[Sequence[str]] = (),
    commented: Collection[str] = (),
    prefix: Sequence[str] = (),
) -> str:
    """Returns TOML text: plain keys, ``[images]``, a table ``[columns.NAME]`` for each column, ``[[constraints]]``.

    All of it stands below the table whose names are ``prefix``.

    ``columns`` and ``constraints`` hold lines of comment above each of them, by name and in order. The columns in
    ``commented`` are comments as a whole; one of them without a form is its comment alone.
    """
    top = {key: value for key, value in form.items() if key not in ("images", "columns", "constraints")}
    above = "".join(f"{_key(name)}." for name in prefix)
    title = f"[{above.removesuffix('.')}]\n" if above else ""
    blocks = [title + _lines(top)] if top or title else []
    blocks += [f"[{above}images]\n{_lines(form['images'])}"] if "images" in form else []
    for name, column in form.get("columns", {}).items():
        lines = f"[{above}columns.{_key(name)}]\n{_lines(column)}"
        if name in commented:
            lines = _comment(lines.removesuffix("\n").split("\n")) if column else ""
        blocks.append(_comment(columns.get(name, ())) + lines)
    for constraint, why in zip(form.get("constraints", ()), chain(constraints, repeat(())), strict=False):
        blocks.append(f"{_comment(why)}[[{above}constraints]]\n{_lines(constraint)}")
    return "\n".join(blocks)


def _comment(lines: Sequence[str]) -> str:
    """Returns lines of comment, in which no character ends the line."""
    return "".join(f"# {_CONTROL.sub('?', line)}\n" for line in lines)


def _lines(form: Mapping[str, Any]) -> str:
    return "".join(
        f"# {key} = \n" if value is ... else f"{_key(key)} = {_value(value)}\n" for key, value in form.items()
    )


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
