"""Checks of settings that several methods have: what is a number, widths of layers, how many groups of columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from noisegate.errors import OptionError

MOST_GROUPS = 2_000_000
"""Most groups of columns that a method goes through: the pairs of 2,000 columns, gigabytes of counts at the gate."""


def check_groups(columns: int, setting: str, instead: str, *, size: int = 2) -> None:
    """Finds a table too wide for going through all its pairs, or larger groups, of columns.

    Args:
        columns: How many there are.
        setting: What asks for all groups, for the message.
        instead: What may be given instead of it.
        size: Columns of a group.

    Raises:
        OptionError: if there are more than `MOST_GROUPS`.
    """
    number = math.comb(columns, size)
    if number > MOST_GROUPS:
        raise OptionError(
            f"{setting}: {columns:,} columns have {number:,} groups of {size}, and at most {MOST_GROUPS:,} are gone "
            f"through. Give {instead}, or put columns that are not needed under `ignore` in the schema."
        )


def is_number(value: Any) -> bool:
    """Returns whether a setting is a number; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def put_widths(method: Any, options: Sequence[str]) -> None:
    """Puts widths in their places in a new frozen method, lists of JSON as tuples.

    Raises:
        OptionError: if one is no list of positive whole numbers.
    """
    for option in options:
        value = getattr(method, option)
        if not isinstance(value, Sequence) or not all(map(_is_width, value)):
            raise OptionError(f"{option}={value!r} must be positive whole numbers, as in (32, 64).")
        object.__setattr__(method, option, tuple(value))


def _is_width(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
