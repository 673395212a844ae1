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
    """Checks the device `name` of a fit, `what`, that computes on the CPU anyway; "auto" and "cpu" need no torch."""
    if name not in ("auto", "cpu"):
        choose_device(name, f"device={name!r} for {what}")


def choose_device(name: str, what: str = "a fit") -> torch.device:
    """Returns "auto", "cpu", "cuda" or "mps" as a device; "auto" is a GPU when there is one. `what` computes there."""
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
    """One thread while anybody is inside, from whichever thread; `limit` is told who is first, the last restores."""

    def __init__(self, limit: Callable[[bool], None], restore: Callable[[], None]) -> None:
        self._limit, self._restore, self._turn, self._inside = limit, restore, threading.Lock(), 0

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._turn:
            self._limit(not self._inside)
            self._inside += 1
        try:
            yield
        finally:
            with self._turn:
                self._inside -= 1
                if not self._inside:
                    self._restore()


class _Torch:
    """The threads of torch: their number is one of each thread, and one of the process for those that begin."""

    # Whoever leaves before the last one stays on one thread, as to put back its own number would change the others'.

    def __init__(self) -> None:
        self._own, self._before = threading.local(), 1

    def limit(self, first: bool) -> None:
        import torch

        number = torch.get_num_threads()
        if first:
            self._before = getattr(self._own, "before", number) if number == 1 else number
        self._own.before = self._before
        torch.set_num_threads(1)

    def restore(self) -> None:
        import torch

        torch.set_num_threads(self._before)
        self._own.__dict__.clear()


class _Blas:
    """The threads of NumPy, whose number is one of the process."""

    def limit(self, first: bool) -> None:
        from threadpoolctl import threadpool_limits

        if first:
            self.restore: Callable[[], None] = threadpool_limits(1, user_api="blas").restore_original_limits


_of_torch, _of_blas = _Torch(), _Blas()
_torch, _blas = _OneThread(_of_torch.limit, _of_torch.restore), _OneThread(_of_blas.limit, lambda: _of_blas.restore())


@contextmanager
def one_thread(device: torch.device | None = None) -> Iterator[None]:
    """Keeps torch on one thread of the CPU while anybody is inside, from whichever thread; without a device, NumPy.

    A step of a fit is many small operations: threads that wait for each other after every one of them were seen to take
    fifty times as long. At the gate, bits may depend on their number.
    """
    if device is not None and device.type != "cpu":
        yield
        return
    with (_blas if device is None else _torch).held():
        yield


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Lets torch draw on the CPU from the public `seed`, 0 to 2⁶³ − 1, in the block; then puts its state back."""
    import torch

    before = torch.default_generator.get_state()
    # Not torch.manual_seed, which would seed every GPU too and leave it so.
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.default_generator.set_state(before)
