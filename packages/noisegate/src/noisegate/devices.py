"""Where to compute, on how many threads, and from which seed weights are drawn."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from noisegate.errors import OptionError, require

if TYPE_CHECKING:
    import torch


def check_device(name: str, what: str) -> None:
    """Checks the device of a fit that computes on the CPU wherever it is asked to; "auto" and "cpu" need no torch.

    Args:
        name: "auto", "cpu", "cuda" or "mps".
        what: Computes there, for a message.
    """
    if name not in ("auto", "cpu"):
        choose_device(name, f"device={name!r} for {what}")


def choose_device(name: str, what: str = "a fit") -> torch.device:
    """Returns the device called `name`; "auto" is a GPU when there is one.

    Args:
        name: "auto", "cpu", "cuda" or "mps".
        what: Computes there, for a message.
    """
    require("torch", what)
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    available = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    available += ["mps"] if torch.backends.mps.is_available() else []
    if name not in available:
        raise OptionError(f"device={name!r} is not available here; choose 'auto' or one of {', '.join(available)}.")
    return torch.device(name)


def usable_cores() -> int:
    """Returns the number of cores that this process may use, at least 1."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _OneThread:
    """One thread while anybody is inside, from whichever thread; what was there before is put back by the last one.

    `limit` sets one thread and returns what sets back what there was.
    """

    def __init__(self, limit: Callable[[], Callable[[], None]]) -> None:
        self._limit, self._turn, self._inside = limit, threading.Lock(), 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps to one thread within the block."""
        with self._turn:
            if not self._inside:
                self._restore = self._limit()
            self._inside += 1
        try:
            yield
        finally:
            with self._turn:
                self._inside -= 1
                if not self._inside:
                    self._restore()


def _limit_torch() -> Callable[[], None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    return lambda: torch.set_num_threads(before)


def _limit_blas() -> Callable[[], None]:
    from threadpoolctl import threadpool_limits

    restore: Callable[[], None] = threadpool_limits(1, user_api="blas").restore_original_limits
    return restore


_torch, _blas = _OneThread(_limit_torch), _OneThread(_limit_blas)


@contextmanager
def one_thread(device: torch.device | None = None) -> Iterator[None]:
    """Keeps torch on one thread of the CPU while anybody is inside, from whichever thread; without a device, NumPy.

    A step of a fit is many small operations. Threads that wait for each other after every one of them gain little on
    idle cores, and on a machine with anything else to do they were seen to take fifty times as long. At the gate, which
    has threads of its own, bits may depend on their number. Parts of the switch are those of the whole process, so what
    was there before the first one inside is put back by the last one, and by nobody before.
    """
    if device is not None and device.type != "cpu":
        yield
        return
    with (_blas if device is None else _torch).held():
        yield


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Lets torch draw weights from `seed` on the CPU within the block, and puts its random state back afterwards.

    Args:
        seed: Public, from 0 to 2⁶³ − 1.
    """
    import torch

    before = torch.default_generator.get_state()
    # Not torch.manual_seed, which would seed every GPU too and leave it so.
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.default_generator.set_state(before)
