"""Ctrl-C and SIGTERM at the right moment: never between drawing the noise and writing the release down."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

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
