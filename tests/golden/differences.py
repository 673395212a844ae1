"""Compares what is found with what golden files hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from .names import ADDED, GONE, RENAMED


def differences(
    golden: Any, current: Any, *, relative: float = 0.0, absolute: float = 0.0
) -> list[str]:
    """Returns where `found` is not as in the golden file: nothing, if all is well.

    Args:
        golden: A JSON value, with the keys of its time.
        found: A JSON value, with those of today.
        relative: Tolerance of numbers that are no whole ones.
        absolute: The same, beside it.
    """
    return list(_differences(golden, current, "", relative, absolute))


def _differences(
    golden: Any, current: Any, path: str, relative: float, absolute: float
) -> Iterator[str]:
    if isinstance(golden, Mapping) and isinstance(current, Mapping):
        named = {RENAMED.get(key, key): value for key, value in golden.items()}
        joint = "orientations_share" in named
        gone = {
            key
            for key, value in GONE.items()
            if joint and key not in current and named.get(key, value) == value
        }
        for key in sorted({*named, *current} - (ADDED - set(named)) - gone):
            if key not in named or key not in current:
                yield f"{path}/{key}: {'is new' if key in current else 'is missing'}"
                continue
            yield from _differences(
                named[key], current[key], f"{path}/{key}", relative, absolute
            )
    elif (
        isinstance(golden, list)
        and isinstance(current, list)
        and len(golden) == len(current)
    ):
        for position, pair in enumerate(zip(golden, current, strict=True)):
            yield from _differences(*pair, f"{path}[{position}]", relative, absolute)
    elif not _same(golden, current, relative, absolute):
        yield f"{path}: was {golden!r}, is {current!r}"


def _same(golden: Any, current: Any, relative: float, absolute: float) -> bool:
    if (
        isinstance(golden, float)
        and isinstance(current, int | float)
        and not isinstance(current, bool)
    ):
        return math.isclose(golden, current, rel_tol=relative, abs_tol=absolute)
    return type(golden) is type(current) and bool(golden == current)
