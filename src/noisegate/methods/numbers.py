"""Checks of settings that several methods have: what is a number, and widths of layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noisegate.errors import OptionError


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
