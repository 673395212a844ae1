"""Public randomness: seeds, and the generators that samples are drawn with.

Samples are the same for a seed with torch or without. Where torch is loaded, they are
drawn with its `torch.Generator`; elsewhere with `MersenneTwister`, which gives the same
numbers bit for bit. `uniform`, `uniform32` and `permutation` take either. None of this
protects anybody: noise is drawn from the system (`privacy.noise`).
"""

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
"""Largest seed of a method or of a sample.

Every generator in use takes it, with room for streams beside it.
"""
MOST_EVALUATION_SEED = 2**31 - 1
"""Largest seed of an evaluation or of a pretraining, as scikit-learn takes it."""


def check_seed(seed: Any, *, most: int = MOST_SEED) -> None:
    """Requires a seed to be a whole number from 0 to `most`; True is none."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= most:
        raise OptionError(
            f"seed={seed!r} must be a whole number, 0 or more, at most {most:,}."
        )


class MersenneTwister:
    """The stream of numbers of a `torch.Generator` on the CPU, without torch.

    Examples:
        >>> from noisegate.seeds import MersenneTwister
        >>> MersenneTwister(0).permutation(5)
        array([4, 0, 1, 3, 2])
    """

    def __init__(self, seed: int) -> None:
        import numpy as np

        # Torch takes the lower half of a seed (Matsumoto and Nishimura 1998,
        # init_genrand).
        self._random = np.random.RandomState(seed & (2**32 - 1))

    def _words(self, count: int) -> npt.NDArray[np.uint64]:
        """Draws 32-bit words, (count,)."""
        import numpy as np

        words = self._random.randint(0, 2**32, count, dtype=np.uint32)
        return words.astype(np.uint64)

    def uniform(self, count: int) -> npt.NDArray[np.float64]:
        """Draws numbers in [0, 1) of 53 bits, (count,), from two words each."""
        import numpy as np

        high, low = self._words(2 * count).reshape(count, 2).T
        bits = ((high << np.uint64(32)) | low) & np.uint64(2**53 - 1)
        return bits.astype(np.float64) * 2.0**-53

    def uniform32(self, count: int) -> npt.NDArray[np.float32]:
        """Draws numbers in [0, 1) of 24 bits, (count,), from one word each."""
        import numpy as np

        bits = self._words(count) & np.uint64(2**24 - 1)
        return bits.astype(np.float32) * np.float32(2.0**-24)

    def permutation(self, count: int) -> npt.NDArray[np.int64]:
        """Draws an order of 0 to `count` − 1, (count,).

        In the shuffle of Fisher and Yates, position i is swapped with a random one from
        i on.
        """
        import numpy as np

        # The last position is swapped with itself, so no word is drawn for it.
        words = self._words(max(count - 1, 0))
        choices = np.arange(count, 1, -1, dtype=np.uint64)
        steps = (words % choices).astype(np.int64)
        partners = np.arange(count - 1) + steps
        return _swap_in_turn(np.append(partners, np.arange(count)[-1:]))


def _swap_in_turn(partners: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Swaps position i of 0, 1, 2, … with position partners[i], for each i in turn.

    Does without a loop over positions. Swap i puts what lies at partners[i] to its
    final place i, and what lies at i to partners[i]. So what i ends with is found by
    going back: from partners[i] to the last swap before i that put something there, to
    what lay at the position of that swap, and so on. Such chains are followed by
    doubling.

    Args:
        partners: The position that each is swapped with, not before it, (count,).

    Returns:
        What lies at each position in the end, (count,). For partners 1, 2, 2 that is 1,
        2, 0.
    """
    import numpy as np

    count = len(partners)
    positions = np.arange(count)
    # Swaps by their partner, and by time among equal ones. Sorting 16-bit integers is a
    # radix sort, several times as fast.
    sortable = partners.astype(np.uint16) if count <= 2**16 else partners
    by_partner = np.argsort(sortable, kind="stable")
    has_same_partner = partners[by_partner[1:]] == partners[by_partner[:-1]]
    # The last swap before i with the same partner; i itself where there is none.
    swap_before = positions.copy()
    swap_before[by_partner[1:][has_same_partner]] = by_partner[:-1][has_same_partner]
    # The last swap that put something to i before swap i; i itself where there is none.
    # Of several with one partner the last assignment stays.
    origin = positions.copy()
    origin[partners[by_partner]] = by_partner
    is_own_partner = partners == positions
    origin[is_own_partner] = swap_before[is_own_partner]

    further_origin = origin[origin]
    while not np.array_equal(further_origin, origin):
        origin = further_origin
        further_origin = origin[origin]
    is_untouched = (swap_before == positions) & ~is_own_partner
    return np.where(is_untouched, partners, origin[swap_before])


def public_random(seed: int | None, *, independent: bool = False) -> torch.Generator:
    """Returns a generator of public randomness, on the CPU.

    It is torch's where torch is loaded, as it is by any model that draws with it.

    Args:
        seed: Gives the same numbers with torch or without; None for others each time.
        independent: Whether rows that are drawn with it are to be independent, and not
            stratified: it then has an attribute `independent`, which models look for.
    """
    if "torch" not in sys.modules:
        twister: Any = MersenneTwister
        if independent:
            twister = type("Twister", (MersenneTwister,), {"independent": True})
        twister_seed = secrets.randbits(32) if seed is None else seed
        return cast("torch.Generator", twister(twister_seed))
    import torch

    random = torch.Generator()
    if independent:
        random = type("Generator", (torch.Generator,), {"independent": True})()
    random.manual_seed(secrets.randbits(63) if seed is None else seed)
    return random


def uniform(random: torch.Generator, count: int) -> npt.NDArray[np.float64]:
    """Draws independent numbers in [0, 1) of 53 bits, (count,)."""
    if isinstance(random, MersenneTwister):
        return random.uniform(count)
    import torch

    return torch.rand(count, generator=random, dtype=torch.float64).numpy()


def uniform32(random: torch.Generator, count: int) -> npt.NDArray[np.float32]:
    """Draws independent numbers in [0, 1) of 24 bits, (count,), from one word each."""
    if isinstance(random, MersenneTwister):
        return random.uniform32(count)
    import torch

    return torch.rand(count, generator=random).numpy()


def permutation(random: torch.Generator, count: int) -> npt.NDArray[np.int64]:
    """Draws an order of 0 to `count` − 1, (count,)."""
    if isinstance(random, MersenneTwister):
        return random.permutation(count)
    import torch

    return torch.randperm(count, generator=random).numpy()
