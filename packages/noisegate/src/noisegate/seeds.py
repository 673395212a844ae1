"""Public randomness: what a seed may be, and the numbers that samples are drawn from, with torch or without."""

from __future__ import annotations

import secrets
import sys
from typing import TYPE_CHECKING, Any, cast

from noisegate.errors import OptionError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

MOST_SEED = 2**63 - 1
"""Largest seed of a method or of a sample: what every generator in use takes, with room for streams beside it."""
MOST_EVALUATION_SEED = 2**31 - 1
"""Largest seed of an evaluation or of a pretraining, as scikit-learn takes it."""


def check_seed(seed: Any, *, most: int = MOST_SEED) -> None:
    """Refuses a seed that is no whole number from 0 to `most`."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= most:
        raise OptionError(
            f"seed={seed!r} must be a whole number, 0 or more, at most {most:,}."
        )


class MersenneTwister:
    """The stream of a `torch.Generator` on the CPU bit for bit, for samples without torch."""

    def __init__(self, seed: int) -> None:
        import numpy as np

        # As torch does, which takes the lower half of a seed (Matsumoto and Nishimura, 1998, init_genrand).
        self._random = np.random.RandomState(seed & (2**32 - 1))

    def _words(self, count: int) -> npt.NDArray[np.uint64]:
        import numpy as np

        return self._random.randint(0, 2**32, count, dtype=np.uint32).astype(np.uint64)

    def uniform(self, count: int) -> npt.NDArray[np.float64]:
        """Returns the 53 lower bits of two words each, as numbers in [0, 1)."""
        import numpy as np

        high, low = self._words(2 * count).reshape(count, 2).T
        return (((high << np.uint64(32)) | low) & np.uint64(2**53 - 1)).astype(
            np.float64
        ) * 2.0**-53

    def uniform32(self, count: int) -> npt.NDArray[np.float32]:
        """Returns the 24 lower bits of a word each, as numbers in [0, 1)."""
        import numpy as np

        return (self._words(count) & np.uint64(2**24 - 1)).astype(
            np.float32
        ) * np.float32(2.0**-24)

    def permutation(self, count: int) -> npt.NDArray[np.int64]:
        """Returns 0 to `count` - 1, shuffled: place i is swapped with a place from i on (Fisher and Yates)."""
        import numpy as np

        steps = (
            self._words(max(count - 1, 0)) % np.arange(count, 1, -1, dtype=np.uint64)
        ).astype(np.int64)
        return _swapped(np.append(np.arange(count - 1) + steps, np.arange(count)[-1:]))


def _swapped(partner: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns what swapping each place i in turn with place partner[i] >= i makes of 0, 1, ..., (count,)."""
    # What swap k left at a place is what place k itself held at its turn: such chains are followed by doubling.
    import numpy as np

    count = len(partner)
    # Sorting 16-bit integers is a radix sort, several times as fast.
    order = np.argsort(
        partner.astype(np.uint16) if count <= 2**16 else partner, kind="stable"
    )
    same = partner[order[1:]] == partner[order[:-1]]
    # The last swap before i that touched partner[i], and the last before i that touched i; itself where there is none.
    before = np.arange(count)
    before[order[1:][same]] = order[:-1][same]
    held = np.arange(count)
    held[partner[order]] = order  # the last in a group is the one that stays
    itself = partner == np.arange(count)
    held[itself] = before[itself]
    while not np.array_equal(further := held[held], held):
        held = further
    untouched = (before == np.arange(count)) & ~itself
    return np.where(untouched, partner, held[before])


def public_random(seed: int | None, *, independent: bool = False) -> torch.Generator:
    """Returns public randomness on the CPU: the same for a seed, with torch or without; another stream for None.

    It is torch's where torch is loaded, as any model is that draws with it. Rows that are drawn with one that is
    `independent` are: they are not stratified.
    """
    if "torch" not in sys.modules:
        twister: Any = (
            type("Twister", (MersenneTwister,), {"independent": True})
            if independent
            else MersenneTwister
        )
        return cast(
            "torch.Generator", twister(secrets.randbits(32) if seed is None else seed)
        )
    import torch

    random: torch.Generator = (
        type("Generator", (torch.Generator,), {"independent": True})()
        if independent
        else torch.Generator()
    )
    random.manual_seed(secrets.randbits(63) if seed is None else seed)
    return random


def uniform(random: torch.Generator, count: int) -> npt.NDArray[np.float64]:
    """Returns independent uniform numbers in [0, 1), (count,)."""
    if isinstance(random, MersenneTwister):
        return random.uniform(count)
    import torch

    return torch.rand(count, generator=random, dtype=torch.float64).numpy()


def uniform32(random: torch.Generator, count: int) -> npt.NDArray[np.float32]:
    """Returns independent uniform numbers in [0, 1) of 24 bits, (count,), each from one word."""
    if isinstance(random, MersenneTwister):
        return random.uniform32(count)
    import torch

    return torch.rand(count, generator=random).numpy()


def permutation(random: torch.Generator, count: int) -> npt.NDArray[np.int64]:
    """Returns a random order of 0 to `count` - 1, (count,)."""
    if isinstance(random, MersenneTwister):
        return random.permutation(count)
    import torch

    return torch.randperm(count, generator=random).numpy()
