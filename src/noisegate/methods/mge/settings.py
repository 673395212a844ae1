"""The checks of DP-MGE's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from noisegate.errors import OptionError
from noisegate.seeds import check_seed

Covariance: TypeAlias = Literal["diagonal", "full"]

AXES = 16
"""Axes of a full covariance. On public photographs (docs/mge.md) 16 did best from ε = 0.1 to 1, 32 at ε = 10."""

FLOOR = 1e-6
"""Least variance. A feature of d numbers has 1/d of its squared length in each on average, so this is next to none."""

_TEXTS = ("network", "weights", "sha256", "layer", "decoder", "decoder_sha256", "public")


def check_settings(settings: Mapping[str, Any]) -> None:
    """Checks every setting but the shape of the images.

    Raises:
        OptionError: if one is unusable.
    """
    if settings["covariance"] not in get_args(Covariance):
        raise OptionError(
            f"covariance={settings['covariance']!r} is not known; choose one of {', '.join(get_args(Covariance))}."
        )
    if not isinstance(settings["per_class"], bool):
        raise OptionError(f"per_class={settings['per_class']!r} must be true or false.")
    for name in ("axes", "public_records"):
        value = settings[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise OptionError(f"{name}={value!r} must be a positive whole number.")
    for name, most in (("mean_share", 1000), ("second_share", 1000), ("counts_share", 1000), ("floor", 1)):
        value = settings[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise OptionError(f"{name}={value!r} must be a positive number, at most {most}.")
    for name in _TEXTS:
        value = settings[name]
        if not isinstance(value, str) and (value is not None or name in ("network", "decoder")):
            raise OptionError(f"{name}={value!r} must be text.")
    if settings["public"] is not None and settings["covariance"] == "diagonal":
        raise OptionError(
            f"public={settings['public']!r}: public images are for the axes of a full covariance; leave them out, or "
            "covariance='diagonal'."
        )
    check_seed(settings["seed"])
