"""What a seed of public randomness may be; checked before anything is spent."""

from __future__ import annotations

from typing import Any

from noisegate.errors import OptionError

MOST_SEED = 2**63 - 1
"""Largest seed of a method or of a sample: what every generator in use takes, with room for streams beside it."""
MOST_EVALUATION_SEED = 2**31 - 1
"""Largest seed of an evaluation or of a pretraining, as scikit-learn and xgboost take it."""


def check_seed(seed: Any, *, most: int = MOST_SEED) -> None:
    """Checks a seed.

    Raises:
        OptionError: if it is no whole number from 0 to `most`.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= most:
        raise OptionError(f"seed={seed!r} must be a whole number, 0 or more, at most {most:,}.")
