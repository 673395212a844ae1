"""Where to compute, and on how many threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from noisegate.errors import OptionError


def choose_device(name: str) -> torch.device:
    """Returns the device called `name`; "auto" is a GPU when there is one.

    Raises:
        OptionError: if there is no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    available = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    available += ["mps"] if torch.backends.mps.is_available() else []
    if name not in available:
        raise OptionError(f"device={name!r} is not available here; choose 'auto' or one of {', '.join(available)}.")
    return torch.device(name)


@contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """Keeps torch on one thread of the CPU within the block.

    A step here is many small operations. Threads that wait for each other after every one of them gain little on idle
    cores, and on a machine with anything else to do they were seen to take fifty times as long.
    """
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
