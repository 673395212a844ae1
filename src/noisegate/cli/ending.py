"""How the program ends: by itself or by a signal, with an exit code and one message in the form that was asked for."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Self

import typer

from noisegate.errors import EXTRAS, MissingExtraError, NoisegateError

# Typer brings its own copy of click or uses the installed one, as its version has it: this finds the right class.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
_STOPPED = 130
_TRACEBACK = "NOISEGATE_TRACEBACK"


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stoppable:
    """A block that Ctrl-C and SIGTERM stop alike, by a KeyboardInterrupt, so that what it had begun is cleared up.

    Attributes:
        asked: Whether either has come. A library may turn the interrupt into an error of its own.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # Ctrl-C is ignored in a shell's background jobs, and stays so.
            heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._stop) for number in heard}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        self.asked = True
        raise KeyboardInterrupt


def end(action: Callable[[], object]) -> int:
    """Runs `action` and returns the exit code: 0 done, 2 user error, 3 refused, 130 stopped, 1 a fault of ours."""
    signals = Stoppable()
    try:
        with signals:
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
        _discard_output()
        return 0
    except OSError as error:
        if error.filename is None:
            _discard_output()
        return _fail(f"{error.filename or 'the output'} cannot be used: {error.strerror or type(error).__name__}.", 2)
    except MemoryError:
        return _fail("there is not enough memory; ask for less, for instance with --set frequencies=200.", 2)
    except _USAGE_ERROR as error:
        # Without arguments, help was printed, and there is nothing to add.
        return _fail(_usage(error), 2) if str(error) else 2
    except Exception as error:
        if signals.asked:
            return _fail("stopped.", _STOPPED)
        if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
            return _fail(str(MissingExtraError.of(error.name, "this")), MissingExtraError.exit_code)
        if os.environ.get(_TRACEBACK):
            raise
        return _fail(_fault(error), 1)


def _discard_output() -> None:
    # Nobody takes our output any more; what is left of it must not fail again at exit.
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    os.dup2(sys.stdout.fileno(), 1)


def _usage(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    message = str(error.format_message()) if hasattr(error, "format_message") else str(error)
    hint = f" See: {context.command_path} --help" if context is not None else ""
    return f"{message.rstrip('.')}.{hint}"


def _fault(error: Exception) -> str:
    ours = str(Path(__file__).parents[1])
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(ours)]
    place = f"{Path(frames[-1].filename).relative_to(ours)}, line {frames[-1].lineno}" if frames else "its start"
    return (
        f"this is a fault in noisegate: {type(error).__name__} in {place}. What it says may hold private values and is "
        f"not shown; {_TRACEBACK}=1 in the environment shows it. Please report it. If a fit left OUT.partial behind, "
        "its budget is not lost: `noisegate fit --resume --out OUT` goes on from there."
    )


def _fail(message: str, code: int) -> int:
    from rich.markup import escape

    from noisegate.cli.console import ERR, print_json

    if "--json" in sys.argv:
        print_json({"error": message, "exit_code": code})
    else:
        ERR.print(f"[red]error:[/red] {escape(message)}", soft_wrap=True)
    return code
