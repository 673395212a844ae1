"""PATE-GAN's first code draws half of the noise it means to, on labels and not on votes, and bounds nothing.

    python benchmarks/claims/pate_gan.py [--json FILE]

Its noise is λ = √(2 ln(1.25 · (10 ^ δ))) / ε with δ = 5 (spalabucr/pategan-audit 2d26d52,
code/pate_gans/original/original.py:46): in Python `^` is exclusive or, so that 1e5 is 15. The noise goes on the labels
"real" and "made" (185-191) of one discriminator that is trained on all records (173-177), without teachers, shards or
clipping; records are scaled by their own least and greatest values, and what is made is scaled back by these (211-212).
So it has no ε: an outlier shows in the range of what comes out. Five other codes were audited by Ganev, Annamalai and
De Cristofaro (2024), https://arxiv.org/abs/2406.13985: 19 violations in all.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from corrected import pate_gan
from showing import Claims, Said, show

DELTA_POWER = 5
RUNS = 200
SAID: Said = {
    "1/δ as computed, 10 ^ 5": (15, 0),
    "share of right guesses from the range of what is made": (1, 0),
}
CLAIMS: Claims = [
    (
        "right guesses at ε = 1",
        "most that ε = 1 allows",
        "share of right guesses from the range of what is made",
    ),
    ("ε", 1, "ε at least, at 95 % confidence; without end, as no guess is wrong"),
]


def noise(tail: float) -> float:
    """Returns λ at ε = 1 for 1/δ = tail."""
    return math.sqrt(2 * math.log(1.25 * tail))


def range_attack() -> int:
    """Returns how often of `RUNS` the largest made value says whether an outlier was among the records."""
    random, right = np.random.default_rng(0), 0
    for run in range(RUNS):
        world = run % 2
        records = np.concatenate([random.uniform(0, 1, 200), [3.0] if world else []])
        least, most = records.min(), records.max()
        # Any generator of numbers in [0, 1] would do: these know nothing of the records.
        made = random.uniform(0, 1, 200) * (most - least) + least
        right += int((made.max() > 1.5) == bool(world))
    return right


def figures() -> dict[str, float]:
    """Returns the noise as meant and as drawn, and what the range alone gives away."""
    right = range_attack()
    return {
        "1/δ as meant": 10**DELTA_POWER,
        "1/δ as computed, 10 ^ 5": 10 ^ DELTA_POWER,
        "λ as meant, ε = 1": noise(10**DELTA_POWER),
        "λ as drawn, ε = 1": noise(10 ^ DELTA_POWER),
        "share of right guesses from the range of what is made": right / RUNS,
        "most that ε = 1 allows": 1 / (1 + math.exp(-1)),
        "ε at least, at 95 % confidence; without end, as no guess is wrong": pate_gan(
            right, RUNS
        ),
    }


if __name__ == "__main__":
    sys.exit(show(__doc__ or "", figures, SAID, CLAIMS))
