"""Options of the scripts: each is a name and its default, whose type says how it is read.

    options = read_options(__doc__, data=needed(Path), epsilon=[1.0, 10.0], seeds=3)

reads ``--data DIR --epsilon 1 10 --seeds 3``. The help of common names is here, so that they mean the same everywhere.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

WRONG_OPTIONS = 2
"""Exit code, as argparse has it."""

HELP = {
    "again": "run also what has a result",
    "classifiers": "some of cnn, mlp, logistic and others, by commas",
    "data": "folder of the data set; see benchmarks/papers/README.md",
    "device": "auto, cpu, cuda or mps",
    "delta": "δ of the guarantee",
    "epochs": "of the training; fewer are a reduced schedule",
    "epsilon": "ε of the guarantee",
    "epsilons": "ε of the guarantee",
    "images": "synthetic images",
    "jobs": "processes side by side",
    "json": "write the figures there",
    "list": "print what there is, and run nothing",
    "method": "as `noisegate fit --method` takes it",
    "methods": "as `noisegate fit --method` takes them",
    "out": "folder for what is made; what is there is kept",
    "plot": "draw the figure there",
    "repeats": "of each measurement, in turns",
    "seed": "of public randomness; the private noise takes none",
    "seeds": "number of runs; run i has public seed i and fresh noise",
    "settings": "of the method, a JSON object as for `noisegate fit --set`",
    "steps": "of the training or the fit; fewer are a reduced schedule",
    "threads": "of numerical libraries",
}


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option.

    Attributes:
        kind: Reads one value from a text.
        default: Where it is not given.
        help: What it is.
        choices: The values that it may have; all where it is empty.
        is_required: Whether it must be given.
        is_list: Whether it takes several values.
        is_positional: Whether it is given without its name.
        is_hidden: Whether --help leaves it out: the scripts give it to themselves.
    """

    kind: Any
    default: Any = None
    help: str = ""
    choices: tuple[Any, ...] = ()
    is_required: bool = False
    is_list: bool = False
    is_positional: bool = False
    is_hidden: bool = False


def option(default: Any, text: str = "") -> Option:
    """Returns an option with a default, whose type is that of its values: of one, of a list, or of a JSON object."""
    if isinstance(default, dict):
        return Option(kind=_read_object, default=default, help=text)
    if isinstance(default, list | tuple):
        values = list(default)
        return Option(kind=type(values[0]), default=values, help=text, is_list=True)
    return Option(kind=type(default), default=default, help=text)


def needed(kind: Any, text: str = "", *, is_list: bool = False) -> Option:
    """Returns an option that must be given, with one value or several."""
    return Option(kind=kind, help=text, is_required=True, is_list=is_list)


def optional(kind: Any, text: str = "", *, is_list: bool = False) -> Option:
    """Returns an option that is None where it is not given."""
    return Option(kind=kind, help=text, is_list=is_list)


def positional(
    kind: Any,
    text: str = "",
    *,
    default: Any = None,
    choices: Iterable[Any] = (),
    is_required: bool = True,
) -> Option:
    """Returns an argument without a name; it may be left out where it has a default."""
    return Option(
        kind=kind,
        help=text,
        default=default,
        choices=tuple(choices),
        is_positional=True,
        is_required=is_required and default is None,
    )


def choice(values: Iterable[Any], default: Any = None, text: str = "") -> Option:
    """Returns an option with one of some values, the first where it is not given."""
    values = tuple(values)
    default = values[0] if default is None else default
    return replace(option(default, text), choices=values)


def choices(values: Iterable[Any], default: Any = None, text: str = "") -> Option:
    """Returns an option with several of some values, all of them where it is not given."""
    values = tuple(values)
    default = list(values if default is None else default)
    return Option(
        kind=type(values[0]), default=default, help=text, choices=values, is_list=True
    )


def hidden(declared: Any) -> Option:
    """Returns an option, or one with this default, without a line in --help."""
    return replace(_as_option(declared), is_hidden=True)


ADJACENCY = choice(
    ("add-remove", "replace-one"), text="what neighbouring data sets are"
)
"""Neighbours differ by one record more or less; `replace-one` takes the number of records as public."""


def parser_of(text: str | None, **declared: Any) -> argparse.ArgumentParser:
    """Returns a parser of options.

    Args:
        text: What the script does: its docstring.
        declared: By name, an `Option` or a default.
    """
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in declared.items():
        _add(parser, name, _as_option(value))
    return parser


def read_options(
    text: str | None, arguments: Sequence[str] | None = None, /, **declared: Any
) -> argparse.Namespace:
    """Reads options; ends the script with a message where one is wrong.

    Numbers must be above 0, but for those whose defaults are not.

    Args:
        text: What the script does: its docstring.
        arguments: Of the command line; those of this process where there are none.
        declared: By name, an `Option` or a default.
    """
    parser = parser_of(text, **declared)
    options = parser.parse_args(arguments)
    for name in declared:
        defaults = _numbers(parser.get_default(name))
        is_positive = bool(defaults) and min(defaults) > 0
        if is_positive and min(_numbers(getattr(options, name)), default=1) <= 0:
            parser.error(f"--{_dashed(name)} must be above 0")
    return options


def fail(message: str) -> NoReturn:
    """Ends the script with a message about its options."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(WRONG_OPTIONS)


def _as_option(declared: Any) -> Option:
    return declared if isinstance(declared, Option) else option(declared)


def _add(parser: argparse.ArgumentParser, name: str, declared: Option) -> None:
    help_text = declared.help or HELP.get(name, "")
    more: dict[str, Any] = {
        "default": declared.default,
        "help": argparse.SUPPRESS if declared.is_hidden else help_text or None,
    }
    if declared.kind is bool:
        parser.add_argument(f"--{_dashed(name)}", action="store_true", **more)
        return
    more["type"] = declared.kind
    if declared.choices:
        more["choices"] = declared.choices
    if declared.is_list:
        more["nargs"] = "+" if declared.is_required else "*"
    if declared.is_positional:
        if not declared.is_required:
            more["nargs"] = "?"
        parser.add_argument(name, **more)
        return
    parser.add_argument(f"--{_dashed(name)}", required=declared.is_required, **more)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _read_object(text: str) -> dict[str, Any]:
    """Reads a JSON object."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r} must be a JSON object of settings")
    return value


def _numbers(value: Any) -> list[float]:
    """Returns the numbers of an option's value, of which there may be none."""
    values = value if isinstance(value, list) else [value]
    return [
        number
        for number in values
        if isinstance(number, int | float) and not isinstance(number, bool)
    ]
