"""Where the program begins: signals are in order before the first slow import, and after the last output."""

from __future__ import annotations

import os
import signal
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STOPPED = 130


def start() -> None:
    """Runs the command line, and exits."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a shell's background job ignores it
        signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    from noisegate.cli.start_up import leave_pandas_alone
    from noisegate.cli.streams import put_in_order

    put_in_order()
    leave_pandas_alone()
    from noisegate.cli.main import run

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


run = start  # what scripts that are installed already call


if __name__ == "__main__":
    start()
