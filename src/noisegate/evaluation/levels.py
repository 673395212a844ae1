"""Which level a value means, when the value went through a reader that guessed its type."""

from __future__ import annotations

from collections.abc import Callable

from noisegate.schema import Boolean, CodedColumn

_TRUTH = {"false": 0, "no": 0, "0": 0, "true": 1, "yes": 1, "1": 1}


def level_finder(column: CodedColumn) -> Callable[[object], int | None]:
    """Make a function from a value to the position of its level.

    A CSV reader that infers types turns levels such as "01" or "true" into numbers and truth values, and nullable
    integers into floats. Such values still find their level; text has to match exactly, blanks around it aside.

    Args:
        column: the column and its levels.

    Returns:
        A function that gives the position of the level, or None for a value that is no level.
    """
    if isinstance(column, Boolean):
        return lambda value: _TRUTH.get(spelling(value).lower())
    exact = {spelling(level): code for code, level in enumerate(column.levels)}
    guessed = {_guess(level): code for code, level in reversed(list(enumerate(column.levels)))}

    def find(value: object) -> int | None:
        code = exact.get(spelling(value))
        if code is None and not isinstance(value, str):
            code = guessed.get(_guess(value))
        return code

    return find


def spelling(value: object) -> str:
    """Write a value as a level would be written.

    Args:
        value: of any type.

    Returns:
        Its text without blanks around it; 3.0 is written 3, because nullable integers often arrive as floats.
    """
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _guess(value: object) -> str:
    """One text for everything that a type-inferring reader may take for the same number or truth value."""
    text = spelling(value)
    try:
        return repr(float(text))
    except ValueError:
        return text.lower() if text.lower() in ("true", "false") else text
