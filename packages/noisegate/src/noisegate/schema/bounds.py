"""Bounds that a reader would choose, from the smallest and the largest value."""

import math


def rounded_bounds(
    lowest: float, highest: float, *, parts: int = 2, smallest: float = 0.0
) -> tuple[float, float]:
    """Rounds two values outwards to bounds that a reader would choose.

    The bounds are multiples of a power of ten: the largest of which `parts` fit between
    the values, but none below `smallest`. They stay on the values' side of zero. A
    single value gets room on both sides, but at zero only above.

    Args:
        lowest: Smallest value.
        highest: Largest value, or the same.
        parts: How many of the powers of ten must fit, at least.
        smallest: A power of ten, such as 1.0 for integers; 0.0 for none.

    Returns:
        A bound at or below `lowest`, and one at or above `highest`.

    Examples:
        >>> from noisegate.schema.bounds import rounded_bounds
        >>> rounded_bounds(17.3, 88.1)
        (10.0, 90.0)
        >>> rounded_bounds(17.0, 88.0, parts=100, smallest=1.0)
        (17.0, 88.0)
    """
    if lowest != highest:
        first = lowest
        last = highest
        width = highest - lowest
    elif highest == 0:
        first = 0.0
        last = 1.0
        width = 1.0
    else:
        width = max(abs(highest), 1.0)
        first = lowest - width / 2
        last = highest + width / 2

    exponent = math.floor(math.log10(width / parts))
    if smallest:
        exponent = max(exponent, round(math.log10(smallest)))
    first_multiple = math.floor(first / 10.0**exponent)
    last_multiple = math.ceil(last / 10.0**exponent)
    # Through text, as multiplication would turn 3 · 0.1 into 0.30000000000000004.
    return float(f"{first_multiple}e{exponent}"), float(f"{last_multiple}e{exponent}")
