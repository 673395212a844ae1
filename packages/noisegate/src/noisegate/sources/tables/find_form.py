"""Finds out how a text file is written: its separator, its encoding, its numbers.

Of a public file, a draft of a schema states what is found. Of a private file it decides
on no cell: what is found only words the refusal of a file that does not fit, with the
lines that the schema needs. The operator who reads them has the file. They hold no
value of a record.

::

    bytes ──► encoding ──► lines ──► separator, header ──► columns ──► decimal mark
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from noisegate.errors import DataError
from noisegate.schema.checks import TEXT_PADDING
from noisegate.schema.file_form import UTF_8, FileForm
from noisegate.schema.files import write_toml
from noisegate.sources.stores import open_file
from noisegate.sources.tables.text_stream import (
    Packing,
    RecordProblem,
    read_text_of,
)

# Bytes by which separator, header and numbers are found; the encoding takes all bytes.
_SAMPLE_BYTES = 1 << 18
_CHUNK_BYTES = 1 << 20
# Lines among which the names of the columns are looked for.
_MAX_LINES_BEFORE_HEADER = 30
# Records that are examined.
_MAX_RECORDS = 2000
# The share of records that must have as many fields as the header.
_MIN_CONSISTENT_SHARE = 0.9

_SEPARATORS = (",", ";", "\t", "|")
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
# Bytes that Windows-1252 leaves free, and those that are letters in it and control
# characters in Latin-1.
_UNUSED_IN_CP1252 = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")

# Numbers with a decimal comma, whose thousands may have points, and other ones.
_COMMA_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]+)(?:,[0-9]+)?(?:[eE][+-]?[0-9]+)?"
)
_GROUPED_NUMBER = re.compile(r"[+-]?[0-9]{1,3}(?:\.[0-9]{3})+(?:,[0-9]+)?")
_POINT_NUMBER = re.compile(r"[+-]?[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?")
# Cells of no column, such as marks of missing values.
_WORDS = re.compile(r"[^0-9]*")
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,:/-]*")


@dataclass(frozen=True)
class _Table:
    """How text may be cut into records.

    Attributes:
        separator: What stands between fields.
        skip: Number of lines before the header.
        header: The names in the header.
        records: Some records behind it, those with as many fields.
    """

    separator: str
    skip: int
    header: tuple[str, ...]
    records: Sequence[Sequence[str]]


def find_form(
    path: Path,
    packing: Packing = "",
    *,
    expected: Collection[str] = (),
    number_columns: Collection[str] | None = None,
) -> FileForm | None:
    """Finds out how a text file is written.

    Args:
        path: The file.
        packing: How it is packed.
        expected: Names of columns that its header must hold, if they are known.
        number_columns: The columns that hold numbers; None if it is not known.

    Returns:
        Its form; None if nobody can tell: the file is empty or broken, or no line of it
        holds all expected names.

    Raises:
        OSError: if the file cannot be read.
    """
    encoding = _find_encoding(path, packing)
    text = None if encoding is None else _read_sample(path, packing, encoding)
    if encoding is None or not text:
        return None
    table = _find_table(text, frozenset(expected))
    if table is None:
        return None
    form = FileForm(separator=table.separator, encoding=encoding, skip=table.skip)
    # Text with commas between cells has numbers with points, or quotes them; such
    # columns have formats of their own.
    if table.separator == ",":
        return form
    return _with_number_marks(form, table, number_columns)


def lines_to_add(found: FileForm, stated: FileForm) -> str:
    r"""Returns the lines of `[file]` by which a schema reads a file as it is.

    Args:
        found: The form of the file.
        stated: The form that the schema states.

    Returns:
        Lines of TOML, empty if the two forms are the same but for what cannot be found.

    Examples:
        >>> from noisegate.schema import FileForm
        >>> lines_to_add(FileForm(separator=";", skip=2), FileForm(skip=2))
        '[file]\nseparator = ";"\nskip = 2\n'
    """
    # Numbers are judged by columns that hold some; without any, nothing was found.
    wanted = replace(found, header=stated.header, sheet=stated.sheet)
    if found.decimal == FileForm.decimal and not found.thousands:
        wanted = replace(wanted, decimal=stated.decimal, thousands=stated.thousands)
    if _same_text(found.encoding, stated.encoding):
        wanted = replace(wanted, encoding=stated.encoding)
    if wanted == stated:
        return ""
    form = wanted.form()
    if not form:
        # What the schema states is wrong, and the default is right.
        form = {
            key: getattr(wanted, key)
            for key in stated.form()
            if getattr(wanted, key) != getattr(stated, key)
        }
    return write_toml({"file": form})


def _same_text(first: str, second: str) -> bool:
    """Returns whether two encodings that were distinguished by few bytes may be one."""
    names = {codecs.lookup(name).name for name in (first, second)}
    # All of these read any byte, or nearly so, and only a reader can tell which is
    # right.
    return len(names) == 1 or (UTF_8 not in names and "utf-16" not in " ".join(names))


def _find_encoding(path: Path, packing: Packing) -> str | None:
    """Finds the encoding of all bytes of a file; None if the file is broken."""
    decoder = codecs.getincrementaldecoder(UTF_8)()
    is_utf_8 = True
    has_bytes_unused_in_cp1252 = False
    is_first_chunk = True
    with read_text_of(open_file(path), path, packing=packing) as stream:
        try:
            while chunk := stream.read(_CHUNK_BYTES):
                if is_first_chunk:
                    wide_encoding = _find_wide_encoding(chunk)
                    if wide_encoding is not None:
                        return wide_encoding
                    is_first_chunk = False
                if is_utf_8:
                    is_utf_8 = _decodes(decoder, chunk, final=False)
                if _UNUSED_IN_CP1252.search(chunk):
                    has_bytes_unused_in_cp1252 = True
        except RecordProblem:
            return None
    if is_utf_8 and _decodes(decoder, b"", final=True):
        return UTF_8
    return "latin-1" if has_bytes_unused_in_cp1252 else "cp1252"


def _decodes(
    decoder: codecs.IncrementalDecoder, content: bytes, *, final: bool
) -> bool:
    """Returns whether a decoder takes bytes."""
    try:
        decoder.decode(content, final)
    except UnicodeDecodeError:
        return False
    return True


def _find_wide_encoding(content: bytes) -> str | None:
    """Returns the encoding of text with two bytes for each character, else None."""
    if content.startswith(_UTF_16_MARKS):
        return "utf-16"
    # Without a mark, every other byte of western text is 0.
    pairs = len(content) // 2
    if pairs and content[0::2].count(0) > pairs // 2:
        return "utf-16-be"
    if pairs and content[1::2].count(0) > pairs // 2:
        return "utf-16-le"
    return None


def _read_sample(path: Path, packing: Packing, encoding: str) -> str:
    """Returns the first lines of a file, all of them complete."""
    content = b""
    has_ended = False
    with read_text_of(
        open_file(path), path, packing=packing, encoding=encoding
    ) as stream:
        try:
            while len(content) < _SAMPLE_BYTES and not has_ended:
                chunk = stream.read(_SAMPLE_BYTES - len(content))
                has_ended = not chunk
                content += chunk
        except RecordProblem:
            return ""
    text = content.decode(errors="replace").removeprefix("\ufeff")
    if has_ended:
        return text
    last_line_end = max(text.rfind("\n"), text.rfind("\r"))
    return text[: last_line_end + 1]


def _find_table(text: str, expected: frozenset[str]) -> _Table | None:
    """Finds separator and header of a text.

    Args:
        text: The first lines of a file.
        expected: Names that the header must hold; empty if they are not known.

    Returns:
        Of all ways to read it that are consistent, the one with the most columns, and
        of these the one that skips the fewest lines; None if there is none.
    """
    lines = io.StringIO(text, newline="").readlines()
    tables = []
    for separator in _SEPARATORS:
        for skip in range(min(_MAX_LINES_BEFORE_HEADER, len(lines))):
            table = _cut(lines, separator, skip)
            if table is not None and _is_plausible(table, expected):
                tables.append(table)
                break
    if not tables:
        return None
    return min(tables, key=lambda table: (-len(table.header), table.skip))


def _cut(lines: Sequence[str], separator: str, skip: int) -> _Table | None:
    """Cuts text into records behind some lines; None if they do not belong together."""
    content = "".join(lines[skip:])
    if not lines[skip].strip(TEXT_PADDING):
        # An empty line is passed over anyway.
        return None
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(content, newline=""), delimiter=separator):
            if row:
                rows.append(row)
            if len(rows) > _MAX_RECORDS:
                break
    except csv.Error:
        return None
    if not rows:
        return None
    header = tuple(name.strip(TEXT_PADDING) for name in rows[0])
    records = [row for row in rows[1:] if len(row) == len(header)]
    if len(records) < _MIN_CONSISTENT_SHARE * (len(rows) - 1):
        return None
    return _Table(separator, skip, header, records)


def _is_plausible(table: _Table, expected: frozenset[str]) -> bool:
    """Returns whether the first row of a table may be its header."""
    if expected:
        return expected <= set(table.header)
    # One column is separated by nothing.
    if len(table.header) == 1 and table.separator != ",":
        return False
    header_counts = Counter(table.header)
    are_names = all(
        name and count == 1 and not _NUMBER.fullmatch(name)
        for name, count in header_counts.items()
    )
    # Below some lines, what is taken for names may be a record as others are.
    is_record = table.skip > 0 and any(
        record[position] == name
        for position, name in enumerate(table.header)
        for record in table.records
    )
    return are_names and not is_record


def _with_number_marks(
    form: FileForm, table: _Table, number_columns: Collection[str] | None
) -> FileForm:
    """Adds the marks of decimals and thousands that all columns of numbers share.

    Args:
        form: The form found so far.
        table: Some records.
        number_columns: The columns that hold numbers; None if it is not known.
    """
    has_decimal_comma = False
    has_decimal_point = False
    has_thousands = False
    for position, name in enumerate(table.header):
        if number_columns is not None and name not in number_columns:
            continue
        cells = [record[position].strip(TEXT_PADDING) for record in table.records]
        cells = [cell for cell in cells if not _WORDS.fullmatch(cell)]
        if not cells:
            continue
        if all(_COMMA_NUMBER.fullmatch(cell) for cell in cells):
            has_decimal_comma |= any("," in cell for cell in cells)
            has_thousands |= any(_GROUPED_NUMBER.fullmatch(cell) for cell in cells)
        elif any(_POINT_NUMBER.fullmatch(cell) for cell in cells):
            has_decimal_point = True
    if not has_decimal_comma or has_decimal_point:
        return form
    return replace(form, decimal=",", thousands="." if has_thousands else "")


def form_hint(
    path: Path,
    packing: Packing,
    stated: FileForm,
    *,
    names: Collection[str],
    number_columns: Collection[str],
) -> str:
    """Words what a schema needs to read a file as it is, for the end of a refusal.

    Args:
        path: The file.
        packing: How it is packed.
        stated: The form that the schema states.
        names: The columns of the schema; none if there is no schema yet.
        number_columns: Those that hold numbers as the form says.

    Returns:
        Text with the lines for the schema; empty if there is nothing to add, or nobody
        can tell.
    """
    # Without a line of names, nothing says which cut is right.
    if stated.header is not True:
        return ""
    try:
        found = find_form(
            path,
            packing,
            expected=names,
            number_columns=number_columns if names else None,
        )
    except (OSError, DataError):
        return ""
    lines = "" if found is None else lines_to_add(found, stated)
    if not lines:
        return ""
    return f"; or have the file read as it is, by these lines in the schema:\n\n{lines}"
