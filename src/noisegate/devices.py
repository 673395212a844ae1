"""Where to compute, on how many threads, and from which seed weights are drawn."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from noisegate.errors import OptionError, require

if TYPE_CHECKING:
    import torch


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


_turn, _inside, _before = threading.Lock(), 0, 1


@contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """Keeps torch on one thread of the CPU while anybody is inside, from whichever thread.

    A step of a fit is many small operations. Threads that wait for each other after every one of them gain little on
    idle cores, and on a machine with anything else to do they were seen to take fifty times as long. At the gate, which
    has threads of its own, bits may depend on their number. Parts of the switch are those of the whole process, so what
    was there before the first one inside is put back by the last one, and by nobody before.
    """
    import torch

    global _inside, _before
    if device.type != "cpu":
        yield
        return
    with _turn:
        if not _inside:
            _before = torch.get_num_threads()
        _inside += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _turn:
            _inside -= 1
            if not _inside:
                torch.set_num_threads(_before)


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
