"""Columns of text as a public sample shows them: levels, or identifiers and free text, which no model should learn."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.discovery.drafted import DraftedColumn
from noisegate.schema import Categorical
from noisegate.schema.encode import is_text
from noisegate.schema.files import unseen

MAX_LEVELS = 200
"""Text with more distinct values than this is taken for free text or identifiers."""

# So many values at least, no two of them alike, are identifiers, and so many of several words free text.
_LEAST_IDENTIFIERS = 30
_FREQUENT, _MOST_FREQUENT = 10, 50
_WORDS = 3
_OTHER = "other"
_NAMED_ID = re.compile(
    r"(?:^|[^a-z])(?:id|ids|uuid|guid|key|mrn|ssn|nhs|pid|rownames?|index|"
    r"(?:row|record|patient|case|sample|subject|study|person|account|customer)[ _.-]?(?:no|nr|num|number))$"
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def draft_identifier(name: str, cells: pa.Array) -> DraftedColumn | None:
    """Returns the entry of a column of identifiers, where every record has a value of its own; None if it is none."""
    if len(cells) < _LEAST_IDENTIFIERS or pc.count_distinct(cells).as_py() < len(cells):
        return None
    if not is_text(cells.type) and not pa.types.is_integer(cells.type):
        return None
    if is_text(cells.type) and not _all(cells, r"^[+-]?[0-9]+$"):
        if _all(cells, r"^[0-9+.,:TZ/ -]+$"):
            return None  # decimals, dates, moments
    elif not called_id(name) and not _counts_on(cells):
        return None
    reason = f"each of the {len(cells):,} values is there once, as in an identifier, which must not be learnt"
    return DraftedColumn.left_out(name, reason)


def _all(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def called_id(name: str) -> bool:
    """Returns whether a column is called as identifiers are."""
    return _NAMED_ID.search(_CAMEL.sub("_", name).lower()) is not None


def _counts_on(cells: pa.Array) -> bool:
    """Returns whether all values are the whole numbers from 0 or 1 to their number."""
    try:
        numbers = np.sort(cells.cast(pa.int64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        return False
    return bool(numbers[0] in (0, 1) and numbers[-1] - numbers[0] == len(numbers) - 1)


def draft_text(name: str, cells: pa.Array, *, missing: bool) -> DraftedColumn:
    """Returns the entry of a column of levels; ignored, with what it might become, where they are too many."""
    if not is_text(cells.type):
        return DraftedColumn.left_out(name, f"values of type {cells.type} have no kind in a schema; convert them")
    values = pc.unique(cells)
    if pc.any(pc.match_substring(values, ",")).as_py() and _all(values, r"^[+-]?[0-9]+(?:,[0-9]+)?$"):
        reason = f"numbers with a comma, like {values[0]}, are not read; write them with a point in the data"
        open_: dict[str, Any] = {"kind": "continuous", "lower": ..., "upper": ...}
        return DraftedColumn.left_out(name, reason, open_ | ({"missing": True} if missing else {}))
    words = float(np.median([len(level.split()) for level in values.to_pylist()]))
    if words > _WORDS and len(values) >= _LEAST_IDENTIFIERS:
        return DraftedColumn.left_out(name, f"{len(values):,} distinct texts: free text, which must not be learnt")
    if len(values) <= MAX_LEVELS:
        return DraftedColumn.of(Categorical(name=name, levels=tuple(sorted(values.to_pylist())), missing=missing))
    return _many(name, cells, len(values), missing=missing)


def _many(name: str, cells: pa.Array, distinct: int, *, missing: bool) -> DraftedColumn:
    """Returns the entry of a column with more levels than a schema lists: its frequent ones, if there are any."""
    counts = sorted(((one["counts"], one["values"]) for one in pc.value_counts(cells).to_pylist()), reverse=True)
    frequent = sorted(level for count, level in counts[:_MOST_FREQUENT] if count >= _FREQUENT and not unseen(level))
    reason = f"{distinct:,} distinct texts, more than {MAX_LEVELS}: free text, or a code with many values"
    if not frequent:
        return DraftedColumn.left_out(name, reason)
    other = _OTHER if _OTHER not in frequent else f"({_OTHER})"
    form = {"kind": Categorical.kind, "levels": [*frequent, other], "other": other}
    reason += f". If the {len(frequent)} most frequent are worth keeping, read them through"
    return DraftedColumn.left_out(name, reason, form | ({"missing": True} if missing else {}))
