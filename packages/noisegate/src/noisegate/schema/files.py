"""Schema files: how they are read and written, and names that look like what they are.

The TOML of a schema is written here, since the standard library only reads it. A draft
has comments in it that say why it states what it states::

    label = "ill"
    missing_values = ["", "?"]

    # 97 of 100 records; widen the bounds if other ages can be
    [columns.age]
    kind = "integer"
    lower = 0
    upper = 120

    [[constraints]]
    rule = "admitted <= discharged"

Names and levels must look like what they are. Whoever reads a schema approves it by
eye, and an invisible character or a mark that turns the direction of writing would show
them something else. So new schemas with such characters are refused.
"""

import hashlib
import json
import re
import tomllib
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from itertools import chain, repeat
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from noisegate.atomic import check_on_disk
from noisegate.cards import Shown
from noisegate.errors import SchemaError

DISCOVERED_PREFIX = "Discovered with "
"""How the first line of a schema begins that was discovered from private records."""

CERTIFICATE_SUFFIX = ".certificate.json"
"""What a discovered schema's name ends in, for the file that states its cost."""

# Control characters, marks of direction, separators of lines, and the byte order mark.
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)

# TOML: keys that need no quotes, characters that a string escapes, and the short
# escapes.
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f]')
_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}
# Characters that TOML allows in no comment.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# Lists whose items take as many characters are written with an item on each line.
_MAX_LIST_WIDTH = 100


def first_invisible(text: str) -> str | None:
    """Returns the first character that is invisible or turns the direction, or None."""
    match = _INVISIBLE.search(text)
    return None if match is None else match[0]


def check_visible(what: str, values: Iterable[Any]) -> None:
    """Checks that texts look like what they are.

    Args:
        what: What each value is, for the message.
        values: The texts; other values are ignored.

    Raises:
        SchemaError: for the first text with an invisible character.
    """
    for value in values:
        if not isinstance(value, str):
            continue
        invisible = first_invisible(value)
        if invisible is not None:
            raise SchemaError(
                f"{what} {value!a} holds the invisible character "
                f"U+{ord(invisible):04X}, so that it is not what it looks like; remove "
                "it, in the data too"
            )


# --- Reading. ---


def checked_path(value: Any, what: str) -> Path:
    """Checks that a value can be a path, not blank; messages call its file `what`."""
    is_text = isinstance(value, str | Path)
    if not is_text or not str(value).strip() or "\0" in str(value):
        raise SchemaError(
            f"path={value!r} of {what} must be a path; give its name as text"
        )
    return Path(value)


def read_text(path: str | Path, what: str) -> str:
    """Reads a file of UTF-8 text.

    Args:
        path: The file, on disk; a byte order mark at its start is dropped.
        what: What the file is, for messages.

    Raises:
        SchemaError: if it cannot be read, or is not UTF-8.
    """
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
    """Returns whether a schema file was discovered from private records.

    It was if its first line says so, or if there is a certificate beside it.
    """
    try:
        text = path.read_bytes()
    except OSError:
        text = b""  # whoever reads the schema reports it
    # The line is a comment; a byte order mark may stand before it.
    first_line = text.lstrip(b"# \r\n\t\xef\xbb\xbf")
    certificate = path.with_name(f"{path.name}{CERTIFICATE_SUFFIX}")
    return first_line.startswith(DISCOVERED_PREFIX.encode()) or certificate.exists()


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Parses TOML; `origin` says where it comes from, for the `SchemaError`."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SchemaError(
            f"{origin} is not valid TOML: {error}; correct the file there"
        ) from error


class StoredSchema(Shown):
    """Base of schemas, of one table or of linked ones: reads and writes their files."""

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Reads a schema file.

        Args:
            path: The file, on disk.

        Raises:
            SchemaError: if it cannot be read, or as `loads` does.
        """
        return cls.loads(read_text(path, "schema file"), origin=f"schema file {path}")

    @classmethod
    def loads(cls, text: str, *, origin: str = "the schema text") -> Self:
        """Reads a schema from TOML text.

        Args:
            text: The text of a schema file.
            origin: Where it comes from, for messages.

        Raises:
            SchemaError: if it is not valid TOML or describes no valid schema, or none
                that is `usable`.
        """
        if not isinstance(text, str):
            raise SchemaError(
                f"text={text!r} must be the text of a schema; for its file there is "
                "Schema.from_toml(path)"
            )
        form = parse_toml(text, origin)
        try:
            return cls.from_form(form).usable()
        except SchemaError as error:
            raise SchemaError(f"{origin}: {error}") from None

    @classmethod
    @abstractmethod
    def from_form(cls, form: Mapping[str, Any]) -> Self:
        """Creates the schema whose form a file holds."""

    @abstractmethod
    def usable(self) -> Self:
        """Checks what is asked of a schema for new records, and returns it."""

    @abstractmethod
    def dumps(self) -> str:
        """Returns the schema as TOML text."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Returns the schema as JSON values."""

    def to_toml(self, path: str | Path) -> None:
        """Writes the schema to a TOML file.

        Args:
            path: The file; one that exists is replaced.

        Raises:
            SchemaError: if it cannot be written.
        """
        try:
            checked_path(path, "the schema file").write_bytes(self.dumps().encode())
        except OSError as error:
            raise SchemaError(
                f"schema file {path} cannot be written: {error.strerror}; choose "
                "another path"
            ) from None

    def digest(self) -> str:
        """Returns the SHA-256 of the schema's canonical JSON, in hexadecimal."""
        text = json.dumps(
            self.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False
        )
        return hashlib.sha256(text.encode()).hexdigest()


# --- Writing TOML. ---


def write_toml(
    form: Mapping[str, Any],
    *,
    column_comments: Mapping[str, Sequence[str]] = MappingProxyType({}),
    constraint_comments: Sequence[Sequence[str]] = (),
    relation_comments: Sequence[Sequence[str]] = (),
    commented_out: Collection[str] = (),
    table_path: Sequence[str] = (),
) -> str:
    """Writes the form of a schema as TOML text.

    Args:
        form: The form. A value that is `...` is written as a comment to be filled in.
        column_comments: Lines of comment above each column, by its name.
        constraint_comments: Lines of comment above each constraint, in order; there may
            be fewer.
        relation_comments: Lines of comment above each relation, likewise.
        commented_out: Columns that are written as comments; of one whose form is empty,
            only its own comment is.
        table_path: Names of the TOML table below which all of it stands, such as
            `("tables", "visits")`.

    Returns:
        Plain keys first, then `[file]`, `[images]`, a table `[columns.NAME]` for each
        column, `[[relations]]` and `[[constraints]]`, with blank lines between them.
    """
    plain = {
        key: value
        for key, value in form.items()
        if key not in ("file", "images", "columns", "relations", "constraints")
    }
    prefix = "".join(f"{_key(name)}." for name in table_path)
    blocks = []
    if plain or table_path:
        title = f"[{prefix.removesuffix('.')}]\n" if table_path else ""
        blocks.append(title + _key_lines(plain))
    if "file" in form:
        blocks.append(f"[{prefix}file]\n{_key_lines(form['file'])}")
    if "images" in form:
        blocks.append(f"[{prefix}images]\n{_key_lines(form['images'])}")

    for name, column in form.get("columns", {}).items():
        lines = f"[{prefix}columns.{_key(name)}]\n{_key_lines(column)}"
        if name in commented_out and column:
            lines = _comment(lines.removesuffix("\n").split("\n"))
        elif name in commented_out:
            lines = ""
        blocks.append(_comment(column_comments.get(name, ())) + lines)

    for key, comments in (
        ("relations", relation_comments),
        ("constraints", constraint_comments),
    ):
        for rule, comment in zip(
            form.get(key, ()), chain(comments, repeat(())), strict=False
        ):
            lines = f"[[{prefix}{key}]]\n{_key_lines(rule)}"
            blocks.append(_comment(comment) + lines)
    return "\n".join(blocks)


def _comment(lines: Sequence[str]) -> str:
    """Writes lines of comment, with ? for characters that no comment may hold."""
    return "".join(f"# {_CONTROL.sub('?', line)}\n" for line in lines)


def _key_lines(form: Mapping[str, Any]) -> str:
    """Writes one line `key = value` for each key of a table."""
    lines = []
    for key, value in form.items():
        if value is ...:
            lines.append(f"# {key} = \n")
        else:
            lines.append(f"{_key(key)} = {_value(value)}\n")
    return "".join(lines)


def _key(name: str) -> str:
    """Writes a key, in quotes if it needs them."""
    return name if _BARE_KEY.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    """Writes text as a basic string, on one line."""

    def escape(match: re.Match[str]) -> str:
        return _SHORT_ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}"

    return f'"{_ESCAPED.sub(escape, text)}"'


def _value(value: Any) -> str:
    """Writes a value: text, number, truth value, date, list or inline table."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list):
        items = [_value(item) for item in value]
        line = ", ".join(items)
        if len(line) < _MAX_LIST_WIDTH:
            return f"[{line}]"
        item_lines = "".join(f"  {item},\n" for item in items)
        return f"[\n{item_lines}]"
    if isinstance(value, Mapping):
        pairs = [f"{_key(name)} = {_value(item)}" for name, item in value.items()]
        return f"{{ {', '.join(pairs)} }}"
    return value.isoformat() if isinstance(value, date) else repr(value)
