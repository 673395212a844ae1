"""Formats: how text writes numbers, days and points in time.

A schema may state the format of a column, such as `"$#,##0.00"` or `"%d.%m.%Y"`. Which
patterns there are follows from the kind of the column: `NUMBER_FORMATS`,
`CLOCK_FORMATS`, or `TextFormats` of its own. Cells are translated, one distinct text at
a time::

    "03.01.2020"  ── parse ──►  "2020-01-03 00:00:00"    (format "%d.%m.%Y")
    "$1,234.50"   ── parse ──►  "1234.50"                (format "$#,##0.00")
    and back      ◄── write ───

What a column's kind is read from is plain text on the right, which `encode` parses.

Formats of numbers are patterns as in spreadsheets: text before, `#,##0` with a mark of
thousands, or `0`; a point and a 0 for each decimal; text after; `;(...)` where negative
numbers stand in brackets. Formats of days and times have fields as in `strftime`::

    %Y %y year      %m %b %B month, as number, "Jan", "January"      %d day
    %H %I hour, 0-23 or 1-12      %p AM or PM      %M minute      %S second

A minus, as in `%-d`, leaves out a zero in front.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from noisegate.errors import SchemaError

# pyarrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import pyarrow as pa

_MONTH_NAMES = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
# Number of each month, in two digits, by its name or three letters of it, in lower
# case.
_MONTH_NUMBERS = {
    text.lower(): f"{number:02}"
    for number, name in enumerate(_MONTH_NAMES, start=1)
    for text in (name, name[:3])
}

# A field such as %d or %-d: a minus or nothing, and its letter.
_FIELD = re.compile(r"%(-?)([YymdHMSbBIp])")
# What each field looks like in a cell; the others have two digits.
_FIELD_PATTERNS = {
    "Y": "[0-9]{4}",
    "b": "[A-Za-z]{3}",
    "B": "[A-Za-z]{3,9}",
    "p": "[AaPp][Mm]",
}
# Fields that state the same thing as another one.
_SAME_FIELDS = str.maketrans("ybBI", "YmmH")

# A pattern of numbers: text before, mark of thousands, point, decimals, text after, and
# brackets for negative numbers.
_NUMBER_FORMAT = re.compile(
    r"([^#0-9;]*)(?:#([^#0-9])##)?0(?:([.,])(0+))?([^#0-9;]*)(;\(.*\))?"
)

# Digits of a second behind the point of a spelling: ".%3f", or ".%f" for all six.
_FRACTION = re.compile(r"\.%(\d?)f")
# For these digits, the unit of Arrow in which a time has as many.
_UNIT_OF_DIGITS = {None: "s", "3": "ms", "": "us", "6": "us"}

MINUS_SIGN = "\u2212"
"""The minus of typesetters, which is read as a hyphen."""

# A text that no number is read from.
_UNREADABLE = "in another format"


class _NumberFormat(NamedTuple):
    """The parts of a pattern such as `$#,##0.00 each;(1)`.

    Attributes:
        prefix: Text before the number, "$".
        thousands_mark: Mark between thousands, ","; empty for none.
        point: The decimal point, "."; empty if there are no decimals.
        decimals: A 0 for each decimal, "00".
        suffix: Text after the number, " each".
        brackets: Not empty if negative numbers stand in brackets, ";(1)".
    """

    prefix: str
    thousands_mark: str
    point: str
    decimals: str
    suffix: str
    brackets: str


class TextFormats(Protocol):
    """The patterns that the `format` of a kind of column may be.

    Attributes:
        example: One of them, for messages.
    """

    example: str

    def check(self, column_name: str, text_format: Any) -> None:
        """Checks that a format is one of these patterns.

        Raises:
            SchemaError: if it is not.
        """

    def parse(self, text_format: str, cells: pa.Array) -> pa.Array:
        """Translates cells without nulls from a format to plain text."""

    def write(self, text_format: str, cells: pa.Array) -> pa.Array:
        """Writes decoded cells in a format; nulls stay."""


class _NumberFormats:
    """Patterns of numbers, as in spreadsheets."""

    example = "#.##0,00"

    def check(self, column_name: str, text_format: Any) -> None:
        """Checks that a format is a pattern of a number."""
        is_pattern = (
            isinstance(text_format, str)
            and _NUMBER_FORMAT.fullmatch(text_format) is not None
        )
        if not is_pattern:
            raise unreadable_format(
                column_name, text_format, "'$#,##0.00', '0.0%' or '#.##0,00 €'"
            )

    def parse(self, text_format: str, cells: pa.Array) -> pa.Array:
        """Translates text to plain numbers; other cells are returned as they are.

        A number in another format becomes text that is none.
        """
        if str(cells.type) != "string":
            return cells
        return map_distinct(cells, partial(_plain_number, text_format))

    def write(self, text_format: str, cells: pa.Array) -> pa.Array:
        """Writes numbers in a format."""
        return map_distinct(cells, partial(_format_number, text_format))


class _ClockFormats:
    """Patterns of days and points in time, with fields as in `strftime`."""

    example = "%d.%m.%Y"

    def check(self, column_name: str, text_format: Any) -> None:
        """Checks that a format has fields, each once, and no digits of its own.

        It has both of %I and %p, or neither.
        """
        if not isinstance(text_format, str) or not _is_clock_format(text_format):
            raise unreadable_format(
                column_name, text_format, "'%d.%m.%Y %H:%M', each field once"
            )

    def parse(self, text_format: str, cells: pa.Array) -> pa.Array:
        """Translates text to ISO text, and numbers where the format is digits alone.

        A time in another format stays as it is, and so do other cells.
        """
        is_number = re.match("u?int|double", str(cells.type)) is not None
        if is_number and _is_all_digits(text_format):
            cells = cells.cast("string")
        if str(cells.type) != "string":
            return cells
        return map_distinct(cells, partial(iso_text, text_format))

    def write(self, text_format: str, cells: pa.Array) -> pa.Array:
        """Writes dates or timestamps in a format.

        Returns:
            Text; integers for a format of digits alone that starts with the year, or
            leaves out zeros in front, as programs store such dates.
        """
        seconds = cells.cast("timestamp[s]", safe=False)
        texts = map_distinct(seconds.cast("string"), partial(_format_time, text_format))
        starts_without_zero = text_format.startswith(("%Y", "%-"))
        if _is_all_digits(text_format) and starts_without_zero:
            return texts.cast("int64")
        return texts


NUMBER_FORMATS = _NumberFormats()
"""Patterns of numbers, such as "#.##0,00"."""
CLOCK_FORMATS = _ClockFormats()
"""Patterns of days and points in time, such as "%d.%m.%Y"."""


def unreadable_format(column_name: str, text_format: Any, examples: str) -> SchemaError:
    """Returns the error about a format that is none of a kind's patterns."""
    return SchemaError(
        f"column {column_name!r}: format = {text_format!r} cannot be read; expected one "
        f"such as {examples}"
    )


def _is_clock_format(text_format: str) -> bool:
    """Returns whether a format has fields, each once, and can be read in one way."""
    fields = [
        letter.translate(_SAME_FIELDS) for _, letter in _FIELD.findall(text_format)
    ]
    if not fields or len(set(fields)) < len(fields):
        return False
    literal_text = _FIELD.sub("", text_format)
    if re.search("[%0-9]", literal_text):
        return False
    has_half_days = "%p" in text_format
    has_twelve_hours = re.search("%-?I", text_format) is not None
    return has_half_days == has_twelve_hours


def map_distinct(cells: pa.Array, convert: Callable[[Any], str]) -> pa.Array:
    """Converts each distinct cell to text, once; nulls stay."""
    import pyarrow as pa

    encoded = cells.dictionary_encode()
    texts = [convert(cell) for cell in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


# --- Days and points in time. ---


def _is_all_digits(text_format: str) -> bool:
    """Returns whether a format has fields of digits alone, such as %Y%m%d."""
    return not re.sub(r"%-?[YmdHMS]", "", text_format)


@lru_cache(maxsize=1024)
def _clock_pattern(text_format: str) -> re.Pattern[str]:
    """Returns the pattern of cells in a format, with a group named by each field."""
    # Literal text, a minus or nothing, the letter of a field, and so on; then the rest.
    *pieces, rest = _FIELD.split(text_format)
    pattern = ""
    for literal, minus, letter in zip(
        pieces[0::3], pieces[1::3], pieces[2::3], strict=True
    ):
        digits = "[0-9]{1,2}" if minus else "[0-9]{2}"
        field_pattern = _FIELD_PATTERNS.get(letter, digits)
        pattern += f"{re.escape(literal)}(?P<{letter}>{field_pattern})"
    return re.compile(pattern + re.escape(rest))


def iso_text(text_format: str, cell: str) -> str:
    """Translates a cell of a day or time to ISO text.

    Fields that the format does not have are those of 1970-01-01 00:00:00.

    Args:
        text_format: Format with fields.
        cell: The cell, without blanks around it.

    Returns:
        ISO text; the cell as it is if it is not written in the format.

    Examples:
        >>> from noisegate.schema.formats import iso_text
        >>> iso_text("%d.%m.%Y", "03.01.2020")
        '2020-01-03 00:00:00'
    """
    text = cell
    if _is_all_digits(text_format):
        # Programs store such cells as numbers, without zeros in front, and as floats as
        # soon as one record has none.
        field_count = len(_FIELD.findall(text_format))
        width = 2 * field_count + (2 if "Y" in text_format else 0)
        text = cell.removesuffix(".0").zfill(width)
    match = _clock_pattern(text_format).fullmatch(text)
    if match is None:
        return cell

    fields = {"Y": "1970", "m": "1", "d": "1", "H": "0", "M": "0", "S": "0"}
    fields |= match.groupdict()
    month_name = fields.get("b", fields.get("B", ""))
    fields["m"] = _MONTH_NUMBERS.get(month_name.lower(), fields["m"])
    if "y" in fields:
        # As in POSIX, 69 to 99 are the last century's.
        century = "19" if fields["y"] >= "69" else "20"
        fields["Y"] = century + fields["y"]
    if "I" in fields:
        is_afternoon = fields.get("p", "").lower() == "pm"
        fields["H"] = str(int(fields["I"]) % 12 + (12 if is_afternoon else 0))
    return "{Y}-{m:0>2}-{d:0>2} {H:0>2}:{M:0>2}:{S:0>2}".format_map(fields)


def _format_time(text_format: str, timestamp: str) -> str:
    """Writes a timestamp such as "2020-01-03 00:00:00" in a format with fields."""
    year, month, day, hour, minute, second = re.split("[-: ]", timestamp)
    month_name = _MONTH_NAMES[int(month) - 1]
    fields = {
        "Y": year,
        "y": year[2:],
        "m": month,
        "b": month_name[:3],
        "B": month_name,
        "d": day,
        "H": hour,
        "I": f"{(int(hour) + 11) % 12 + 1:02}",
        "p": "AM" if hour < "12" else "PM",
        "M": minute,
        "S": second,
    }

    def write(match: re.Match[str]) -> str:
        minus, letter = match.groups()
        return fields[letter].removeprefix("0" if minus else "")

    return _FIELD.sub(write, text_format)


def write_times(spelling: str, cells: pa.Array) -> pa.Array:
    """Writes days or points in time as text.

    Args:
        spelling: The fields, as Arrow's `strftime` knows them, with ".%3f" or ".%f" for
            digits of a second.
        cells: Dates or timestamps; nulls stay.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    fraction = _FRACTION.search(spelling)
    digits = None if fraction is None else fraction[1]
    time_zone = getattr(cells.type, "tz", None)
    # Arrow's %S writes the fraction that the unit has.
    unit = pa.timestamp(_UNIT_OF_DIGITS[digits], tz=time_zone)
    return pc.strftime(cells.cast(unit, safe=False), format=_FRACTION.sub("", spelling))


# --- Numbers. ---


def _number_format(text_format: str) -> _NumberFormat:
    """Returns the parts of a pattern of numbers."""
    return _NumberFormat(*_NUMBER_FORMAT.findall(text_format)[0])


@lru_cache
def _number_pattern(text_format: str) -> re.Pattern[str]:
    """Returns the pattern of cells in a format.

    Its groups: opening bracket, sign before and after the prefix, integer part,
    decimals, exponent, closing bracket. All but the integer part may be left out.
    """
    # Blanks around a prefix or suffix do not count; a part of blanks alone does.
    parts = [re.escape(part.strip() or part) for part in _number_format(text_format)]
    prefix, mark, point, _, suffix, _ = parts
    integer = rf"[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+|[0-9]+" if mark else "[0-9]+"
    decimals = rf"(?:{point}([0-9]+))?" if point else "()"
    return re.compile(
        rf"(\()?([-+]?)(?:{prefix})?\s*([-+]?)({integer}){decimals}"
        r"((?:[eE][-+]?[0-9]{1,4})?)\s*"
        rf"(?:{suffix})?(\))?"
    )


def _plain_number(text_format: str, cell: str) -> str:
    """Translates a cell of a number to plain digits, "-1234.5".

    A cell in another format becomes text that is no number, even if it looks like one:
    1.5 may be one and a half, or not, where 1.234 is a thousand.
    """
    hyphenated = cell.replace(MINUS_SIGN, "-")
    match = _number_pattern(text_format).fullmatch(hyphenated)
    if match is None:
        return _UNREADABLE
    opening, first_sign, second_sign, integer, decimals, exponent, closing = (
        match.groups()
    )
    if bool(opening) != bool(closing):
        return _UNREADABLE
    # Nobody groups the digits before an exponent: 1,234e3 is 1234 with a decimal comma.
    if exponent and not integer.isdecimal():
        return _UNREADABLE
    is_negative = "-" in first_sign + second_sign or opening is not None
    sign = "-" if is_negative else ""
    digits = re.sub("[^0-9]", "", integer)
    return f"{sign}{digits}.{decimals or 0}{exponent}"


def _format_number(text_format: str, number: float) -> str:
    """Writes a number in a format, rounded to its decimals."""
    parts = _number_format(text_format)
    english = f"{abs(number):,.{len(parts.decimals)}f}"
    digits = english.translate({ord(","): parts.thousands_mark, ord("."): parts.point})
    text = f"{parts.prefix}{digits}{parts.suffix}"
    rounds_to_zero = not re.search("[1-9]", digits)
    if number >= 0 or rounds_to_zero:
        return text
    return f"({text})" if parts.brackets else f"-{text}"
