"""Columns of text whose cells are written in several notations.

No kind reads them all: dates in two orders, times with and without a time zone, numbers
in several units. What is meant, nobody can guess, and so such a column is ignored, with
the reason.
"""

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.app.drafts.drafted import DraftedColumn
from noisegate.app.drafts.formats import UNIT_PATTERN, clock_columns
from noisegate.schema import Categorical
from noisegate.schema.parsing import Mask, is_text, parse_timestamps

# Days with marks between their parts, in any order, and whatever stands behind them.
_DAY_LIKE = (
    r"^(?:[0-9]{1,4}[-/. ](?:[0-9]{1,2}|[A-Za-z]{3,9})[-/. ]+[0-9]{2,4}"
    r"|[A-Za-z]{3,9}[-/. ][0-9]{1,2},? [0-9]{4}).{0,20}$"
)
# Formats are looked for in so many texts, and then read all.
_MAX_SAMPLED_TEXTS = 200

_MEASUREMENT = re.compile(rf"[-+]?[0-9][0-9.,]*({UNIT_PATTERN})")
# Fewer different numbers with units are levels, as doses are.
_MAX_LEVELS_WITH_UNITS = 20


def draft_mixture(name: str, cells: pa.Array, *, missing: bool) -> DraftedColumn | None:
    """Drafts a column of dates or numbers in several notations.

    Args:
        name: Name of the column.
        cells: Its cells without missing ones, (records,), at least one.
        missing: Whether a value may be missing.

    Returns:
        The column, ignored, with what the notations are; of a few numbers with units
        their levels. None if the cells are no dates and no numbers, or are written in
        one way.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate.app.drafts.mixtures import draft_mixture
        >>> days = pa.array(["2020-01-31", "31.01.2020", "2020-02-29"])
        >>> draft_mixture("day", days, missing=False).comments[0][:50]
        'day: ignored: dates or times in 2 notations, as in'
    """
    if not is_text(cells.type):
        return None
    texts = cells.unique().cast(pa.string())
    return _draft_mixed_times(name, texts) or _draft_mixed_units(
        name, texts, missing=missing
    )


def _draft_mixed_times(name: str, texts: pa.Array) -> DraftedColumn | None:
    """Drafts a column of dates and times in several notations, ignored.

    Args:
        name: Name of the column.
        texts: Its distinct texts, at least one.
    """
    if not pc.all(pc.match_substring_regex(texts, _DAY_LIKE)).as_py():
        return None
    examples = []
    is_open = np.ones(len(texts), dtype=np.bool_)
    for is_read in _readings(name, texts):
        is_new = is_open & is_read
        if is_new.any():
            examples.append(texts[int(np.argmax(is_new))].as_py())
            is_open &= ~is_read
    if is_open.any() or len(examples) < 2:
        return None
    shown_examples = " and ".join(map(repr, examples))
    return DraftedColumn.left_out(
        name,
        f"dates or times in {len(examples)} notations, as in {shown_examples}; write "
        "all in one",
    )


def _readings(name: str, texts: pa.Array) -> Iterator[Mask]:
    """Yields which texts a notation reads, (texts,), one notation after the other."""
    for aware in (False, True):
        yield ~parse_timestamps(texts, aware=aware).is_bad
    sampled_texts = texts[:_MAX_SAMPLED_TEXTS]
    for column in clock_columns(name):
        if not column.parse_cells(sampled_texts).is_bad.all():
            yield ~column.parse_cells(texts).is_bad


def _draft_mixed_units(
    name: str, texts: pa.Array, *, missing: bool
) -> DraftedColumn | None:
    """Drafts a column of numbers in several units of measurement.

    Args:
        name: Name of the column.
        texts: Its distinct texts, at least one.
        missing: Whether a value may be missing.

    Returns:
        The column, ignored, or of levels if they are few; None for other text.
    """
    levels = texts.to_pylist()
    matches = [_MEASUREMENT.fullmatch(level) for level in levels]
    units = {match[1].strip() for match in matches if match is not None}
    if not all(matches) or len(units) < 2:
        return None
    shown_units = " and ".join(map(repr, sorted(units)))
    if len(levels) > _MAX_LEVELS_WITH_UNITS:
        return DraftedColumn.left_out(
            name, f"numbers in several units, {shown_units}; write all in one"
        )
    column = Categorical(name=name, levels=tuple(sorted(levels)), missing=missing)
    reason = f"levels: numbers in several units, {shown_units}; are they amounts?"
    return DraftedColumn.from_column(column, [reason])
