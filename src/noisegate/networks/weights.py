"""What every network starts from: sizes that make sense, and weights from a seed whatever else draws random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from noisegate.errors import OptionError


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Lets torch draw weights from `seed` on the CPU within the block, and puts its random state back afterwards.

    Args:
        seed: Public, from 0 to 2⁶³ − 1.
    """
    before = torch.default_generator.get_state()
    # Not torch.manual_seed, which would seed every GPU too and leave it so.
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.default_generator.set_state(before)


def check_sizes(network: str, **sizes: int) -> None:
    """Checks the numbers that a network is built from.

    Args:
        network: What it is called.
        sizes: By the name of the argument.

    Raises:
        OptionError: if one is no positive whole number.
    """
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise OptionError(f"{name}={value!r} of {network} must be a positive whole number.")
