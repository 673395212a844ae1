"""Ctrl-C at the right moment: never between drawing the noise and writing the release down."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def held() -> Iterator[Callable[[], None]]:
    """Holds Ctrl-C and SIGTERM back; yields a function to call where the work may stop, which lets them through.

    A second signal is let through at once.
    """
    asked = False

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    def may_stop() -> None:
        if asked:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        # Signals go to the main thread only.
        yield may_stop
        return
    before = {number: signal.signal(number, ask) for number in _SIGNALS}
    try:
        yield may_stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
