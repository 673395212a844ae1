"""Where to compute, on how many threads, and from which seed weights are drawn."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from noisegate.errors import OptionError, require

if TYPE_CHECKING:
    import torch
    from threadpoolctl import LibController


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
        raise OptionError(
            f"device={name!r} is not available here; choose 'auto' or one of {', '.join(available)}."
        )
    return torch.device(name)


def usable_cores() -> int:
    """Returns the number of cores that this process may use, at least 1."""
    return (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )


class _OneThread:
    """One thread while anybody is inside, from whichever thread; `limit` is told who is first, the last restores."""

    def __init__(
        self, limit: Callable[[bool], None], restore: Callable[[], None]
    ) -> None:
        self._limit, self._restore, self._turn, self._inside = (
            limit,
            restore,
            threading.Lock(),
            0,
        )

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
            self._before = (
                getattr(self._own, "before", number) if number == 1 else number
            )
        self._own.before = self._before
        torch.set_num_threads(1)

    def restore(self) -> None:
        import torch

        torch.set_num_threads(self._before)
        self._own.__dict__.clear()


class _Libraries:
    """The threads of the BLAS and OpenMP libraries that are loaded: one each, while anybody is inside.

    Of most BLAS libraries the number of threads is one of the process, of OpenMP's one of each thread. The first who
    comes in notes the numbers, of the process or of the thread, and the last who leaves puts them back.
    """

    def __init__(self) -> None:
        self._turn, self._own = threading.Lock(), threading.local()
        self._loaded: tuple[LibController, ...] = ()
        self._module_count = -1
        self._inside = 0
        self._before: dict[str, tuple[LibController, int]] = {}

    @contextmanager
    def held(self, *, openmp: bool) -> Iterator[None]:
        """Keeps BLAS on one thread in the block, and with `openmp` OpenMP in this thread too."""
        own = self._own.__dict__
        with self._turn:
            self._inside += 1
            own["inside"] = own.get("inside", 0) + 1
            for library in self._libraries():
                is_of_thread = _is_of_thread(library)
                if openmp or library.user_api == "blas":
                    _limit(
                        library,
                        own.setdefault("before", {}) if is_of_thread else self._before,
                    )
        try:
            yield
        finally:
            with self._turn:
                self._inside -= 1
                own["inside"] -= 1
                if not own["inside"]:
                    _put_back(own.get("before", {}))
                if not self._inside:
                    _put_back(self._before)

    def _libraries(self) -> tuple[LibController, ...]:
        """Returns the libraries; looks for them again where a module was imported, which may have loaded one."""
        if self._module_count != len(sys.modules):
            from threadpoolctl import ThreadpoolController

            self._module_count = len(sys.modules)
            self._loaded = tuple(ThreadpoolController().lib_controllers)
        return self._loaded


def _is_of_thread(library: LibController) -> bool:
    return (
        library.user_api == "openmp"
        or getattr(library, "threading_layer", "") == "openmp"
    )


def _limit(
    library: LibController, before: dict[str, tuple[LibController, int]]
) -> None:
    number = library.get_num_threads()
    if number is not None and number != 1:
        before.setdefault(library.filepath, (library, number))
        _set_threads(library, 1)


def _put_back(before: dict[str, tuple[LibController, int]]) -> None:
    for library, number in before.values():
        _set_threads(library, number)
    before.clear()


def _set_threads(library: LibController, number: int) -> None:
    # From version 3.7 on threadpoolctl does nothing, and says nothing, where another thread was the first to set
    # OpenBLAS's number. Here the lock of `_Libraries` says whose turn it is.
    release = getattr(library, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)
    library.set_num_threads(number)
    if release is not None:
        release(force=True)


_of_torch, _libraries = _Torch(), _Libraries()
_torch = _OneThread(_of_torch.limit, _of_torch.restore)


@contextmanager
def one_thread(device: torch.device | None = None) -> Iterator[None]:
    """Keeps torch on one thread of the CPU while anybody is inside, from whichever thread; without a device, NumPy.

    A step of a fit is many small operations: threads that wait for each other after every one of them were seen to take
    fifty times as long. At the gate, bits may depend on their number: see `gate_threads`.
    """
    if device is not None and device.type != "cpu":
        yield
        return
    with _libraries.held(openmp=False) if device is None else _torch.held():
        yield


@contextmanager
def gate_threads(torch_threads: int = 1) -> Iterator[None]:
    """Fixes how many threads NumPy and torch compute with in this thread, as bits may depend on it.

    NumPy's BLAS and OpenMP have one, torch has `torch_threads`. The gate's probe and what it probes both compute
    inside, whatever the numbers were outside. Torch is not imported for it.
    """
    # Torch is first: what it says of its threads is what OpenMP says, which the libraries' block changes.
    with _torch_threads(torch_threads), _libraries.held(openmp=True):
        if torch_threads != 1 and "torch" in sys.modules:
            import torch

            torch.set_num_threads(torch_threads)
        yield


@contextmanager
def _torch_threads(number: int) -> Iterator[None]:
    if "torch" not in sys.modules:
        yield
        return
    import torch

    if number == 1:
        with _torch.held():
            yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
