"""Where to compute."""

from __future__ import annotations

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
