"""The settings of the joint embedding, chosen on simulated digits (benchmarks/images says how), and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noisegate.errors import OptionError
from noisegate.methods.mepf.settings import check_network
from noisegate.schema.pixels import ImageShape
from noisegate.seeds import check_seed

REFERENCE = ImageShape(height=28, width=28)
"""The images that the length scales below were chosen for."""

PIXEL_SCALE = 5.0
ORIENTATION_SCALE = 0.5

FIT: Mapping[str, Any] = {
    "steps": 6000,
    "batch": 200,
    "learning_rate": 1e-2,
    "averaging": 0.998,
    "stop_at_noise": False,
    "check_every": 500,
    "apart": True,
}
"""What the fit has otherwise than `noisegate.fitting.loop.FitSettings`."""

_DEEP, _SHALLOW, _SMALLEST, _MOST = 32, 16, 14, 256


def default_channels(shape: ImageShape, generator: str) -> tuple[int, ...]:
    """Returns channels for images of `shape`: the first picture of the network is at most 14 pixels wide."""
    if generator != "sub-pixel":
        return _DEEP // 2, _SHALLOW // 2
    channels = [_DEEP, _SHALLOW]
    while max(shape.height, shape.width) >> len(channels) > _SMALLEST:
        channels.insert(0, min(2 * channels[0], _MOST))
    return tuple(channels)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Checks every setting that is a number.

    Raises:
        OptionError: if one is unusable.
    """
    for name in ("pixels", "orientations"):
        _check_whole(name, settings[name], least=0)
    if settings["perceptual_share"] != 0:
        _check_positive("perceptual_share", settings["perceptual_share"])
    elif not settings["pixels"] and not settings["orientations"]:
        raise OptionError("pixels=0, orientations=0 and perceptual_share=0: there is nothing to ask; give one of them.")
    if not isinstance(settings["pool"], bool):
        raise OptionError(f"pool={settings['pool']!r} must be true or false.")
    check_network(settings)
    for name in ("cell", "directions", "latent"):
        _check_whole(name, settings[name], least=1)
    check_seed(settings["seed"])
    for name in ("pixel_scale", "orientation_scale"):
        if settings[name] is not None:
            _check_positive(name, settings[name])
    for name in ("pixels_share", "orientations_share", "counts_share"):
        _check_positive(name, settings[name])
    if not isinstance(settings["fit_options"], Mapping):
        raise OptionError(f"fit_options={settings['fit_options']!r} must map names of FitSettings to values.")
    for name in ("hidden", "channels"):
        if not isinstance(settings[name], list | tuple):
            raise OptionError(f"{name}={settings[name]!r} must be a list of positive whole numbers.")
        for width in settings[name]:
            _check_whole(name, width, least=1)


def _check_whole(name: str, value: Any, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**62:
        raise OptionError(f"{name}={value!r} must be a whole number, {least} or more.")


def _check_positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1000:
        raise OptionError(f"{name}={value!r} must be a positive number, at most 1000.")
