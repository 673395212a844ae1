"""Columns that name records, or whose records they are, as a public sample shows them.

None should be learnt, so each is ignored, with the reason:

- identifiers, where each record has a value of its own;
- long codes, such as UUIDs and hashes;
- repeated identifiers, where several records are of one person, whom a fit can protect
  with all of them;
- references, which name another record of their own table.
"""

import re
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.app.drafts.drafted import DraftedColumn, vocabulary
from noisegate.errors import said
from noisegate.schema.columns import Problem
from noisegate.schema.encode import normalized_names
from noisegate.schema.parsing import is_text, parse_floats

# A sample with fewer values shows no identifiers.
_MIN_IDENTIFIERS = 30

# A sample may lack some of the records that its records refer to.
_MIN_REFERENCES_FOUND = 0.9

# Persons are as many at least. A column that is called like an identifier, but not of
# whom, has more values, each in few records: a ward is in many.
_MIN_PERSONS = 10
_MIN_OTHER_UNITS = 100
_MAX_RECORDS_PER_OTHER_UNIT = 20
# So many long codes are no levels.
_MIN_LONG_CODES = 10
# A column that is called "patient" alone has values that are about equally frequent,
# and not in very many records, unlike numbers of patients.
_MAX_RECORDS_PER_PERSON = 100
_MAX_FREQUENCY_RATIO = 5

_DATE_LIKE = r"^[0-9+.,:TZ/ -]+$"
_CASE_CHANGE = re.compile(r"(?<=[a-z])(?=[A-Z])")


def draft_identifier(name: str, cells: pa.Array) -> DraftedColumn | None:
    """Drafts a column of identifiers, where each record has a value of its own.

    Integers are identifiers only if the column is called like one, or if they number
    the records; text only if it is no number, date or timestamp.

    Args:
        name: Name of the column.
        cells: Its cells without missing ones, (records,).

    Returns:
        The column, ignored; None if the cells are no identifiers.
    """
    if len(cells) < _MIN_IDENTIFIERS:
        return None
    is_unique = pc.count_distinct(cells).as_py() == len(cells)
    if not is_unique:
        return None

    holds_text = is_text(cells.type)
    if not holds_text and not pa.types.is_integer(cells.type):
        return None
    holds_integers = not holds_text or _all_match(cells, r"^[+-]?[0-9]+$")
    if holds_integers:
        if not is_called_identifier(name) and not _number_records(cells):
            return None
    elif _all_match(cells, _DATE_LIKE) or not parse_floats(cells).is_bad.any():
        # Decimals, dates and timestamps are often unique.
        return None
    return DraftedColumn.left_out(
        name,
        f"each of the {len(cells):,} values occurs once, like an identifier, which "
        "must not be learnt",
    )


def draft_repeated_identifier(name: str, cells: pa.Array) -> DraftedColumn | None:
    """Drafts a column that says whose record each one is, where some have several.

    Its name must say so, as `subject_id` does; `ward_id` and `product_id` do not. It
    would be learnt as a number or as levels, which is of no use, and a fit would
    protect a record in place of a person.

    Args:
        name: Name of the column.
        cells: Its cells without missing ones, (records,).

    Returns:
        The column, ignored, with the options that protect persons; None if the cells
        name no persons, or each of them once.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate.app.drafts.identifiers import draft_repeated_identifier
        >>> subjects = pa.array([*range(1, 41), *range(1, 21)])
        >>> entry = draft_repeated_identifier("subject_id", subjects)
        >>> entry.comments[0][-44:]
        "unit_column='subject_id' and contributions=2"
        >>> draft_repeated_identifier("ward_id", subjects) is None
        True
    """
    try:
        names = normalized_names(cells, name)
    except Problem:
        return None  # values of this type, such as fractions, name nothing
    if not pa.types.is_string(names.type):
        return None
    counts = names.value_counts().field("counts").to_numpy()
    if len(counts) < _MIN_PERSONS or counts.max() < 2:
        return None
    if not _are_persons(name, names, counts):
        return None
    max_records = int(counts.max())
    return DraftedColumn.left_out(
        name,
        f"each of the {len(counts):,} values is in up to {max_records:,} records, as an "
        "identifier of persons, which must not be learnt. One person has up to "
        f"{max_records:,} records: protect persons with "
        f"{_options_of_persons(name, max_records)}",
    )


def _options_of_persons(name: str, max_records: int) -> str:
    """Returns the options that protect persons, as the reader types them."""
    unit_column = said("unit_column", name)
    return f"{unit_column} and {said('contributions', max_records)}"


def draft_long_code(name: str, cells: pa.Array) -> DraftedColumn | None:
    """Drafts a column of long codes that programs make, such as UUIDs and hashes.

    Args:
        name: Name of the column.
        cells: Its cells without missing ones, (records,).

    Returns:
        The column, ignored, since they name persons or things, however few; None for
        other text, and for digits alone, which may be amounts.
    """
    texts = cells.unique()
    if not is_text(texts.type) or len(texts) < _MIN_LONG_CODES:
        return None
    are_numbers = _all_match(texts, "^[0-9]+$")
    if are_numbers or not _all_match(texts, vocabulary("long_codes")):
        return None
    max_records = int(pc.max(pc.value_counts(cells).field("counts")).as_py())
    reason = (
        f"each of the {len(texts):,} values is a long code, like an identifier, "
        "which must not be learnt"
    )
    if max_records > 1:
        reason += (
            f". If one person has up to {max_records:,} records: protect persons with "
            f"{_options_of_persons(name, max_records)}"
        )
    return DraftedColumn.left_out(name, reason)


def _are_persons(name: str, names: pa.Array, counts: npt.NDArray[np.int64]) -> bool:
    """Returns whether repeated values are identifiers of persons, or of other units.

    Args:
        name: Name of the column.
        names: The values, (records,).
        counts: The number of records with each distinct value, (values,).
    """
    words = _snake_case(name)
    if re.search(vocabulary("person_identifiers"), words):
        return True
    records_per_value = len(names) / len(counts)
    if re.search(vocabulary("persons"), words):
        are_numbered = _all_match(names, r"[0-9]")
        are_even = counts.max() <= _MAX_FREQUENCY_RATIO * records_per_value
        return (
            are_numbered and are_even and records_per_value <= _MAX_RECORDS_PER_PERSON
        )
    is_of_group = is_called_code(name) or re.search(
        vocabulary("group_identifiers"), words
    )
    return (
        is_called_identifier(name)
        and not is_of_group
        and len(counts) >= _MIN_OTHER_UNITS
        and records_per_value <= _MAX_RECORDS_PER_OTHER_UNIT
    )


def _all_match(texts: pa.Array, pattern: str) -> bool:
    """Returns whether every text matches a regular expression."""
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _number_records(cells: pa.Array) -> bool:
    """Returns whether distinct integers look like numbers of records.

    They do if they are 0, 1, 2, ... or 1, 2, 3, ... in any order, or if their range is
    so narrow that as many measured numbers would not all differ.
    """
    try:
        numbers = np.sort(cells.cast(pa.int64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        return False
    count = len(numbers)
    width = float(numbers[-1]) - float(numbers[0])
    is_consecutive = numbers[0] in (0, 1) and width == count - 1
    # n numbers drawn from w values all differ with a chance of about exp(-n² / 2w),
    # which is below 10⁻⁶ here.
    is_narrow = count**2 > 30 * (width + 1)
    return bool(is_consecutive or is_narrow)


def is_called_identifier(name: str) -> bool:
    """Returns whether a column is called as identifiers are.

    Examples:
        >>> from noisegate.app.drafts.identifiers import is_called_identifier
        >>> is_called_identifier("patientId"), is_called_identifier("humid")
        (True, False)
    """
    words = _snake_case(name)
    return any(
        re.search(vocabulary(pattern), words) is not None
        for pattern in ("identifiers", "person_identifiers")
    )


def is_called_code(name: str) -> bool:
    """Returns whether a column is called as codes of places and the like are.

    Examples:
        >>> from noisegate.app.drafts.identifiers import is_called_code
        >>> is_called_code("zipCode"), is_called_code("decode")
        (True, False)
    """
    return re.search(vocabulary("codes"), _snake_case(name)) is not None


def _snake_case(name: str) -> str:
    """Returns a name in small letters, with a mark at each change to capitals."""
    return _CASE_CHANGE.sub("_", name).lower()


def draft_reference(name: str, table: pa.Table) -> DraftedColumn | None:
    """Drafts a column that names other records of its own table, such as reports_to.

    Args:
        name: Name of the column.
        table: The whole table.

    Returns:
        The column, ignored, since records are sampled one by one; None unless it is
        called like a reference, and nearly all its values are in a column of the table
        where each value stands once.
    """
    if not re.search(vocabulary("references"), _snake_case(name)):
        return None

    names_by_column: dict[str, pa.Array] = {}
    for column in table.column_names:
        # Values of some types, such as floats, name nothing.
        with suppress(Problem):
            names = normalized_names(table[column].combine_chunks(), column)
            names_by_column[column] = names.cast(pa.binary())
    if name not in names_by_column:
        return None

    references = names_by_column.pop(name).drop_null()
    for column, names in names_by_column.items():
        is_key = pc.count_distinct(names, mode="all").as_py() == len(names)
        if is_key and share_among(references, names) >= _MIN_REFERENCES_FOUND:
            return DraftedColumn.left_out(
                name,
                f"it names another record of the same table, by {column}, which a "
                "copy cannot keep; if that matters, add columns that describe the "
                "other record",
            )
    return None


def share_among(cells: pa.Array, values: pa.Array) -> float:
    """Returns the fraction of cells that are among some values; 0.0 without cells.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate.app.drafts.identifiers import share_among
        >>> share_among(pa.array(["a", "b", "a", "c"]), pa.array(["a", "b"]))
        0.75
    """
    is_among = pc.is_in(cells, value_set=values).cast(pa.float64())
    return float(pc.mean(is_among).as_py() or 0.0)
