"""The data dictionary of a REDCap project: https://www.project-redcap.org.

It is a sheet with a row for each field of a form, and is read as a code book:

- A field of checkboxes becomes a column for each choice.
- Dates are exported as 2020-12-31.
- Descriptive fields are not exported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from noisegate.app.drafts.dictionaries.codebook import (
    YES,
    CodebookRow,
    split_codes,
    variable_of_row,
)
from noisegate.app.drafts.dictionaries.dictionary import Dictionary
from noisegate.app.drafts.dictionaries.sheets import Row, rows_below_headings
from noisegate.app.drafts.dictionaries.variable import (
    DECIMAL_COMMA,
    IDENTIFIER,
    Variable,
)
from noisegate.app.drafts.drafted import vocabulary

_HEADINGS: dict[str, str] = vocabulary("redcap_headings")
_TYPES: dict[str, str] = vocabulary("redcap_types")
_VALIDATIONS: dict[str, str] = vocabulary("redcap_validations")
_EXTRA_COLUMNS: list[str] = vocabulary("redcap_extra_columns")

# Groups: the number of decimals, and whether a comma stands before them.
_NUMBER_VALIDATION = re.compile(r"number(?:_([1-4])dp)?(_comma_decimal)?")


@dataclass(frozen=True, kw_only=True)
class _Field:
    """A field of a form, by what `vocabulary.toml` calls its headings; "" if empty.

    Attributes:
        name: Name of the field.
        form: Name of its form.
        type: Its type, such as "text" or "radio".
        label: What is asked.
        choices: Codes with their meanings, as "1, Male | 2, Female".
        validation: What text is checked for, such as "integer" or "date_dmy".
        lower: Smallest value.
        upper: Largest value.
        identifier: Whether it identifies persons.
    """

    name: str
    form: str
    type: str
    label: str
    choices: str
    validation: str
    lower: str
    upper: str
    identifier: str


def read_redcap(rows: Sequence[Row]) -> Dictionary | None:
    """Reads the rows of a sheet as the dictionary of a REDCap project.

    Args:
        rows: The rows of the sheet, those above the headings too.

    Returns:
        The dictionary; None if the rows are none. Its extra columns are those that an
        export may have beside the fields, such as `FORM_complete`.

    Examples:
        >>> from noisegate.app.drafts.dictionaries.redcap import read_redcap
        >>> choices = "Choices, Calculations, OR Slider Labels"
        >>> headings = ["Variable / Field Name", "Field Type", choices]
        >>> fields = [["id", "text", ""], ["pain", "checkbox", "1, head | 2, back"]]
        >>> [variable.name for variable in read_redcap([headings, *fields]).variables]
        ['id', 'pain___1', 'pain___2']
    """
    cells_by_row = rows_below_headings(rows, _HEADINGS, required="choices")
    if cells_by_row is None:
        return None
    fields = [_Field(**cells) for cells in cells_by_row]
    if not any(field.name for field in fields):
        return None
    variables = [
        variable
        for index, field in enumerate(fields)
        for variable in _variables_of_field(field, is_first=index == 0)
    ]
    names = {variable.name for variable in variables}
    forms = dict.fromkeys(field.form for field in fields if field.form)
    form_columns = [
        f"{form}_{suffix}" for form in forms for suffix in ("complete", "timestamp")
    ]
    return Dictionary(
        kind="REDCap data dictionary",
        variables=tuple(variables),
        extra_columns=tuple(
            name for name in (*_EXTRA_COLUMNS, *form_columns) if name not in names
        ),
    )


def _variables_of_field(field: _Field, *, is_first: bool) -> Iterator[Variable]:
    """Yields the columns that a field has in an export.

    Args:
        field: The field.
        is_first: Whether it is the first one, which holds the number of the record.
    """
    name = field.name.strip().lower()
    field_type = field.type.strip().lower()
    if not name or field_type == "descriptive":
        return
    if is_first:
        yield Variable(
            name=name,
            kind=None,
            description=field.label,
            ignored_reason="the number of the record",
        )
    elif field.identifier.strip().lower() in YES:
        yield Variable(
            name=name,
            kind=None,
            description=field.label,
            ignored_reason=f"marked as {IDENTIFIER}",
        )
    elif field_type == "checkbox":
        for code, meaning in split_codes(field.choices):
            # A minus sign becomes an underscore in names.
            suffix = re.sub(r"[^a-z0-9_]", "_", code.lower())
            yield Variable(
                name=f"{name}___{suffix}",
                kind="boolean",
                description=f"{field.label}: {meaning}",
                missing=False,
            )
    else:
        yield _single_variable(name, field_type, field)


def _single_variable(name: str, field_type: str, field: _Field) -> Variable:
    """Returns the column of a field that has one, as a code book would describe it.

    Args:
        name: Name of the column.
        field_type: Type of the field, in small letters.
        field: The field.
    """
    decimals = ""
    if field_type == "text":
        validation = field.validation.strip().lower()
        codebook_type = _type_of_validation(validation)
        number = _NUMBER_VALIDATION.fullmatch(validation)
        if number is not None and number[2]:
            unread_reason = DECIMAL_COMMA
        else:
            unread_reason = (
                f"text of the validation {validation!r}, which has no kind in a schema"
            )
        if number is not None:
            decimals = number[1] or ""
    else:
        codebook_type = _TYPES.get(field_type)
        unread_reason = (
            f"a field of type {field_type or 'unknown'}, which has no kind in a schema"
        )
    if codebook_type is None:
        return Variable(
            name=name,
            kind=None,
            description=field.label,
            ignored_reason=unread_reason,
        )

    lower = field.lower
    upper = field.upper
    if field_type == "slider":
        # REDCap's own bounds.
        lower = lower or "0"
        upper = upper or "100"
    has_choices = field_type in ("radio", "dropdown")
    row = CodebookRow(
        name=name,
        type=codebook_type,
        label=field.label,
        lower=lower,
        upper=upper,
        values=field.choices if has_choices else "",
        decimals=decimals,
    )
    return variable_of_row(row)


def _type_of_validation(validation: str) -> str | None:
    """Returns the code book's type for a validation of text, or None."""
    for pattern, codebook_type in _VALIDATIONS.items():
        if re.fullmatch(pattern, validation):
            return codebook_type
    return None
