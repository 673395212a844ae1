"""Columns of text, truth values and identifiers, as a public sample shows them.

Text becomes a column of levels, if its values are few. What no model should learn is
ignored, with the reason: identifiers, free text, and columns that name another record
of their own table.
"""

import re
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.app.drafts.drafted import DraftedColumn, vocabulary
from noisegate.schema import Boolean, Categorical
from noisegate.schema.columns import Problem
from noisegate.schema.encode import normalized_names
from noisegate.schema.files import first_invisible
from noisegate.schema.parsing import is_text

MAX_LEVELS = 200
"""Text with more distinct values is taken for free text or identifiers."""

# A sample with fewer values shows neither identifiers nor free text.
_MIN_IDENTIFIERS = 30

# Texts of more words than this, in the median, are sentences.
_MAX_LEVEL_WORDS = 3

# Of text with too many values, so many are proposed as levels, if they are so frequent.
_MAX_FREQUENT_LEVELS = 50
_MIN_FREQUENT_RECORDS = 10
_OTHER_LEVEL = "other"

# A sample may lack some of the records that its records refer to.
_MIN_REFERENCES_FOUND = 0.9

# Columns of truth values have two, in a few spellings such as "Yes" and "yes".
_MAX_TRUTH_SPELLINGS = 19

_CASE_CHANGE = re.compile(r"(?<=[a-z])(?=[A-Z])")


def draft_boolean(
    name: str, values: pa.Array, *, missing: bool
) -> DraftedColumn | None:
    """Drafts a column of truth values.

    Args:
        name: Name of the column.
        values: Its distinct values, without missing ones, as Arrow booleans or text.
        missing: Whether a value may be missing.

    Returns:
        The drafted column; None if the values are no two words for true and false.
    """
    if pa.types.is_boolean(values.type):
        return DraftedColumn.from_column(Boolean(name=name, missing=missing))
    if not is_text(values.type) or len(values) > _MAX_TRUTH_SPELLINGS:
        return None

    # Words are read in any case, so one spelling of each is enough; the first stays.
    spelling_of: dict[str, str] = {}
    for word in values.to_pylist():
        spelling_of.setdefault(word.lower(), word)
    if spelling_of.keys() <= {"true", "false"}:
        return DraftedColumn.from_column(Boolean(name=name, missing=missing))
    for true_word, false_word in vocabulary("truth_words"):
        if spelling_of.keys() == {true_word, false_word}:
            column = Boolean(
                name=name,
                missing=missing,
                true_values=(spelling_of[true_word],),
                false_values=(spelling_of[false_word],),
            )
            reason = (
                f"true_values: {true_word!r} and {false_word!r} are taken for true and "
                "false"
            )
            return DraftedColumn.from_column(column, [reason])
    return None


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
    elif _all_match(cells, r"^[0-9+.,:TZ/ -]+$"):
        # Decimals, dates and timestamps are often unique.
        return None
    return DraftedColumn.left_out(
        name,
        f"each of the {len(cells):,} values is there once, as in an identifier, which "
        "must not be learnt",
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
        >>> from noisegate.app.drafts.texts import is_called_identifier
        >>> is_called_identifier("patientId"), is_called_identifier("humid")
        (True, False)
    """
    return re.search(vocabulary("identifiers"), _snake_case(name)) is not None


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
                f"it names another record of the same table, by {column}, and a copy "
                "has none such; if that matters, write what is known of the other "
                "record into columns of this one",
            )
    return None


def share_among(cells: pa.Array, values: pa.Array) -> float:
    """Returns the fraction of cells that are among some values; 0.0 without cells.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate.app.drafts.texts import share_among
        >>> share_among(pa.array(["a", "b", "a", "c"]), pa.array(["a", "b"]))
        0.75
    """
    is_among = pc.is_in(cells, value_set=values).cast(pa.float64())
    return float(pc.mean(is_among).as_py() or 0.0)


def draft_text(name: str, cells: pa.Array, *, missing: bool) -> DraftedColumn:
    """Drafts a column of text as one of levels.

    Args:
        name: Name of the column.
        cells: Its cells without missing ones, (records,), at least one.
        missing: Whether a value may be missing.

    Returns:
        A categorical column; ignored if the values are sentences or more than
        `MAX_LEVELS`, and then with the most frequent ones as what it might become.
    """
    values = pc.unique(cells).to_pylist()
    median_words = float(np.median([len(value.split()) for value in values]))
    if median_words > _MAX_LEVEL_WORDS and len(values) >= _MIN_IDENTIFIERS:
        return DraftedColumn.left_out(
            name, f"{len(values):,} distinct texts: free text, which must not be learnt"
        )
    if len(values) <= MAX_LEVELS:
        column = Categorical(name=name, levels=tuple(sorted(values)), missing=missing)
        return DraftedColumn.from_column(column)

    reason = (
        f"{len(values):,} distinct texts, more than {MAX_LEVELS}: free text, or a code "
        "with many values"
    )
    frequent_levels = _frequent_levels(cells)
    if not frequent_levels:
        return DraftedColumn.left_out(name, reason)
    other_level = _OTHER_LEVEL
    if other_level in frequent_levels:
        other_level = f"({_OTHER_LEVEL})"
    form: dict[str, Any] = {
        "kind": Categorical.kind,
        "levels": [*frequent_levels, other_level],
        "other": other_level,
    }
    if missing:
        form["missing"] = True
    reason += (
        f". If the {len(frequent_levels)} most frequent are worth keeping, read them "
        "through"
    )
    return DraftedColumn.left_out(name, reason, form)


def _frequent_levels(cells: pa.Array) -> list[str]:
    """Returns the most frequent texts that a reader can see, in alphabetical order."""
    counts = pc.value_counts(cells).to_pylist()
    ranked = sorted(
        ((count["counts"], count["values"]) for count in counts), reverse=True
    )
    return sorted(
        text
        for records, text in ranked[:_MAX_FREQUENT_LEVELS]
        if records >= _MIN_FREQUENT_RECORDS and not first_invisible(text)
    )
