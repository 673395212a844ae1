"""Columns of text and truth values, as a public sample shows them.

Text becomes a column of levels, if its values are few. Free text, which no model should
learn, is ignored, with the reason.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.app.drafts.drafted import DraftedColumn, vocabulary
from noisegate.schema import Boolean, Categorical
from noisegate.schema.files import first_invisible
from noisegate.schema.parsing import is_text

MAX_LEVELS = 200
"""Text with more distinct values is taken for free text or identifiers."""

# A sample with fewer values shows no free text.
_MIN_FREE_TEXTS = 30

# Texts of more words than this, in the median, are sentences.
_MAX_LEVEL_WORDS = 3

# Of text with too many values, so many are proposed as levels, if they are so frequent.
_MAX_FREQUENT_LEVELS = 50
_MIN_FREQUENT_RECORDS = 10
_OTHER_LEVEL = "other"

# Columns of truth values have two, in a few spellings such as "Yes" and "yes".
_MAX_TRUTH_SPELLINGS = 19


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
    if median_words > _MAX_LEVEL_WORDS and len(values) >= _MIN_FREE_TEXTS:
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
    reason += f". If the {len(frequent_levels)} most frequent matter, review them"
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
