"""Code books: sheets with a row for each variable.

Headings such as name, type, min or values say what stands in each column;
`vocabulary.toml` lists those that are understood.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from noisegate.app.drafts.dictionaries.dictionary import Dictionary
from noisegate.app.drafts.dictionaries.sheets import Row, rows_below_headings
from noisegate.app.drafts.dictionaries.variable import FREE_TEXT, IDENTIFIER, Variable
from noisegate.app.drafts.drafted import vocabulary

YES: frozenset[str] = frozenset(vocabulary("yes"))
_NO: frozenset[str] = frozenset(vocabulary("no"))
_HEADINGS: dict[str, str] = vocabulary("codebook_headings")
_TYPES: dict[str, str] = vocabulary("codebook_types")

# "18-90", "[0, 100]", "2020-01-01 to 2020-12-31".
_RANGE = re.compile(
    r"\s*\[?\s*(-?[0-9.]+|[0-9]{4}-[0-9]{2}-[0-9]{2})\s*"
    r"(?:-|–|\.\.|to|bis|,)\s*([^\s\]]+)\s*\]?\s*"
)


@dataclass(frozen=True, kw_only=True)
class CodebookRow:
    """A row of a code book, by what `vocabulary.toml` calls its headings; "" if empty.

    Attributes:
        name: Name of the variable.
        type: Its type, in words such as "whole number".
        label: What it is.
        lower: Smallest value.
        upper: Largest value.
        range: Both in one cell, such as "18-90".
        values: Its codes with their meanings; in some code books a range.
        missing_codes: Codes for missing values.
        optional: Whether a value may be missing.
        required: Whether none may.
        decimals: Number of decimals.
        step: Distance of two values.
        unit: Its unit.
        identifier: Whether it identifies persons.
    """

    name: str = ""
    type: str = ""
    label: str = ""
    lower: str = ""
    upper: str = ""
    range: str = ""
    values: str = ""
    missing_codes: str = ""
    optional: str = ""
    required: str = ""
    decimals: str = ""
    step: str = ""
    unit: str = ""
    identifier: str = ""

    @property
    def description(self) -> str:
        """The label with the unit."""
        return f"{self.label} [{self.unit}]" if self.unit else self.label

    @property
    def kind(self) -> str | None:
        """The kind that the type stands for; "identifier", "text" or None for none."""
        without_brackets = re.sub(r"\(.*?\)", "", self.type)
        words = re.sub(r"[\s_-]+", " ", without_brackets).strip().lower()
        for kind, pattern in _TYPES.items():
            if re.fullmatch(pattern, words):
                return kind
        return None

    def step_size(self) -> float | None:
        """Returns the distance of two values, or None."""
        try:
            if self.step:
                return float(self.step)
            if self.decimals:
                return float(10.0 ** -int(self.decimals))
        except ValueError:
            pass
        return None


def read_codebook(rows: Sequence[Row]) -> Dictionary | None:
    """Reads the rows of a sheet as a code book.

    Args:
        rows: The rows of the sheet, those above the headings too.

    Returns:
        The code book; None if the rows are none: without a heading for names, or with
        nothing beside them that describes values.

    Examples:
        >>> from noisegate.app.drafts.dictionaries.codebook import read_codebook
        >>> rows = [["variable", "type", "min", "max"], ["age", "integer", "18", "90"]]
        >>> read_codebook(rows).entries[0].form
        {'kind': 'integer', 'lower': 18, 'upper': 90, 'missing': True}
    """
    cells_by_row = rows_below_headings(rows, _HEADINGS, required="name")
    if cells_by_row is None:
        return None
    codebook_rows = [CodebookRow(**cells) for cells in cells_by_row]
    describes_values = any(
        row.type or row.values or row.lower or row.range or row.label
        for row in codebook_rows
    )
    if not describes_values:
        return None
    states_optional = any(row.optional for row in codebook_rows)
    variables = tuple(
        variable_of_row(row, states_optional=states_optional)
        for row in codebook_rows
        if row.name
    )
    if not variables:
        return None
    return Dictionary(kind="code book", variables=variables)


def variable_of_row(row: CodebookRow, *, states_optional: bool = False) -> Variable:
    """Returns the variable that a row of a code book describes.

    Without a type, listed values make it categorical, and bounds continuous.

    Args:
        row: The row.
        states_optional: Whether the code book says of any variable that values may be
            missing. Those of which it says nothing are then never missing.
    """
    kind = row.kind
    if kind == "identifier" or row.identifier.lower() in YES:
        return Variable(
            name=row.name,
            kind=None,
            description=row.description,
            ignored_reason=IDENTIFIER,
        )

    lower = row.lower or None
    upper = row.upper or None
    values = row.values
    has_levels = kind in ("categorical", "ordinal")
    range_match = _RANGE.fullmatch(row.range or ("" if has_levels else values))
    if range_match is not None:
        lower = lower or range_match[1]
        upper = upper or range_match[2]
        if not row.range:
            values = ""
    has_no_codes = kind in ("date", "datetime", "boolean")
    levels = [] if has_no_codes else split_codes(values)

    is_untyped = kind in ("text", None)
    if is_untyped and not levels and not lower and not upper:
        return Variable(
            name=row.name,
            kind=None,
            description=row.description,
            ignored_reason=FREE_TEXT if kind else None,
        )
    # Codes of a number with bounds are single values with a meaning.
    is_bounded_number = kind in ("integer", "continuous") and lower is not None
    if levels and not is_bounded_number:
        if kind != "ordinal":
            kind = "categorical"
    elif is_untyped:
        kind = "continuous"
    return Variable(
        name=row.name,
        kind=kind,
        description=row.description,
        lower=lower,
        upper=upper,
        levels=levels,
        step=row.step_size(),
        missing=_may_be_missing(row, states_optional=states_optional),
        missing_codes=tuple(
            code
            for code, _ in split_codes(row.missing_codes)
            if re.fullmatch(r"-?[0-9.]+", code)
        ),
    )


def _may_be_missing(row: CodebookRow, *, states_optional: bool) -> bool | None:
    """Returns whether values may be missing; None if the code book does not say."""
    if row.required:
        return row.required.lower() not in YES
    if states_optional:
        return row.optional.lower() not in _NO
    return None


def split_codes(text: str) -> list[tuple[str, str]]:
    """Splits a list of codes.

    Args:
        text: Codes separated by bars, lines, semicolons or commas, each with its
            meaning behind an equals sign, a colon, a dash or a comma, or without.

    Returns:
        Each code with its meaning, or "".

    Examples:
        >>> from noisegate.app.drafts.dictionaries.codebook import split_codes
        >>> split_codes("1=Male | 2=Female")
        [('1', 'Male'), ('2', 'Female')]
        >>> split_codes("1, Male | 2, Female")
        [('1', 'Male'), ('2', 'Female')]
        >>> split_codes("Male; Female")
        [('Male', ''), ('Female', '')]
    """
    separator = next((mark for mark in ("|", "\n", ";") if mark in text), None)
    items = [item.strip() for item in text.split(separator or ",")]
    items = [item for item in items if item]
    if separator and all(re.match(r"[^,=:]{1,20},", item) for item in items):
        equals = r"\s*,\s*"
    elif separator or "=" in text or ":" in text:
        equals = r"\s*(?:=|:|\s-\s)\s*"
    else:
        return [(_bare(item), "") for item in items]
    codes = []
    for item in items:
        code, *meanings = re.split(equals, item, maxsplit=1)
        codes.append((_bare(code), _bare(meanings[0]) if meanings else ""))
    return codes


def _bare(text: str) -> str:
    """Returns text without blanks and quotes around it."""
    return text.strip().strip("\"'").strip()
