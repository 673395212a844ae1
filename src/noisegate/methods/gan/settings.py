"""The settings of DP-GAN and DP-CGAN: defaults that differ between images and tables, and checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

from noisegate.errors import OptionError
from noisegate.methods.generator_choice import read_shape
from noisegate.methods.numbers import is_number, put_widths
from noisegate.seeds import MOST_SEED, check_seed

OF_RECORDS: Any = None
"""Stands for the default of images or of tables until a method is made."""

SEEDS = MOST_SEED + 1
"""How many seeds there are."""

TABLE: Mapping[str, Any] = {
    "latent": 32,
    "hidden": (128, 128),
    "rate": 0.05,
    "steps": 600,
    "discriminator_rate": 3e-3,
    "generator_rate": 3e-3,
}
"""Of tables: tried on the public survey of `noisegate demo` at ε = 1, where learning rates of 1e-3 did worse."""

IMAGE: Mapping[str, Any] = {
    "latent": 32,
    "hidden": (200,),
    "rate": 256 / 60_000,
    "steps": 2000,
    "discriminator_rate": 1e-3,
    "generator_rate": 2e-3,
}
"""Of images: learning rates of one run of 800 steps on simulated digits (benchmarks/simulated_digits.py)."""

_WHOLE = ("latent", "steps", "discriminator_steps", "batch")
_POSITIVE = ("norm", "discriminator_rate", "generator_rate")
_WIDTHS = ("hidden", "channels", "discriminator_hidden", "discriminator_channels")


def complete_settings(method: Any) -> None:
    """Puts defaults in their places in a new frozen `PrivateGAN`, and lists of JSON as tuples.

    Raises:
        OptionError: if a setting is unusable.
    """
    for option, value in (TABLE if method.image is None else IMAGE).items():
        if getattr(method, option) is OF_RECORDS:
            object.__setattr__(method, option, value)
    check_numbers(method)
    put_widths(method, _WIDTHS)
    if method.image is not None:
        object.__setattr__(method, "image", astuple(read_shape(method.image)))


def check_numbers(method: Any) -> None:
    """Checks the settings that say how two networks are trained against each other.

    Raises:
        OptionError: if one is unusable.
    """
    for option in _WHOLE:
        value = getattr(method, option)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise OptionError(f"{option}={value!r} must be a positive whole number.")
    if method.discriminator_steps > method.steps:
        raise OptionError(
            f"discriminator_steps={method.discriminator_steps} is more than steps={method.steps}: the generator would "
            "never move. Lower it, or take more steps."
        )
    for option in _POSITIVE:
        if not is_number(getattr(method, option)) or not 0 < getattr(method, option) <= 1e6:
            raise OptionError(f"{option}={getattr(method, option)!r} must be a number above 0, at most 1e6.")
    if not is_number(method.rate) or not 0 < method.rate <= 1:
        raise OptionError(f"rate={method.rate!r} must be a number above 0, at most 1.")
    check_seed(method.seed)
