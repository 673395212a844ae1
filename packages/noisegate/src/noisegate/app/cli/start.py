"""Where the program begins, before the first slow import.

`start` puts signals and streams in order, then imports the command line and runs it::

    signals    Ctrl-C and SIGTERM end the program at once, and without a traceback
    streams    closed ones are opened, and each can write any character
    pandas     is not imported by pyarrow, which does so wherever it is installed

The program reads files and meets no table of pandas, whose import is slow.
"""

import codecs
import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType

_ASCII_FORMS = {
    "ε": "epsilon",
    "δ": "delta",
    "ρ": "rho",
    "σ": "sigma",
    "μ": "mu",
    "≤": "<=",
    "≥": ">=",
    "±": "+/-",
    "×": "x",
    "→": "->",
    "−": "-",
    "–": "-",
    "—": "-",
    "…": "...",
    "²": "^2",
    "•": "*",
}
"""What is written in place of a character that the encoding of a stream lacks. Other
characters become escapes."""
_ERROR_HANDLER = "noisegate.words"
"""Name under which codecs knows `_write_in_ascii`."""
_IMPORT_MODULES = ("importlib.", "_frozen_importlib", __name__)
"""Beginnings of the names of modules whose frames belong to an import itself."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_INTERRUPTED_CODE = 130


def start() -> None:
    """Runs the command line, and exits."""
    # A shell's background job ignores Ctrl-C, and must continue doing so.
    ignores_interrupts = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if not ignores_interrupts:
        signal.signal(signal.SIGINT, _exit_at_once)
    signal.signal(signal.SIGTERM, _exit_at_once)
    put_in_order()
    leave_pandas_alone()
    from noisegate.errors import NoisegateError

    try:
        from noisegate.app.cli.main import run
    except NoisegateError as error:  # two installed packages add one name
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)

    try:
        run()
    finally:
        # All messages are printed: nothing may interrupt the interpreter while it
        # clears up.
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def _exit_at_once(_signal: int, _frame: FrameType | None) -> None:
    """Handles a signal while modules are imported.

    Nothing has begun that would have to be undone, and a library that is half imported
    may not bear an exception.
    """
    os.write(2, b"error: stopped.\n")
    os._exit(_INTERRUPTED_CODE)


def put_in_order() -> None:
    """Makes the standard streams fit to be written to.

    Closed ones are opened on the null device. All write words for the characters that
    their encoding lacks: "epsilon" for "ε".
    """
    _reserve_standard_descriptors()
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8")  # noqa: SIM115
    codecs.register_error(_ERROR_HANDLER, _write_in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERROR_HANDLER)
    # A terminal that does not know its width says that it is 0.
    has_width = os.environ.get("COLUMNS", "").strip("0") != ""
    if not has_width:
        os.environ.pop("COLUMNS", None)


def _reserve_standard_descriptors() -> None:
    """Opens those of the descriptors 0, 1 and 2 that are closed, on the null device.

    Else the next file that is opened would get the number of a closed stream, and with
    it what is written there.
    """
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)


def _write_in_ascii(error: UnicodeError) -> tuple[str, int]:
    r"""Replaces characters that an encoding lacks, as an error handler of codecs.

    Args:
        error: What was to be encoded, and which characters cannot be.

    Returns:
        Words or escapes in place of them, as "<=" or "\u4e2d", and the position where
        encoding continues. Question marks if the encoding has no letters.

    Raises:
        UnicodeError: if the error is not one of encoding.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    replacement = "".join(
        _ASCII_FORMS.get(character)
        or character.encode("ascii", "backslashreplace").decode()
        for character in characters
    )
    try:
        replacement.encode(error.encoding)
    except UnicodeEncodeError:
        replacement = "?" * len(characters)
    return replacement, error.end


class _WithoutPandas:
    """A finder of modules that hides pandas from pyarrow, and from nobody else.

    Pyarrow is compiled, so it has no frame of its own: the nearest frame of an import
    that it does is the module that called it, which is one of ours.
    """

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Finds no module; other finders are asked next.

        Args:
            name: Full name of the module.
            path: Where a submodule is searched.
            target: Module that is reloaded.

        Returns:
            None, always.

        Raises:
            ModuleNotFoundError: for pandas, if a module of noisegate is nearest.
        """
        if name != "pandas":
            return None
        frame = sys._getframe(1)
        while frame.f_back is not None and _module_name(frame).startswith(
            _IMPORT_MODULES
        ):
            frame = frame.f_back
        if _module_name(frame).startswith(("noisegate.", "noisegate_")):
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")
        return None


def _module_name(frame: FrameType) -> str:
    """Returns the name of the module that a frame is in; "" if it has none."""
    return str(frame.f_globals.get("__name__", ""))


def leave_pandas_alone() -> None:
    """Lets pyarrow do without pandas from here on."""
    sys.meta_path.insert(0, _WithoutPandas())


if __name__ == "__main__":
    start()
