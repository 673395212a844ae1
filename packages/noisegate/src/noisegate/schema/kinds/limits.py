"""Limits: texts among numbers that stand for "below" or "above what we measure".

A laboratory writes `<0.5` for a concentration that is too low to be measured. A survey
writes `90+` for the oldest people. Such a cell is neither a number nor missing. A
schema lists these texts, and each becomes a value of its own, like an atom outside the
bounds::

    Decimal(lower=0.5, upper=40, step=0.1, limits=["n.d.", "<0.5", ">40"])

    cell      n.d.   <0.5    0.5 ──────── 40    >40
    number     0.3    0.4    0.5 ──────── 40    40.1

The number of a limit is computed from the schema only. It lies beyond the bounds and
all atoms, below or above them as the text states. It is only the position of the limit
in the order of the column, and is never compared, summed or averaged. A number in the
data that equals it is moved to the nearer bound, so that only a cell with the text of a
limit is read as that limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noisegate.errors import SchemaError
from noisegate.schema.checks import TEXT_PADDING

# PyArrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from noisegate.schema.parsing import Mask, Parsed

# Texts that point upwards, such as "> 90", "90+" and "over 90"; all others point down.
# Models were fitted to the order that follows, so that no later version changes it.
_POINTS_UP = re.compile(
    r"(?:[>≥⩾≧]|=>|&gt;).*"
    r"|.*\+|.*plus"
    r"|(?:over|above|more|greater|older|at least|from|g[te]|hi|high|overflow|too high"
    r"|too many|tntc|ulo[dq]|über|ueber|oberhalb|mehr|größer|älter|mindestens|ab"
    r"|zu hoch|plus|supérieure?|más|meer)\b.*"
    r"|.*\b(?:over|above|more|older|up|higher|mehr|älter|höher|darüber|más|meer|ouder)",
    re.IGNORECASE,
)


def points_up(text: str) -> bool:
    """Returns whether a limit lies above the numbers of the column; else below.

    Examples:
        >>> from noisegate.schema.kinds.limits import points_up
        >>> [points_up(text) for text in ("> 90", "90+", "über 90", "<0.5", "n.d.")]
        [True, True, True, False, False]
    """
    return _POINTS_UP.fullmatch(text) is not None


def limit_offsets(limits: Sequence[str]) -> tuple[int, ...]:
    """Returns how many places beyond the outermost value each limit stands.

    Returns:
        Of limits that point down negative numbers, of others positive ones, each
        ascending in the order of `limits`.

    Examples:
        >>> from noisegate.schema.kinds.limits import limit_offsets
        >>> limit_offsets(["n.d.", "<0.5", ">40", ">80"])
        (-2, -1, 1, 2)
    """
    offsets = []
    place_below = -sum(not points_up(text) for text in limits)
    place_above = 1
    for text in limits:
        if points_up(text):
            offsets.append(place_above)
            place_above += 1
        else:
            offsets.append(place_below)
            place_below += 1
    return tuple(offsets)


def checked_limits(name: str, limits: Any) -> tuple[str, ...]:
    """Checks that limits are distinct texts, none of them a number.

    Args:
        name: Name of the column, for messages.
        limits: What the schema states.
    """
    is_text_or_mapping = isinstance(limits, str | bytes | Mapping)
    if is_text_or_mapping or not isinstance(limits, Iterable):
        raise SchemaError(
            f"column {name!r}: limits must be a list of texts such as "
            f'["<0.5", ">90"], found {limits!r}'
        )
    texts = tuple(limits)
    for text in texts:
        if not isinstance(text, str) or not text.strip(TEXT_PADDING):
            raise SchemaError(
                f"column {name!r}: a limit must be the text of a cell such as "
                f'"<0.5" or "90+", found {text!r}'
            )
        if text != text.strip(TEXT_PADDING):
            raise SchemaError(
                f"column {name!r}: the limit {text!r} has blanks around it, which are "
                "stripped from cells; remove them"
            )
        if _is_number(text):
            raise SchemaError(
                f"column {name!r}: the limit {text!r} is a number; list it in atoms, "
                "or leave it out"
            )
    if len(set(texts)) < len(texts):
        repeated = next(text for text in texts if texts.count(text) > 1)
        raise SchemaError(
            f"column {name!r}: the limit {repeated!r} is listed more than once; keep "
            "one"
        )
    return texts


def _is_number(text: str) -> bool:
    """Returns whether a text is a number as it stands."""
    try:
        float(text)
    except ValueError:
        return False
    return True


# --- Cells. ---


def parse_with_limits(
    cells: pa.Array,
    parse: Callable[[pa.Array], Parsed],
    limit_numbers: Mapping[str, float],
    bounds: tuple[float, float],
) -> Parsed:
    """Parses cells of which some may be limits.

    Args:
        cells: Cells of any Arrow type, without nulls and with blanks stripped.
        parse: Function that parses the cells that are not limits.
        limit_numbers: The number that represents each limit, at least one.
        bounds: The bounds of the column, as numbers.

    Returns:
        For a limit, its number; for other cells, the result of `parse`. A number in it
        that represents a limit is moved to the nearer bound.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from noisegate.schema.parsing import Parsed, is_text

    indices = np.full(len(cells), -1)
    if is_text(cells.type):
        known_limits = pa.array(list(limit_numbers), cells.type)
        limit_indices = pc.index_in(cells, value_set=known_limits).fill_null(-1)
        indices = limit_indices.to_numpy(zero_copy_only=False)
    is_limit = indices >= 0
    measured = parse(cells.filter(pa.array(~is_limit)))

    dtype = measured.numbers.dtype
    numbers = np.zeros(len(cells), dtype=dtype)
    numbers[~is_limit] = _without_limit_numbers(
        measured.numbers, limit_numbers.values(), bounds
    )
    numbers[is_limit] = np.array([*limit_numbers.values()], dtype)[indices[is_limit]]
    is_bad = np.zeros(len(cells), dtype=np.bool_)
    is_bad[~is_limit] = measured.is_bad
    is_missing = np.zeros(len(cells), dtype=np.bool_)
    is_missing[~is_limit] = measured.is_missing
    return Parsed(numbers, is_bad, is_missing)


def _without_limit_numbers(
    numbers: npt.NDArray[Any],
    limit_numbers: Iterable[float],
    bounds: tuple[float, float],
) -> npt.NDArray[Any]:
    """Moves numbers of the data that represent limits to the nearer bound."""
    lower, upper = bounds
    moved = numbers.copy()
    for number in limit_numbers:
        moved[numbers == number] = lower if number < lower else upper
    return moved


def write_with_limits(
    texts: pa.Array,
    numbers: npt.NDArray[Any],
    is_missing: Mask,
    limit_numbers: Mapping[str, float],
) -> pa.Array:
    """Writes the texts of limits among those of numbers.

    Args:
        texts: The cells as text, null where missing.
        numbers: Their numbers, arbitrary where missing, (cells,).
        is_missing: Which cells are missing, (cells,).
        limit_numbers: The number that stands for each limit.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    written = texts
    for limit, number in limit_numbers.items():
        is_limit = pa.array((numbers == number) & ~is_missing)
        written = pc.if_else(is_limit, limit, written)
    return written
