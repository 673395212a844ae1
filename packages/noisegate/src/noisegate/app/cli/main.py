"""The command `noisegate`: the verbs that are installed, in the order of a data steward's work, and how it ends."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Self, cast

import typer
from rich.markup import escape

from noisegate._version import __version__
from noisegate.app.cli.console import ERR, VerbGroup, discard_output, print_json
from noisegate.errors import (
    EXTRAS,
    PACKAGES,
    MissingExtraError,
    NoisegateError,
    OptionError,
    at_command_line,
)
from noisegate.registry import extensions, more

_ORDER = (
    *(
        "demo",
        "start",
        "split",
        "schema",
        "methods",
        "plan",
        "fit",
        "sample",
        "infer",
        "report",
        "evaluate",
        "explain",
    ),
    *(
        "predict",
        "verify",
        "sign",
        "export",
        "audit",
        "ledger",
        "key",
        "release",
        "merge",
        "pretrain",
    ),
)
"""Of work, in which help lists the verbs that are installed; those of other packages come last."""
# Typer brings its own copy of click or uses the installed one, as its version has it: this finds the right class.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
_VALUES = {
    "str": "TEXT",
    "int": "N",
    "int range": "N",
    "float": "NUMBER",
    "path": "PATH",
}
_GROUPS = {
    "Privacy": "epsilon delta adjacency unit unit_column contributions dataset ledger want like periods window "
    "corrections stream continue_ withdrawn silo secure_sum",
    "Data": "schema records table on_error columns kinds label public",
    "Method": "method settings report_share for_inference analyses seed device engine address resume",
}
_MANY = 14
"""Options of a verb from which on help lists them in groups; those that are in none come first."""
_STOPPED = 130
_TRACEBACK = "NOISEGATE_TRACEBACK"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _verbs() -> list[str]:
    known = extensions("noisegate.verbs")
    return [name for name in _ORDER if name in known] + sorted(set(known) - set(_ORDER))


def _loaded(name: str) -> typer.Typer | Callable[..., None]:
    """Returns a verb; one that cannot be imported says why when it is called, and leaves the others alone."""
    try:
        return cast(
            "typer.Typer | Callable[..., None]",
            extensions("noisegate.verbs")[name].load(),
        )
    except ImportError as error:
        reason = f"{name}: cannot be loaded: {error}."

        def lacking() -> None:
            raise OptionError(reason)

        lacking.__doc__ = "What this takes is not installed."
        return lacking


class _InOrder(VerbGroup):
    def list_commands(self, ctx: object) -> list[str]:
        return _verbs()


app = typer.Typer(
    cls=_InOrder,
    name="noisegate",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Differentially private synthetic tables and images, with a certificate that anyone can check.\n\n"
    "Typical workflow: `schema` describes the columns or images, `plan` shows the privacy cost, `fit` spends it once, "
    "`sample` generates records, `infer` answers queries with error bars, `report` and `evaluate` assess the result, "
    "`verify` checks the certificate, `audit` attacks its claim. `ledger` tracks privacy budgets over many runs. Silos "
    "that may not pool records each `release` sums, and `merge` fits one model to them. `fit --method dp-llm` or "
    "`dp-sgd` trains a classifier: `predict` applies it, `explain` shows what it relies on.\n\n"
    "Exit codes: 0 success, 2 invalid request or input, 3 refused by the ledger, 4 an audit found more than is "
    "claimed, 130 interrupted.",
)
for _name in _verbs():
    _verb = _loaded(_name)
    if isinstance(_verb, typer.Typer):
        app.add_typer(_verb, name=_name)
    else:
        app.command(_name)(_verb)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"noisegate {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Differentially private synthetic tables and images."""


@cache
def program() -> typer.core.TyperGroup:
    """Returns the verbs with their options; they are read off the functions once in a process."""
    return _named(cast("typer.core.TyperGroup", typer.main.get_command(app)))


def _named(group: typer.core.TyperGroup) -> typer.core.TyperGroup:
    """Names the values of options for people, where a verb has not: TEXT, N, NUMBER or PATH."""
    for command in group.commands.values():
        if isinstance(command, typer.core.TyperGroup):
            _named(command)
        panels = {
            name: panel for panel, names in _GROUPS.items() for name in names.split()
        }
        for option in command.params:
            if option.param_type_name == "option" and option.metavar is None:
                option.metavar = _VALUES.get(option.type.name)
            if (
                len(command.params) > _MANY
                and getattr(option, "rich_help_panel", "") is None
            ):
                vars(option)["rich_help_panel"] = panels.get(option.name or "")
    return group


def run() -> None:
    """Runs the command line, and exits."""
    sys.exit(_end(lambda: program()(standalone_mode=False)))


class _Stoppable:
    """A block that Ctrl-C and SIGTERM stop alike, by a KeyboardInterrupt, so that what it had begun is cleared up."""

    def __init__(self) -> None:
        self.asked = False  # a library may turn the interrupt into an error of its own
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # Ctrl-C is ignored in a shell's background jobs, and stays so.
            heard = [
                number
                for number in _SIGNALS
                if signal.getsignal(number) is not signal.SIG_IGN
            ]
            self._before = {
                number: signal.signal(number, self._stop) for number in heard
            }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        self.asked = True
        raise KeyboardInterrupt


def _end(action: Callable[[], object]) -> int:
    """Runs `action` and returns the exit code: 0 done, 2 user error, 3 refused, 130 stopped, 1 a fault of ours."""
    signals = _Stoppable()
    try:
        with signals, at_command_line():
            code = action()
            sys.stdout.flush()
        # Typer turns Ctrl-C into this code, or into Abort, as its version has it.
        if code == _STOPPED:
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except (typer.Abort, KeyboardInterrupt):
        return _fail("stopped.", _STOPPED)
    except NoisegateError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        discard_output(sys.stdout)
        return 0
    except SystemExit as end:  # of rich, from whose help nobody reads any more
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        return 0
    except OSError as error:
        if error.filename is None:
            discard_output(sys.stdout)
        return _fail(
            f"{error.filename or 'the output'} cannot be used: {error.strerror or type(error).__name__}.",
            2,
        )
    except MemoryError:
        return _fail(
            "there is not enough memory; ask for less, for instance with --set frequencies=200.",
            2,
        )
    except _USAGE_ERROR as error:
        # Without arguments, help was printed, and there is nothing to add.
        return _fail(_usage(error), 2) if str(error) else 2
    except Exception as error:
        if signals.asked:
            return _fail("stopped.", _STOPPED)
        if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
            return _fail(
                str(MissingExtraError.of(error.name, "this")),
                MissingExtraError.exit_code,
            )
        if os.environ.get(_TRACEBACK):
            raise
        return _fail(_fault(error), 1)


def _usage(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    message = (
        str(error.format_message()) if hasattr(error, "format_message") else str(error)
    )
    if message.startswith("No such command"):
        message = message.rstrip(".") + more()
    hint = f" See: {context.command_path} --help" if context is not None else ""
    return f"{message.rstrip('.')}.{hint}"


def _fault(error: Exception) -> str:
    ours = ("noisegate", *PACKAGES)
    found = [
        (Path(*parts[-parts[::-1].index(package) - 1 :]), frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        for parts in [Path(frame.filename).parts]
        for package in ours
        if package in parts
    ]
    place = f"{found[-1][0]}, line {found[-1][1]}" if found else "its start"
    return (
        f"this is a fault in noisegate: {type(error).__name__} in {place}. What it says may hold private values and is "
        f"not shown; {_TRACEBACK}=1 in the environment shows it. Please report it. If a fit left OUT.partial behind, "
        "its budget is not lost: `noisegate fit --resume --out OUT` goes on from there."
    )


def _fail(message: str, code: int) -> int:
    if "--json" in sys.argv:
        print_json({"error": message, "exit_code": code})
    else:
        ERR.print(f"[red]error:[/red] {escape(message)}", soft_wrap=True)
    return code
