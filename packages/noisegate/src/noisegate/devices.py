"""Devices to compute on, and how many threads NumPy and torch compute with.

Sums of floating-point numbers round by the order in which threads add them up, so the
gate fixes the number of threads (`gate_threads`). A fit keeps to one thread for another
reason: its many small operations would wait for each other (`one_thread`).

Threads are numbered in three places, which must all be set and put back::

    torch     a number of each Python thread, and one that new threads begin with
    BLAS      mostly one number of the process
    OpenMP    a number of each Python thread

Several Python threads may be inside such a block at once, so the first one in notes the
numbers, and the last one out puts them back.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeAlias

from noisegate.errors import OptionError, require

if TYPE_CHECKING:
    import torch
    from threadpoolctl import LibController


def check_device(name: str, what: str) -> None:
    """Checks the device of a fit that computes on the CPU in any case.

    Args:
        name: The device; "auto" and "cpu" need no torch.
        what: The fit, for messages.

    Raises:
        OptionError: if the device is not available.
    """
    if name not in ("auto", "cpu"):
        choose_device(name, f"device={name!r} for {what}")


def choose_device(name: str, what: str = "a fit") -> torch.device:
    """Returns a device by its name.

    Args:
        name: "cpu", "cuda" or "mps"; or "auto", which is a CUDA GPU where there is one.
        what: What computes there, for messages.

    Raises:
        OptionError: if the device is not available.
        MissingExtraError: without torch.
    """
    require("torch", what)
    import torch

    available_names = ["cpu"]
    if torch.cuda.is_available():
        available_names.append("cuda")
    if torch.backends.mps.is_available():
        available_names.append("mps")
    if name == "auto":
        return torch.device("cuda" if "cuda" in available_names else "cpu")
    if name not in available_names:
        raise OptionError(
            f"device={name!r} is not available here; choose 'auto' or one of "
            f"{', '.join(available_names)}."
        )
    return torch.device(name)


def usable_cores() -> int:
    """Returns the number of cores that this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# Threads of torch.


class _TorchOnOneThread:
    """Keeps torch on one thread while any Python thread is inside.

    Torch has a number of threads for each Python thread that has set or used it, and
    one that new Python threads begin with; setting the first sets the second too. So a
    thread that leaves before the last one stays on one thread: putting back its own
    number would change that of the others.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside_count = 0
        # What the last one out puts back.
        self._number_before = 1
        # What this Python thread had before, while it is still on one thread.
        self._own = threading.local()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps torch on one thread in the block."""
        with self._lock:
            self._limit()
            self._inside_count += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside_count -= 1
                if not self._inside_count:
                    self._restore()

    def _limit(self) -> None:
        """Sets one thread; the first one in notes the number before."""
        import torch

        number = torch.get_num_threads()
        if not self._inside_count:
            # One thread may be what an earlier block has left here.
            if number == 1:
                number = getattr(self._own, "number_before", number)
            self._number_before = number
        self._own.number_before = self._number_before
        torch.set_num_threads(1)

    def _restore(self) -> None:
        """Puts back the number before."""
        import torch

        torch.set_num_threads(self._number_before)
        self._own.__dict__.clear()


# Threads of BLAS and OpenMP libraries.

_NumbersBefore: TypeAlias = "dict[str, tuple[LibController, int]]"
"""Libraries whose number of threads was changed, with it, by their files."""


class _LibrariesOnOneThread:
    """Keeps the BLAS and OpenMP libraries that are loaded on one thread each.

    Of most BLAS libraries the number is one of the process, of OpenMP's one of each
    Python thread. The first one in notes the numbers of the process, and each Python
    thread its own; the last one out of either puts them back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside_count = 0
        self._numbers_of_process: _NumbersBefore = {}
        self._own = _OwnNumbers()
        self._libraries: tuple[LibController, ...] = ()
        self._module_count = -1

    @contextmanager
    def held(self, *, openmp: bool) -> Iterator[None]:
        """Keeps BLAS on one thread in the block.

        Args:
            openmp: Whether OpenMP is kept on one thread too, in this Python thread.
        """
        own = self._own
        with self._lock:
            self._inside_count += 1
            own.inside_count += 1
            for library in self._loaded_libraries():
                if not openmp and library.user_api != "blas":
                    continue
                if _is_numbered_by_thread(library):
                    _set_one_thread(library, own.numbers)
                else:
                    _set_one_thread(library, self._numbers_of_process)
        try:
            yield
        finally:
            with self._lock:
                self._inside_count -= 1
                own.inside_count -= 1
                if not own.inside_count:
                    _put_back(own.numbers)
                if not self._inside_count:
                    _put_back(self._numbers_of_process)

    def _loaded_libraries(self) -> tuple[LibController, ...]:
        """Returns the libraries that are loaded.

        They are searched for again where a module was imported, which may have loaded
        one.
        """
        if self._module_count != len(sys.modules):
            from threadpoolctl import ThreadpoolController

            self._module_count = len(sys.modules)
            self._libraries = tuple(ThreadpoolController().lib_controllers)
        return self._libraries


class _OwnNumbers(threading.local):
    """What each Python thread has noted of the libraries.

    Attributes:
        inside_count: How many blocks this thread is in.
        numbers: Libraries numbered by thread whose number it has changed.
    """

    def __init__(self) -> None:
        self.inside_count = 0
        self.numbers: _NumbersBefore = {}


def _is_numbered_by_thread(library: LibController) -> bool:
    """Tells whether each Python thread has its own number for a library.

    So it is for OpenMP, and for a BLAS library that computes with OpenMP.
    """
    threading_layer = getattr(library, "threading_layer", "")
    return library.user_api == "openmp" or threading_layer == "openmp"


def _set_one_thread(library: LibController, numbers_before: _NumbersBefore) -> None:
    """Sets a library to one thread, and notes the number before unless it is noted."""
    number = library.get_num_threads()
    if number is not None and number != 1:
        numbers_before.setdefault(library.filepath, (library, number))
        _set_threads(library, 1)


def _put_back(numbers_before: _NumbersBefore) -> None:
    """Sets libraries to the numbers that were noted, and forgets them."""
    for library, number in numbers_before.values():
        _set_threads(library, number)
    numbers_before.clear()


def _set_threads(library: LibController, number: int) -> None:
    """Sets the number of threads of a library.

    From version 3.7 on, threadpoolctl does nothing, and says nothing, where another
    Python thread was the first to set the number of OpenBLAS. Here a lock says whose
    turn it is, so its claim is cleared before and after.
    """
    clear_claim = getattr(library, "clear_controlling_thread", None)
    if clear_claim is not None:
        clear_claim(force=True)
    library.set_num_threads(number)
    if clear_claim is not None:
        clear_claim(force=True)


# Blocks on a fixed number of threads.

_torch = _TorchOnOneThread()
_libraries = _LibrariesOnOneThread()


@contextmanager
def one_thread(device: torch.device | None = None) -> Iterator[None]:
    """Keeps NumPy or torch on one thread in the block.

    A step of a fit is many small operations: threads that wait for each other after
    every one of them were seen to take fifty times as long.

    Args:
        device: Where torch computes; only of the CPU threads are limited. None for a
            fit with NumPy.
    """
    if device is None:
        limited: AbstractContextManager[None] = _libraries.held(openmp=False)
    elif device.type == "cpu":
        limited = _torch.held()
    else:
        limited = nullcontext()
    with limited:
        yield


@contextmanager
def gate_threads(torch_threads: int = 1) -> Iterator[None]:
    """Fixes how many threads this Python thread computes with, whatever they were.

    The bits of a sum may depend on it. So the gate's probe and what it probes both
    compute inside such a block.

    Args:
        torch_threads: Threads of torch, which is not imported for it. NumPy's BLAS and
            OpenMP have one.
    """
    # Torch comes first: what it says of its threads is what OpenMP says, which the
    # libraries' block changes.
    with _torch_threads(torch_threads), _libraries.held(openmp=True):
        if torch_threads != 1 and "torch" in sys.modules:
            import torch

            torch.set_num_threads(torch_threads)
        yield


@contextmanager
def _torch_threads(number: int) -> Iterator[None]:
    """Fixes the threads of torch in the block, if it is imported."""
    if "torch" not in sys.modules:
        yield
        return
    import torch

    if number == 1:
        with _torch.held():
            yield
        return
    number_before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(number_before)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Lets torch draw on the CPU from a public seed in the block.

    Its state is put back afterwards.

    Args:
        seed: From 0 to 2⁶³ − 1.
    """
    import torch

    state_before = torch.default_generator.get_state()
    # Not torch.manual_seed, which would seed every GPU too and leave it so.
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.default_generator.set_state(state_before)
