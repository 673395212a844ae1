"""The command `noisegate`: which verbs it has, and how it ends.

Verbs are entry points in the group ``noisegate.verbs``, those of other packages as
ours: each is a function with typed parameters, or a group of such functions. `run`
calls the one that the command line names, and turns what happens into an exit code::

    0    done
    1    a fault in noisegate: its place is named, its message is not shown
    2    the request or its input is invalid
    3    refused by the ledger
    4    an audit found more than is claimed
    130  interrupted

With --json, an error is a JSON object too. `start` is what the program really begins
with: it prepares streams and signals before this module is imported.
"""

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
from noisegate.app.cli.console import (
    ERR,
    VerbGroup,
    be_quiet,
    discard_output,
    print_json,
)
from noisegate.app.request import DOORS
from noisegate.atomic import without_password
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
    "demo",
    "example",
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
)
"""Verbs in the order of a data steward's work, in which help lists those that are
installed; those of other packages come last."""
# Typer brings its own copy of click or uses the installed one, as its version has it:
# the base class of an exception of Typer is the one that is raised.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
_METAVARS = {
    "str": "TEXT",
    "int": "N",
    "int range": "N",
    "float": "NUMBER",
    "path": "PATH",
}
"""What help calls the value of an option, by the name of its type."""
_PANELS = {
    "Privacy": (
        "want",
        "like",
        "periods",
        "window",
        "corrections",
        "stream",
        "continue_",
        "withdrawn",
        "silo",
        "secure_sum",
    ),
    "Data": ("table", "columns", "kinds", "label", "public"),
    "Method": (
        "report_share",
        "for_inference",
        "analyses",
        "device",
        "engine",
        "address",
        "resume",
    ),
}
"""Parameters by the panel of help in which they are listed, beside those that
`app.request` declares with theirs; the others come first."""
_INTERACTIVE_VERBS = ("start",)
"""Verbs that ask questions, and so cannot be quiet."""
_MAX_OPTIONS_UNGROUPED = 14
"""Parameters of a verb up to which help lists them in one panel."""
_INTERRUPTED_CODE = 130  # as a shell reports Ctrl-C: 128 and the number of SIGINT
_USAGE_CODE = 2
_FAULT_CODE = 1
_TRACEBACK_VARIABLE = "NOISEGATE_TRACEBACK"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _verb_names() -> list[str]:
    """Returns the names of all installed verbs in the order of help."""
    installed = extensions("noisegate.verbs")
    ordered = [name for name in _ORDER if name in installed]
    return ordered + sorted(set(installed) - set(_ORDER))


def _load_verb(name: str) -> typer.Typer | Callable[..., None]:
    """Imports a verb: a function, or a group of functions.

    If it cannot be imported, the other verbs still work, and it raises an OptionError
    with the reason.

    Args:
        name: Of the verb, as it is typed.
    """
    try:
        return cast(
            "typer.Typer | Callable[..., None]",
            extensions("noisegate.verbs")[name].load(),
        )
    except ImportError as error:
        reason = f"{name}: cannot be loaded: {error}."

        def missing_verb() -> None:
            raise OptionError(reason)

        # Its line in the help of the program.
        missing_verb.__doc__ = "A package that this needs is not installed."
        return missing_verb


class _OrderedVerbs(VerbGroup):
    """The program: the group of all verbs, in the order of a data steward's work."""

    def list_commands(self, ctx: object) -> list[str]:
        """Returns the names of the verbs in the order of help."""
        return _verb_names()


app = typer.Typer(
    cls=_OrderedVerbs,
    name="noisegate",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Differentially private synthetic tables and images, with a certificate that "
    "anyone can check.\n\n"
    "Typical workflow: `schema` describes the columns or images, `plan` shows the "
    "privacy cost, `fit` spends it once, `sample` generates records, `infer` answers "
    "queries with error bars, `report` and `evaluate` assess the result, `verify` "
    "checks the certificate, `audit` attacks its claim. `ledger` tracks privacy "
    "budgets over many runs. Silos that may not pool records each `release` sums, and "
    "`merge` fits one model to them. `fit --method dp-llm` or `dp-sgd` trains a "
    "classifier: `predict` applies it, `explain` shows what it relies on.\n\n"
    "Exit codes: 0 success, 2 invalid request or input, 3 refused by the ledger, 4 an "
    "audit found more than is claimed, 130 interrupted.",
)
for _name in _verb_names():
    _verb = _load_verb(_name)
    if isinstance(_verb, typer.Typer):
        app.add_typer(_verb, name=_name)
    else:
        app.command(_name)(_verb)


def _print_version(is_asked_for: bool) -> None:
    """Prints the version and exits, if --version is on the command line."""
    if is_asked_for:
        typer.echo(f"noisegate {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
) -> None:
    """Differentially private synthetic tables and images."""


@cache
def program() -> typer.core.TyperGroup:
    """Builds the program: all verbs with their options, named for people.

    They are read off the signatures of the functions once in a process.
    """
    group = cast("typer.core.TyperGroup", typer.main.get_command(app))
    _arrange_help(group)
    _add_quiet(group)
    return group


def _add_quiet(group: typer.core.TyperGroup) -> None:
    """Gives every verb the option --quiet, those of other packages as ours.

    Args:
        group: Whose verbs are changed, and those of the groups in it.
    """
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            _add_quiet(command)
        elif name not in _INTERACTIVE_VERBS:
            quiet = typer.core.TyperOption(
                param_decls=["--quiet"],
                is_flag=True,
                expose_value=False,
                callback=be_quiet,
                help="No progress and no remarks: only warnings, errors and results.",
            )
            command.params.append(quiet)


def _arrange_help(group: typer.core.TyperGroup) -> None:
    """Names the values of options in help, and sorts many options into panels.

    So `--records` of a verb has the value N, and of `fit` it stands in the panel Data.
    What a verb states itself is left as it is.

    Args:
        group: Whose verbs are changed, and those of the groups in it.
    """
    panels = {name: panel for panel, names in _PANELS.items() for name in names}
    panels |= {name: door.panel for name, door in DOORS.items() if door.panel}
    for command in group.commands.values():
        if isinstance(command, typer.core.TyperGroup):
            _arrange_help(command)
        has_many_options = len(command.params) > _MAX_OPTIONS_UNGROUPED
        for option in command.params:
            if option.param_type_name == "option" and option.metavar is None:
                option.metavar = _METAVARS.get(option.type.name)
            # Only parameters of Typer have panels; --help is one of click.
            has_no_panel = getattr(option, "rich_help_panel", "") is None
            if has_many_options and has_no_panel:
                vars(option)["rich_help_panel"] = panels.get(option.name or "")


def run() -> None:
    """Runs the command line, and exits with its code."""
    sys.exit(_exit_code(lambda: program()(standalone_mode=False)))


class _Interruptible:
    """A block that Ctrl-C and SIGTERM end alike, by a KeyboardInterrupt.

    So whatever the block has begun is cleared up on its way out.

    Attributes:
        was_interrupted: Whether a signal came. A library may turn the interrupt into an
            error of its own.
    """

    def __init__(self) -> None:
        self.was_interrupted = False
        self._handlers_before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Puts the handlers in place; only the main thread may do so."""
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                # Ctrl-C is ignored in a shell's background jobs, and stays so.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    handler_before = signal.signal(number, self._interrupt)
                    self._handlers_before[number] = handler_before
        return self

    def __exit__(self, *_: object) -> None:
        """Puts the handlers from before back."""
        for number, handler in self._handlers_before.items():
            signal.signal(number, handler)

    def _interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        """Handles a signal."""
        self.was_interrupted = True
        raise KeyboardInterrupt


def _exit_code(action: Callable[[], object]) -> int:
    """Runs the program, and prints what stopped it.

    Args:
        action: Runs a verb. Returns its exit code if it is an integer.

    Returns:
        The exit code; see the top of this file.

    Raises:
        Exception: a fault in noisegate, if NOISEGATE_TRACEBACK is set.
    """
    signals = _Interruptible()
    try:
        with signals, at_command_line():
            code = action()
            sys.stdout.flush()
        # Typer turns Ctrl-C into this code, or into Abort, as its version has it.
        if code == _INTERRUPTED_CODE:
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except (typer.Abort, KeyboardInterrupt):
        return _fail("stopped.", _INTERRUPTED_CODE)
    except NoisegateError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        discard_output(sys.stdout)
        return 0
    except SystemExit as exit_request:
        # Rich exits if nobody reads its help any more.
        is_broken_pipe = isinstance(exit_request.__context__, BrokenPipeError)
        if not is_broken_pipe:
            raise
        return 0
    except OSError as error:
        if error.filename is None:
            discard_output(sys.stdout)
        subject = error.filename or "the output"
        reason = error.strerror or type(error).__name__
        return _fail(f"{subject} cannot be used: {reason}.", _USAGE_CODE)
    except MemoryError:
        return _fail(
            "there is not enough memory; ask for less, for instance with --set "
            "frequencies=200.",
            _USAGE_CODE,
        )
    except _USAGE_ERROR as error:
        # Without arguments, help was printed, and there is nothing to add.
        if not str(error):
            return _USAGE_CODE
        return _fail(_usage_message(error), _USAGE_CODE)
    except Exception as error:
        if signals.was_interrupted:
            return _fail("stopped.", _INTERRUPTED_CODE)
        if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
            missing = MissingExtraError.of(error.name, "this")
            return _fail(str(missing), missing.exit_code)
        if os.environ.get(_TRACEBACK_VARIABLE):
            raise
        return _fail(_fault_message(error), _FAULT_CODE)


def _usage_message(error: Exception) -> str:
    """Returns what is wrong with the command line, and which help to read."""
    if hasattr(error, "format_message"):
        message = str(error.format_message())
    else:
        message = str(error)
    if message.startswith("No such command"):
        # It may be one of a package that is not installed.
        message = message.rstrip(".") + more()
    context = getattr(error, "ctx", None)
    hint = "" if context is None else f" See: {context.command_path} --help"
    return f"{without_password(message).rstrip('.')}.{hint}"


def _fault_message(error: Exception) -> str:
    """Returns where a fault is, in noisegate or in a package that adds to it.

    The text of an unexpected error may quote private values, and is not shown.
    """
    location = _fault_location(error)
    file_path = location.partition(",")[0]
    owner = Path(file_path).parts[0].removesuffix(".py")
    if owner in _added_packages():
        whose = f"{owner}, a package that adds to noisegate"
        cure = "Please report it to its authors."
    else:
        whose = "noisegate"
        cure = "Please report it."
    return (
        f"this is a fault in {whose}: {type(error).__name__} in {location}. Its "
        "message may hold private values and is not shown; "
        f"{_TRACEBACK_VARIABLE}=1 in the environment shows it. {cure} If a fit "
        "left OUT.partial behind, its budget is not lost: `noisegate fit --resume "
        "--out OUT` continues it."
    )


def _fault_location(error: Exception) -> str:
    """Returns the last line of our packages, or of one that adds, that an error came through.

    As in "noisegate/gate/sums.py, line 12", from the folder of the package on.
    """
    location = "its start"
    packages = ("noisegate", *PACKAGES, *_added_packages())
    for frame in traceback.extract_tb(error.__traceback__):
        parts = Path(frame.filename).parts
        names = [part.removesuffix(".py") for part in parts]
        for package in packages:
            if package in names:
                # A checkout may lie in a folder of this name, too: the last one counts.
                depth = names[::-1].index(package) + 1
                location = f"{Path(*parts[-depth:])}, line {frame.lineno}"
    return location


def _added_packages() -> set[str]:
    """Returns the packages of others that have a method, a model or a verb here."""
    packages = {
        point.module.partition(".")[0]
        for group in ("noisegate.methods", "noisegate.models", "noisegate.verbs")
        for point in extensions(group).values()
    }
    return packages - {"noisegate", *PACKAGES}


def _fail(message: str, code: int) -> int:
    """Prints an error, as JSON with --json, and returns the exit code.

    Args:
        message: What stopped the program.
        code: The exit code.
    """
    if "--json" in sys.argv:
        print_json({"error": message, "exit_code": code})
    else:
        ERR.print(f"[red]error:[/red] {escape(message)}", soft_wrap=True)
    return code
