"""Texts that look like limits, in files and data dictionaries: "<0.5", "90+", "n.d.".

Which words there are stands in `vocabulary.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from noisegate.app.drafts.drafted import vocabulary
from noisegate.schema.kinds.limits import points_up

NUMBER = re.compile(r"[0-9]+(?:[.,'’ ][0-9]+)*|[.,][0-9]+")
"""A number in the text of a limit, with whatever marks it has."""

# Where a number may stand in the text of a limit, with its unit or a currency.
_AMOUNT = (
    rf"[-+]?[$€£]?\s?(?:{NUMBER.pattern})\s?(?:%|[$€£]|[a-zµμ][a-zµμ0-9/]{{0,9}})?"
)


def limit_texts(texts: Iterable[str]) -> list[str]:
    """Returns the texts that look like limits, those that point down first.

    Args:
        texts: Distinct texts, with blanks stripped.

    Returns:
        The texts, ascending by the number in them; those without one come first where
        they point down, and last where they point up.

    Examples:
        >>> from noisegate.app.drafts.limit_texts import limit_texts
        >>> limit_texts(["1.5", "> 90", "<0.5", "n.d.", "unter 5", "1 to 2"])
        ['n.d.', '<0.5', 'unter 5', '> 90']
    """
    pattern = _limit_pattern()
    return sorted(filter(pattern.fullmatch, texts), key=_place_of_limit)


def _limit_pattern() -> re.Pattern[str]:
    """Returns the pattern of texts that are limits, in any case."""
    signs, before, after, names = (
        f"(?:{'|'.join(vocabulary('limits')[key])})"
        for key in ("signs", "before", "after", "names")
    )
    return re.compile(
        rf"{signs}\s*(?:{_AMOUNT}|{names})|{before}\s*{_AMOUNT}"
        rf"|{_AMOUNT}\s*{after}|{names}",
        re.IGNORECASE,
    )


def _place_of_limit(text: str) -> tuple[bool, float, str]:
    """Returns by what limits are ordered: their direction, number and text."""
    is_above = points_up(text)
    number = number_in(text)
    if number is None:
        number = float("inf") if is_above else float("-inf")
    return is_above, number, text


def number_in(text: str) -> float | None:
    """Returns the number in the text of a limit, roughly; None if it has none."""
    match = NUMBER.search(text)
    if match is None:
        return None
    digits = re.sub(r"['’ ]", "", match[0]).replace(",", ".")
    whole, point, decimals = digits.rpartition(".")
    return float(f"{whole.replace('.', '')}{point}{decimals}")
