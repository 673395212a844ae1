"""Compares what is found with what golden files hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from .names import ADDED, GONE, RENAMED


def differences(
    golden: Any, found: Any, *, relative: float = 0.0, absolute: float = 0.0
) -> list[str]:
    """Returns where `found` is not as in the golden file: nothing, if all is well.

    Args:
        golden: A JSON value, with the keys of its time.
        found: A JSON value, with those of today.
        relative: Tolerance of numbers that are no whole ones.
        absolute: The same, beside it.
    """
    return list(_differences(golden, found, "", relative, absolute))


def _differences(
    golden: Any, found: Any, place: str, relative: float, absolute: float
) -> Iterator[str]:
    if isinstance(golden, Mapping) and isinstance(found, Mapping):
        named = {RENAMED.get(key, key): value for key, value in golden.items()}
        joint = "orientations_share" in named
        gone = {
            key
            for key, value in GONE.items()
            if joint and key not in found and named.get(key, value) == value
        }
        for key in sorted({*named, *found} - (ADDED - set(named)) - gone):
            if key not in named or key not in found:
                yield f"{place}/{key}: {'is new' if key in found else 'is missing'}"
                continue
            yield from _differences(
                named[key], found[key], f"{place}/{key}", relative, absolute
            )
    elif (
        isinstance(golden, list)
        and isinstance(found, list)
        and len(golden) == len(found)
    ):
        for position, pair in enumerate(zip(golden, found, strict=True)):
            yield from _differences(*pair, f"{place}[{position}]", relative, absolute)
    elif not _same(golden, found, relative, absolute):
        yield f"{place}: was {golden!r}, is {found!r}"


def _same(golden: Any, found: Any, relative: float, absolute: float) -> bool:
    if (
        isinstance(golden, float)
        and isinstance(found, int | float)
        and not isinstance(found, bool)
    ):
        return math.isclose(golden, found, rel_tol=relative, abs_tol=absolute)
    return type(golden) is type(found) and bool(golden == found)
