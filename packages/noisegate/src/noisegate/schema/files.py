"""Schema files and the text in them: read with errors that name the file, and text that shows as it reads."""

import hashlib
import json
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from itertools import chain, repeat
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from noisegate.atomic import check_on_disk
from noisegate.cards import Shown
from noisegate.errors import SchemaError

DISCOVERED_PREFIX = (
    "Discovered with "  # how the first line of a discovered schema begins
)

CERTIFICATE_SUFFIX = ".certificate.json"

_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)


def first_invisible(value: str) -> str | None:
    """Returns the first character that keeps text from showing as it reads, as a mark of direction does, or None."""
    found = _UNSEEN.search(value)
    return None if found is None else found[0]


def check_visible(what: str, values: Iterable[Any]) -> None:
    """Requires that texts show as they read."""
    for value in values:
        mark = first_invisible(value) if isinstance(value, str) else None
        if mark is not None:
            raise SchemaError(
                f"{what} {value!a} holds the invisible character U+{ord(mark):04X}, so that it is not what it looks "
                "like; remove it, in the data too"
            )


def checked_path(value: Any, what: str) -> Path:
    """Returns a path, called ``what`` in messages, from its name."""
    if (
        not isinstance(value, str | Path)
        or not str(value).strip()
        or "\0" in str(value)
    ):
        raise SchemaError(
            f"path={value!r} of {what} must be a path; give its name as text"
        )
    return Path(value)


def read_text(path: str | Path, what: str) -> str:
    """Returns the text of a file, called ``what`` in messages."""
    try:
        check_on_disk(checked_path(path, f"the {what}"), what)
        return Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SchemaError(
            f"{what} {path} is not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from None
    except OSError as error:
        raise SchemaError(
            f"{what} {path} cannot be read: {error.strerror}; check the path"
        ) from None


def was_discovered(path: Path) -> bool:
    """Returns whether a schema file says that it was discovered from private records or has a certificate beside it."""
    try:
        start = path.read_bytes().lstrip(b"# \r\n\t\xef\xbb\xbf")
    except OSError:  # told by whoever reads the schema
        start = b""
    return (
        start.startswith(DISCOVERED_PREFIX.encode())
        or path.with_name(f"{path.name}{CERTIFICATE_SUFFIX}").exists()
    )


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Returns what TOML says; ``origin`` names it in messages."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SchemaError(
            f"{origin} is not valid TOML: {error}; correct the file there"
        ) from error


class StoredSchema(Shown):
    """A base of schemas, of whatever kind: how they are read from files and written to them."""

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Reads a schema file; a `SchemaError` says what is wrong with it."""
        return cls.loads(read_text(path, "schema file"), origin=f"schema file {path}")

    @classmethod
    def loads(cls, text: str, *, origin: str = "the schema text") -> Self:
        """Reads a schema from TOML text; ``origin`` names it in messages.

        Raises:
            SchemaError: if it is not valid TOML or describes no valid schema, or none that is `usable`.
        """
        if not isinstance(text, str):
            raise SchemaError(
                f"text={text!r} must be the text of a schema; for its file there is Schema.from_toml(path)"
            )
        form = parse_toml(text, origin)
        try:
            return cls.from_form(form).usable()
        except SchemaError as error:
            raise SchemaError(f"{origin}: {error}") from None

    @classmethod
    def from_form(cls, form: Mapping[str, Any]) -> Self:
        """Returns the schema that a file holds."""
        raise NotImplementedError

    def usable(self) -> Self:
        """Returns this schema, after what is asked of one for new records, and not of those in models."""
        raise NotImplementedError

    def dumps(self) -> str:
        """Returns the schema as TOML text."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Returns the schema as plain JSON values."""
        raise NotImplementedError

    def to_toml(self, path: str | Path) -> None:
        """Writes the schema as a TOML file; a `SchemaError` if it cannot be written."""
        try:
            checked_path(path, "the schema file").write_bytes(self.dumps().encode())
        except OSError as error:
            raise SchemaError(
                f"schema file {path} cannot be written: {error.strerror}; choose another path"
            ) from None

    def digest(self) -> str:
        """Returns the SHA-256 of the canonical JSON form, in hexadecimal."""
        text = json.dumps(
            self.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False
        )
        return hashlib.sha256(text.encode()).hexdigest()


_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}
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
    top = {
        key: value
        for key, value in form.items()
        if key not in ("images", "columns", "constraints")
    }
    above = "".join(f"{_key(name)}." for name in prefix)
    title = f"[{above.removesuffix('.')}]\n" if above else ""
    blocks = [title + _lines(top)] if top or title else []
    blocks += [f"[{above}images]\n{_lines(form['images'])}"] if "images" in form else []
    for name, column in form.get("columns", {}).items():
        lines = f"[{above}columns.{_key(name)}]\n{_lines(column)}"
        if name in commented:
            lines = _comment(lines.removesuffix("\n").split("\n")) if column else ""
        blocks.append(_comment(columns.get(name, ())) + lines)
    for constraint, why in zip(
        form.get("constraints", ()), chain(constraints, repeat(())), strict=False
    ):
        blocks.append(f"{_comment(why)}[[{above}constraints]]\n{_lines(constraint)}")
    return "\n".join(blocks)


def _comment(lines: Sequence[str]) -> str:
    return "".join(f"# {_CONTROL.sub('?', line)}\n" for line in lines)


def _lines(form: Mapping[str, Any]) -> str:
    return "".join(
        f"# {key} = \n" if value is ... else f"{_key(key)} = {_value(value)}\n"
        for key, value in form.items()
    )


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    return (
        '"'
        + _SPECIAL.sub(
            lambda match: _SHORT.get(match[0]) or f"\\u{ord(match[0]):04x}", text
        )
        + '"'
    )


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list):
        items = [_value(item) for item in value]
        line = ", ".join(items)  # on one line if it fits, else with one item on each
        return (
            f"[{line}]"
            if len(line) < _WIDTH - 20
            else "[\n" + "".join(f"  {item},\n" for item in items) + "]"
        )
    if isinstance(value, Mapping):
        return (
            "{ "
            + ", ".join(
                f"{_key(name)} = {_value(item)}" for name, item in value.items()
            )
            + " }"
        )
    return value.isoformat() if isinstance(value, date) else repr(value)
