"""The standard streams, whatever the shell made of them: closed, of a narrow encoding, or of no width."""

from __future__ import annotations

import codecs
import io
import os
import sys

_WORDS = {"ε": "epsilon", "δ": "delta", "≤": "<=", "≥": ">=", "±": "+/-", "×": "x", "→": "->", "−": "-", "…": "..."}
_WORDS |= {"²": "^2", "ρ": "rho", "σ": "sigma", "μ": "mu", "–": "-", "—": "-", "•": "*"}
_RULE = "noisegate.words"


def put_in_order() -> None:
    """Makes the standard streams fit to be written to.

    One that is closed swallows what is written; else the next file that is opened would get its number, and with it
    what is written there. A character that an encoding lacks becomes words, as ε in cp1252, or an escape.
    """
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
    if os.environ.get("COLUMNS", "").strip("0") == "":  # so a terminal says that it knows no width
        os.environ.pop("COLUMNS", None)


def _worded(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    words = "".join(_WORDS.get(one) or one.encode("ascii", "backslashreplace").decode() for one in found)
    try:
        words.encode(error.encoding)
    except UnicodeEncodeError:  # of an encoding that has no letters
        words = "?" * len(found)
    return words, error.end
