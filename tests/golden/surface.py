"""What users hold on to: the help of every verb, the public names, and the tree of errors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import noisegate
from noisegate import errors

from .names import program

HELP = "help of"
NAMES = "public names"
ERRORS = "errors"


def cases() -> Iterator[str]:
    """Yields what is kept."""
    yield from (f"{HELP} {' '.join(verb)}".strip() for verb in verbs())
    yield from (NAMES, ERRORS)


def verbs() -> Iterator[tuple[str, ...]]:
    """Yields the words of every command, the program itself first."""
    import typer

    from noisegate.app.cli.main import app

    def walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield words
        for name in (
            command.list_commands(None) if hasattr(command, "list_commands") else ()
        ):
            yield from walk(command.get_command(None, name), (*words, name))

    yield from walk(typer.main.get_command(app), ())


def surface(case: str) -> Any:
    """Returns one part of it, as JSON holds it."""
    if case == NAMES:
        return {
            name: signature(getattr(noisegate, name))
            for name in sorted(noisegate.__all__)
        }
    if case == ERRORS:
        classes = inspect.getmembers(errors, inspect.isclass)
        return {
            name: [base.__name__ for base in kind.__mro__[1:-1]]
            for name, kind in classes
            if _own(kind)
        }
    code, out, err = program(*case.removeprefix(HELP).split(), "--help")
    assert code == 0, err
    # Who calls the program is told in the first line.
    return [
        re.sub(r"Usage: .*noisegate\b", "Usage: noisegate", line).rstrip()
        for line in out.splitlines()
    ]


def signature(value: Any) -> str:
    """Returns how a public name is called; what kind it is, where it is not."""
    try:
        return (
            str(inspect.signature(value)) if callable(value) else type(value).__name__
        )
    except ValueError:
        return type(value).__name__


def _own(kind: type) -> bool:
    return issubclass(kind, BaseException) and kind.__module__ == errors.__name__
