"""The settings of DP-MERF that depend on its generator.

Those for images were chosen on simulated digits (benchmarks/simulated_digits.py), which are public; benchmarks/dp_merf
says how, and has the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from noisegate.features.fourier import Kernel
from noisegate.methods.generator_choice import Generator, check_generator


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """Settings of DP-MERF that depend on its generator; see `DPMERF`."""

    frequencies: int
    kernel: Kernel
    length_scale: tuple[float, float]
    latent: int
    hidden: tuple[int, ...]
    fit: Mapping[str, Any]

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of `DPMERF` by name, without the options of the fit."""
        return {name: value for name, value in vars(self).items() if name != "fit"}


_TABLE = Defaults(frequencies=1000, kernel="pairs", length_scale=(0.005, 0.5), latent=32, hidden=(256, 256), fit={})
_MIXTURE = replace(_TABLE, fit={"steps": 1000, "learning_rate": 0.1})
_IMAGE_FIT: Mapping[str, Any] = {
    "steps": 3000,
    "batch": 128,
    "learning_rate": 5e-3,
    "averaging": 0.998,
    "stop_at_noise": False,
    "check_every": 500,
}
_CONVOLUTIONAL = Defaults(
    frequencies=1000, kernel="numeric", length_scale=(5.0, 5.0), latent=32, hidden=(200,), fit=_IMAGE_FIT
)
_FULLY_CONNECTED = Defaults(
    frequencies=1000, kernel="numeric", length_scale=(5.0, 5.0), latent=32, hidden=(500, 500), fit=_IMAGE_FIT
)
DEFAULTS: Mapping[Generator, Defaults] = {
    "mixture": _MIXTURE,
    "table": _TABLE,
    "convolutional": _CONVOLUTIONAL,
    "fully-connected": _FULLY_CONNECTED,
    "sub-pixel": replace(_CONVOLUTIONAL, hidden=()),
    "residual": replace(_CONVOLUTIONAL, hidden=()),
}
"""By generator."""


def defaults_of(generator: Any) -> Defaults:
    """Returns the defaults of the settings that depend on the generator.

    Raises:
        OptionError: if there is no such generator.
    """
    check_generator(generator)
    return DEFAULTS[generator]
