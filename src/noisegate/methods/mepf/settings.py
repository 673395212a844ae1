"""The settings of DP-MEPF that belong together: ours, and the paper's with those of its code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from noisegate.errors import OptionError
from noisegate.schema.pixels import ImageShape
from noisegate.seeds import check_seed

Preset: TypeAlias = Literal["default", "paper"]
Stopping: TypeAlias = Literal["private", "none", "discrepancy"]

VALIDATION_SHARE = 0.01
"""Of the first moment's: noise that is ten times larger, as in the paper's code."""

_DEFAULT: Mapping[str, Any] = {
    "network": "encoder",
    "moments": 1,
    "stopping": "none",
    "generator": "convolutional",
    "latent": 32,
    "hidden": (200,),
}
# Labelled CIFAR-10; others differ in the two learning rates only (see benchmarks/dp_mepf).
_PAPER: Mapping[str, Any] = {
    "network": "torchvision:vgg19",
    "moments": 2,
    "stopping": "private",
    "generator": "residual",
    "latent": 90,
    "hidden": (),
}
_PAPER_FIT: Mapping[str, Any] = {
    "steps": 200_000,
    "batch": 128,
    "learning_rate": 1e-3,
    "schedule": "constant",
    "loss": "moving-average",
    "average_rate": 1e-4,
    "average_eps": 1e-8,
    "average_reduction": "mean",
    "averaging": 0.0,
    "class_power": 0.0,
    "check_every": 5000,
    "check_images": 5000,
}
_PRESETS: Mapping[Preset, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "default": (_DEFAULT, {}),
    "paper": (_PAPER, _PAPER_FIT),
}
_LAST, _WIDEST, _SMALLEST = 64, 1024, 4


def settings_of(preset: Any) -> Mapping[str, Any]:
    """Returns the fields of DP-MEPF that a preset fills.

    Raises:
        OptionError: if there is no such preset.
    """
    return _preset(preset)[0]


def fit_of(preset: Any) -> Mapping[str, Any]:
    """Returns what a preset changes of `noisegate.fitting.moments.MomentSettings`."""
    return _preset(preset)[1]


def default_channels(shape: ImageShape, generator: str) -> tuple[int, ...]:
    """Returns the channels of a generator: for "residual" the paper's, 512, 256, 128, 64 at 32 pixels."""
    if generator != "residual":
        return (16, 8)
    channels, side = [_LAST], shape
    while not (side.height % 2 or side.width % 2) and min(side.height, side.width) >= 2 * _SMALLEST:
        side = ImageShape(height=side.height // 2, width=side.width // 2)
        channels.insert(0, min(2 * channels[0], _WIDEST))
    return tuple(channels)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Checks every setting but those of the generator.

    Raises:
        OptionError: if one is unusable.
    """
    if settings["stopping"] not in get_args(Stopping):
        raise OptionError(
            f"stopping={settings['stopping']!r} is not known; choose one of {', '.join(get_args(Stopping))}."
        )
    if settings["moments"] not in (1, 2) or isinstance(settings["moments"], bool):
        raise OptionError(f"moments={settings['moments']!r} must be 1 or 2.")
    check_seed(settings["seed"])
    for name in ("first_share", "second_share", "counts_share", "stopping_share"):
        value = settings[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1000:
            raise OptionError(f"{name}={value!r} must be a positive number, at most 1000.")
    for name in ("hidden", "channels"):
        if not isinstance(settings[name], list | tuple):
            raise OptionError(f"{name}={settings[name]!r} must be a list.")
    for name, value in (("latent", settings["latent"]), *(("hidden", width) for width in settings["hidden"])):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise OptionError(f"{name}: {value!r} must be a positive whole number.")
    for value in settings["channels"]:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise OptionError(f"channels: {value!r} must be a positive whole number.")
    check_network(settings)
    if not isinstance(settings["fit_options"], Mapping):
        raise OptionError(f"fit_options={settings['fit_options']!r} must map names of MomentSettings to values.")


def check_network(settings: Mapping[str, Any]) -> None:
    """Checks the settings that name a network and its layers.

    Raises:
        OptionError: if one is unusable.
    """
    if not isinstance(settings["layers"], list | tuple):
        raise OptionError(f"layers={settings['layers']!r} must be a list.")
    for name in ("network", "weights", "sha256"):
        value = settings[name]
        if not isinstance(value, str) and (value is not None or name == "network"):
            raise OptionError(f"{name}={value!r} must be text.")


def _preset(preset: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    if preset not in _PRESETS:
        raise OptionError(f"preset={preset!r} is not known; choose one of {', '.join(_PRESETS)}.")
    return _PRESETS[preset]
