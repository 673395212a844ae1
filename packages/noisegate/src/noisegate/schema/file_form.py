"""The form of a text file: how it separates cells, encodes text and writes numbers.

It is public knowledge, which a schema states in its table `[file]`::

    [file]
    separator = ";"        cells     7,5;Zürich;1.200,00
    encoding = "cp1252"
    decimal = ","                     │  plain_numbers
    thousands = "."                   ▼
    skip = 2               numbers   7.5       1200.00

It is never found out from private records: what a cell becomes would depend on others.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from noisegate.errors import SchemaError
from noisegate.schema.checks import (
    TEXT_PADDING,
    checked_column_name,
    checked_integer,
    set_fields,
)
from noisegate.schema.formats import NUMBER_FORMATS

# pyarrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import pyarrow as pa

    from noisegate.schema.columns import Column

UTF_8 = "utf-8"
"""The encoding of a text file if the schema states no other."""

MAX_SKIPPED_LINES = 10_000
"""Largest number of lines before the header."""

# Names of encodings that read as UTF-8, whose byte order mark is passed over anyway.
_NAMES_OF_UTF_8 = ("utf-8", "utf-8-sig", "ascii")
# What every text file holds; an encoding that does not give it back is for other uses.
_PROBE = 'a1,;|\t"\r\n'
_MARKS_OF_THOUSANDS = ("", ".", ",", " ", "'", "’", "\u00a0", "\u202f")
_MARKS_OF_DECIMALS = (".", ",")
# A format that states decimals alone.
_PLAIN_FORMAT = re.compile(r"0(?:\.0+)?")
# Text that begins as a number with a mark does, though it need not be one. Without a
# mark, as in "90+", nothing could be read in two ways.
_LIKE_A_NUMBER = "^[+-]?[0-9]*(?:[.,'’]|[ \u00a0\u202f][0-9])"
# Behind a text that looks like a number and is written otherwise than the file's are,
# so that it is read as none: 1.5 may be one and a half, or not, where 1.234 is a
# thousand.
_IN_ANOTHER_FORM = " (not written as [file] states)"


@dataclass(frozen=True, kw_only=True)
class FileForm:
    """The format of the text files of a table.

    Attributes:
        separator: Character between two cells of a record.
        encoding: Encoding of the text, by its Python name.
        decimal: Decimal mark of numbers in columns without a `format`: "." or ",".
        thousands: Thousands separator that such numbers may have; empty for none. It is
            read, and never written.
        header: Whether a line with the column names precedes the records. False: the
            columns are those of the schema, in order. A list of names: the columns are
            these.
        skip: Number of lines before the header, or before the first record.
        sheet: Name of the sheet of a workbook; empty for the only one.

    Raises:
        SchemaError: if a value is unusable, or two values contradict each other.

    Examples:
        >>> from noisegate.schema.file_form import FileForm
        >>> FileForm(separator=";", decimal=",").form()
        {'separator': ';', 'decimal': ','}
    """

    separator: str = ","
    encoding: str = UTF_8
    decimal: str = "."
    thousands: str = ""
    header: bool | tuple[str, ...] = True
    skip: int = 0
    sheet: str = ""

    def __post_init__(self) -> None:
        _check_separator(self.separator)
        set_fields(
            self,
            encoding=_checked_encoding(self.encoding),
            header=_checked_header(self.header),
            skip=_checked_skip(self.skip),
        )
        if not isinstance(self.sheet, str):
            raise SchemaError(
                f"sheet = {self.sheet!r} must be the name of a sheet, in quotes"
            )
        if self.decimal not in _MARKS_OF_DECIMALS:
            raise SchemaError(f'decimal = {self.decimal!r} must be "." or ","')
        if self.thousands not in _MARKS_OF_THOUSANDS:
            raise SchemaError(
                f"thousands = {self.thousands!r} must be a point, a comma, an "
                "apostrophe or a blank, or left out"
            )
        if self.thousands == self.decimal:
            raise SchemaError(
                f"thousands and decimal are both {self.decimal!r}, and no number could "
                "be read; correct one of them"
            )

    @classmethod
    def from_form(cls, form: Any) -> FileForm:
        """Creates the format from the `[file]` table of a schema file.

        Raises:
            SchemaError: if `form` is not a table, or a key or value is unusable.
        """
        # Imported here, as columns are a larger subject that needs no files.
        from noisegate.schema.columns import check_keys

        if not isinstance(form, Mapping):
            raise SchemaError(
                f"file = {form!r} must be a table; write [file], and under it lines "
                'such as separator = ";"'
            )
        check_keys(form, [field.name for field in fields(cls)], "[file]")
        try:
            return cls(**form)
        except SchemaError as error:
            raise SchemaError(f"[file]: {error}") from None

    def form(self) -> dict[str, Any]:
        """Returns the `[file]` table of a schema file: all values but the defaults."""
        form: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                form[field.name] = list(value) if isinstance(value, tuple) else value
        return form

    @property
    def description(self) -> str:
        """Differences from plain CSV, for people; empty if there are none.

        Examples:
            >>> from noisegate.schema.file_form import FileForm
            >>> FileForm(separator=";", skip=1).description
            "separator ';', skip 1"
        """
        return ", ".join(f"{key} {value!r}" for key, value in self.form().items())

    def names_without_header(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """Returns the columns of a file that has no line with their names.

        Args:
            names: The columns of the schema, in its order.

        Returns:
            The names in the order of the file; None if the file has a header.
        """
        if isinstance(self.header, tuple):
            return self.header
        return None if self.header else tuple(names)

    @property
    def has_own_numbers(self) -> bool:
        """Whether numbers have a decimal comma or a thousands separator."""
        return self.decimal != "." or bool(self.thousands)

    def plain_numbers(self, cells: pa.Array, missing_markers: pa.Array) -> pa.Array:
        """Converts the numbers of a column to plain text, such as 1234.5.

        The result for a cell depends on that cell and the format only.

        Args:
            cells: Text, (cells,); nulls stay.
            missing_markers: Texts that stand for a missing value, and stay.

        Returns:
            Text without surrounding blanks. Numbers in another format become text that
            is not a number.

        Examples:
            >>> import pyarrow as pa
            >>> from noisegate.schema.file_form import FileForm
            >>> form = FileForm(decimal=",", thousands=".")
            >>> cells = pa.array(["1.234,5", "-3", "NA", "1.5"])
            >>> form.plain_numbers(cells, pa.array(["NA"])).to_pylist()
            ['1234.5', '-3', 'NA', '1.5 (not written as [file] states)']
        """
        import pyarrow.compute as pc

        texts = pc.utf8_trim(cells, characters=TEXT_PADDING)
        is_missing = pc.is_in(texts, value_set=missing_markers)
        is_number = pc.match_substring_regex(texts, self._number_pattern)
        is_like_number = pc.match_substring_regex(texts, _LIKE_A_NUMBER)
        plain = texts
        if self.thousands:
            plain = pc.replace_substring(plain, self.thousands, "")
        plain = pc.replace_substring(plain, self.decimal, ".")
        marked = pc.binary_join_element_wise(texts, _IN_ANOTHER_FORM, "")
        others = pc.if_else(is_like_number, marked, texts)
        return pc.if_else(is_missing, texts, pc.if_else(is_number, plain, others))

    def writes_all_numbers(self, cells: pa.Array, missing_markers: pa.Array) -> bool:
        """Returns whether all cells that look like numbers have this format.

        Args:
            cells: Text, (cells,).
            missing_markers: Texts that stand for a missing value.
        """
        import pyarrow.compute as pc

        plain = self.plain_numbers(cells, missing_markers)
        is_in_another_form = pc.ends_with(plain, _IN_ANOTHER_FORM)
        return not pc.any(is_in_another_form).as_py()

    @cached_property
    def _number_pattern(self) -> str:
        """The pattern of a number, for Arrow."""
        integer = "[0-9]+"
        if self.thousands:
            mark = re.escape(self.thousands)
            integer = rf"(?:[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+|[0-9]+)"
        point = re.escape(self.decimal)
        return (
            rf"^[+-]?(?:{integer}(?:{point}[0-9]*)?|{point}[0-9]+)"
            r"(?:[eE][+-]?[0-9]+)?$"
        )

    def write_numbers(self, cells: pa.Array, limits: Sequence[str] = ()) -> pa.Array:
        """Writes numbers as text, with the decimal mark of the format; nulls stay.

        Args:
            cells: Numbers, or text of plain numbers and limits.
            limits: Texts that are not numbers, and stay.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = cells.cast("string")
        numbers = pc.replace_substring(texts, ".", self.decimal)
        if not limits:
            return numbers
        is_limit = pc.is_in(texts, value_set=pa.array(limits, pa.string()))
        return pc.if_else(is_limit, texts, numbers)

    def check_can_write(self, what: str, texts: Sequence[Any]) -> None:
        """Checks that texts can be written in the encoding.

        Args:
            what: Description of the texts, for the message.
            texts: The texts; other values are ignored.

        Raises:
            SchemaError: for the first text that cannot be written.
        """
        if self.encoding == UTF_8:
            return
        for text in texts:
            if not isinstance(text, str):
                continue
            try:
                text.encode(self.encoding)
            except UnicodeEncodeError:
                raise SchemaError(
                    f"{what} {text!r} cannot be written in {self.encoding}, which "
                    "[file] states; correct the encoding there, or the text"
                ) from None


def _check_separator(separator: Any) -> None:
    """Requires one character that stands in no number or word, and is no quote."""
    is_character = isinstance(separator, str) and len(separator) == 1
    is_usable = (
        is_character
        and (separator == "\t" or " " < separator <= "~")
        and not separator.isalnum()
        and separator not in "\"'.+-"
    )
    if not is_usable:
        raise SchemaError(
            f"separator = {separator!r} must be one character between cells, such as "
            '";", "\\t" for a tab, or "|"'
        )


def _checked_encoding(encoding: Any) -> str:
    """Checks that a name is that of an encoding of text, and returns it in lower case.

    All names of UTF-8 become one, with which schemas of such files are equal.
    """
    name = encoding.strip().lower() if isinstance(encoding, str) else ""
    try:
        is_usable = _PROBE.encode(name).decode(name) == _PROBE
        canonical_name = codecs.lookup(name).name
    except (LookupError, UnicodeError):
        is_usable = False
        canonical_name = ""
    if not is_usable or canonical_name in ("utf-7", "idna", "punycode"):
        raise SchemaError(
            f'encoding = {encoding!r} is none that is known; write "utf-8", "cp1252" '
            '(Windows), "latin-1", "utf-16" or another name that Python has'
        )
    return UTF_8 if canonical_name in _NAMES_OF_UTF_8 else name


def _checked_header(header: Any) -> bool | tuple[str, ...]:
    """Checks that `header` is true, false or a list of distinct names."""
    if isinstance(header, bool):
        return header
    if not isinstance(header, list | tuple) or not header:
        raise SchemaError(
            f"header = {header!r} must be true, false, or a list of the columns in the "
            "order of the file"
        )
    names = tuple(checked_column_name(name) for name in header)
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise SchemaError(f"header names {repeated!r} more than once; keep one")
    return names


def _checked_skip(skip: Any) -> int:
    """Checks the number of lines before the header."""
    try:
        line_count = checked_integer("", "skip", skip)
    except SchemaError:
        line_count = -1
    if not 0 <= line_count <= MAX_SKIPPED_LINES:
        raise SchemaError(
            f"skip = {skip!r} must be the number of lines before the header, from 0 to "
            f"{MAX_SKIPPED_LINES:,}"
        )
    return line_count


PLAIN_CSV = FileForm()
"""Text files of a schema that states no form."""


def number_columns(columns: Iterable[Column]) -> frozenset[str]:
    """Returns the columns of plain numbers that have no format of their own.

    A format such as "0.00" only states how many decimals there are.
    """
    return frozenset(
        column.name
        for column in columns
        if column.numeric
        and column.formats is NUMBER_FORMATS
        and (not column.format or _PLAIN_FORMAT.fullmatch(column.format))
    )
