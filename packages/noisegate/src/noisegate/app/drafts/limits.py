"""Limits beside numbers, as a public sample shows them: "<0.5", "90+", "n.d.".

Text that is a number in all cells but those that say "below" or "above what we measure"
is that number, with a limit for each of these texts::

    0.7  1.2  <0.5  3.4  n.d.  ──►  numbers  0.7  1.2  3.4  ──► kind, bounds, step
                                    limits   n.d.  <0.5
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from noisegate.app.drafts.drafted import DraftedColumn
from noisegate.app.drafts.formats import draft_formatted
from noisegate.app.drafts.limit_texts import NUMBER, limit_texts, number_in
from noisegate.app.drafts.numbers import draft_number
from noisegate.errors import SchemaError
from noisegate.schema.columns import column_from_form
from noisegate.schema.kinds.limits import points_up
from noisegate.schema.parsing import is_text, parse_floats

# More limits are no few exceptions; detection limits change over the years, so that a
# column may well have several.
_MAX_LIMITS = 12
# Fewer different numbers, beside limits, are levels such as 0, 1, 2 and 3+.
_MIN_NUMBERS_BESIDE_LIMITS = 5
# Limits that are no measured number themselves: "90+" begins at 90.
_INCLUSIVE = re.compile(r"\+$|^(?:[≥⩾≧≤⩽≦]|[<>]=|=[<>])")


def without_limits(cells: pa.Array) -> pa.Array:
    """Returns the cells of text that do not look like limits, in their order."""
    texts = limit_texts(cells.unique().to_pylist())
    if not texts:
        return cells
    return cells.filter(pc.invert(pc.is_in(cells, value_set=pa.array(texts))))


def draft_with_limits(
    name: str, cells: pa.Array, *, missing: bool, is_label: bool
) -> DraftedColumn | None:
    """Drafts a column of numbers of which some are given as limits.

    Args:
        name: Name of the column.
        cells: Its cells without missing ones, (records,).
        missing: Whether a value may be missing.
        is_label: Whether the column is to be predicted.

    Returns:
        The column of the numbers, with the limits and the reason; None if the cells are
        no text, if there are no limits or many, or if the others are no numbers.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate.app.drafts.limits import draft_with_limits
        >>> cells = pa.array([*map(str, range(18, 90)), "90+"])
        >>> age = draft_with_limits("age", cells, missing=False, is_label=False)
        >>> age.form["limits"]
        ['90+']
    """
    if not is_text(cells.type):
        return None
    texts = limit_texts(cells.unique().to_pylist())
    if not 0 < len(texts) <= _MAX_LIMITS:
        return None
    is_limit = pc.is_in(cells, value_set=pa.array(texts, cells.type))
    numbers = cells.filter(pc.invert(is_limit))
    if pc.count_distinct(numbers).as_py() < _MIN_NUMBERS_BESIDE_LIMITS:
        return None

    entry = draft_formatted(name, numbers, missing=missing) or draft_number(
        name, numbers, missing=missing, is_label=is_label
    )
    if entry is None or entry.is_ignored:
        return None
    column: Any = entry.column
    if column is None or not column.may_have_limits or _has_grades(texts, column.upper):
        return None

    form: dict[str, Any] = {**entry.form, "limits": texts}
    reasons = []
    decimals = _common_decimals(numbers)
    if decimals and column.format is None:
        form["format"] = "0." + "0" * decimals
        reasons.append(f"format: all numbers have as many decimals: {decimals}")
    form = _with_bounds_at_limits(column, form, numbers)
    fraction = pc.sum(is_limit).as_py() / len(cells)
    quoted = ", ".join(map(repr, texts))
    reasons.append(
        f"limits: all cells are numbers but {quoted} ({fraction:.1%} of records); each "
        "is a value of its own, no number, and written back as it is"
    )
    return replace(entry, form=form, comments=(*entry.comments, *reasons))


def _common_decimals(numbers: pa.Array) -> int:
    """Returns how many digits all numbers have behind the point; 0 if they differ.

    Samples are text here, and a file with 3.0 among its numbers shall not get 3.
    """
    pattern = re.compile(r"-?[0-9]+\.([0-9]+)")
    matches = [pattern.fullmatch(text) for text in numbers.unique().to_pylist()]
    widths = {0 if match is None else len(match[1]) for match in matches}
    return widths.pop() if len(widths) == 1 else 0


def _with_bounds_at_limits(
    column: Any, form: Mapping[str, Any], numbers: pa.Array
) -> dict[str, Any]:
    """Moves rounded bounds inwards to limits beyond which no number was measured.

    Beside "<0.5" a bound of 0 would allow numbers that are not measured.

    Args:
        column: The column without limits, in whose format the numbers are.
        form: Its form, with limits.
        numbers: The cells that are numbers, (records,).
    """
    measured = column.parse_cells(numbers.cast(pa.string())).numbers
    lower = column.to_number(column.lower)
    upper = column.to_number(column.upper)
    regular = measured[(measured >= lower) & (measured <= upper)]
    if not len(regular):
        return dict(form)
    for text in form["limits"]:
        for number in _ends_at_limit(column, text):
            if points_up(text) and regular.max() <= number < upper:
                upper = number
            elif not points_up(text) and lower < number <= regular.min():
                lower = number
    bounded_form = {**form, "lower": lower, "upper": upper}
    try:
        column_from_form(column.name, bounded_form)
    except SchemaError:  # bounds that are no whole steps apart, or equal
        return dict(form)
    return bounded_form


def _ends_at_limit(column: Any, text: str) -> list[float]:
    """Returns where measured numbers may end beside a limit, the outer end first.

    Beside "90+" that is 90, or 89 for whole numbers; beside ">90" it is 90.

    Args:
        column: The column, in whose format the number of the limit is.
        text: The limit.
    """
    match = NUMBER.search(text)
    if match is None:
        return []
    amount = parse_floats(column.parse_formatted(pa.array([match[0]])))
    if amount.is_bad[0]:
        return []
    number = float(amount.numbers[0])
    is_up = points_up(text)
    if not column.stepped:
        return [number]
    if not column.fractional:
        number = math.floor(number) if is_up else math.ceil(number)
    if _INCLUSIVE.search(text) is None:
        return [number]
    step = -column.spacing if is_up else column.spacing
    units = column.to_units(number) + step
    return [number, column.to_number(column.from_units(units))]


def _has_grades(texts: list[str], upper: float) -> bool:
    """Returns whether a plus is a part of grades such as 2+, not the end of a scale.

    Args:
        texts: The limits.
        upper: Upper bound of the numbers.
    """
    ends = [number_in(text) for text in texts if text.endswith("+")]
    return len(ends) > 1 and any(end is not None and end < upper / 2 for end in ends)
