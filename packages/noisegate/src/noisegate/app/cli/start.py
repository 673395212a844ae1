"""Where the program begins: signals, streams and imports are in order before the first slow import.

What it does not load is pandas, which pyarrow imports wherever it is installed: the program reads files and meets none.
"""

import codecs
import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType

_WORDS = {
    "ε": "epsilon",
    "δ": "delta",
    "≤": "<=",
    "≥": ">=",
    "±": "+/-",
    "×": "x",
    "→": "->",
    "−": "-",
    "…": "...",
}
_WORDS |= {"²": "^2", "ρ": "rho", "σ": "sigma", "μ": "mu", "–": "-", "—": "-", "•": "*"}
_RULE = "noisegate.words"
_ASKED = "importlib.", "_frozen_importlib", __name__
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STOPPED = 130


def start() -> None:
    """Runs the command line, and exits."""
    if (
        signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    ):  # a shell's background job ignores it
        signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
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
        # What there was to say is said: nothing may interrupt the interpreter while it clears up.
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    # Nothing has begun that would have to be undone, and a library that is half imported may not bear an exception.
    os.write(2, b"error: stopped.\n")
    os._exit(_STOPPED)


def put_in_order() -> None:
    """Makes the standard streams fit to be written to, closed ones and those whose encoding lacks a character too."""
    # Else the next file that is opened would get the number of a closed one, and with it what is written there.
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8")  # noqa: SIM115
    codecs.register_error(_RULE, _worded)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_RULE)
    if (
        os.environ.get("COLUMNS", "").strip("0") == ""
    ):  # so a terminal says that it knows no width
        os.environ.pop("COLUMNS", None)


def _worded(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    words = "".join(
        _WORDS.get(one) or one.encode("ascii", "backslashreplace").decode()
        for one in found
    )
    try:
        words.encode(error.encoding)
    except UnicodeEncodeError:  # of an encoding that has no letters
        words = "?" * len(found)
    return words, error.end


class _WithoutPandas:
    """Finds no pandas where pyarrow asks for it, which is compiled: the nearest frame is the module that calls."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Raises a ModuleNotFoundError for pandas where a module of noisegate is nearest; finds nothing itself."""
        if name != "pandas":
            return None
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get(
            "__name__", ""
        ).startswith(_ASKED):
            frame = frame.f_back
        if frame.f_globals.get("__name__", "").startswith(("noisegate.", "noisegate_")):
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")
        return None


def leave_pandas_alone() -> None:
    """Lets pyarrow do without pandas from here on."""
    sys.meta_path.insert(0, _WithoutPandas())


if __name__ == "__main__":
    start()
