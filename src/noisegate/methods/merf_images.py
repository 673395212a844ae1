"""DP-MERF on images: which tables are images, and the settings that were chosen for them.

The settings were chosen on simulated digits (benchmarks/simulated_digits.py), which are public; benchmarks/dp_merf says
how, and has the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from noisegate.errors import OptionError, SchemaError
from noisegate.features.fourier import Kernel
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape

Generator: TypeAlias = Literal["mixture", "table", "convolutional", "fully-connected"]
TABLES: tuple[Generator, ...] = ("mixture", "table")
"""The generators that make tables; the others make images."""


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
}
"""By generator."""


def defaults_of(generator: Any) -> Defaults:
    """Returns the defaults of the settings that depend on the generator.

    Raises:
        OptionError: if there is no such generator.
    """
    if generator not in get_args(Generator):
        raise OptionError(f"generator={generator!r} is not known; choose one of {', '.join(get_args(Generator))}.")
    return DEFAULTS[generator]


def read_shape(image: Any) -> ImageShape:
    """Returns the shape of the images that `image` gives as (height, width, channels).

    Raises:
        OptionError: if it gives none.
    """
    try:
        height, width, channels = image
        return ImageShape(height=height, width=width, channels=channels)
    except (TypeError, ValueError, SchemaError):
        raise OptionError(
            f"image={image!r} must be (height, width, channels) for a generator of images, as in (28, 28, 1)."
        ) from None


def check_image_schema(schema: Schema, shape: ImageShape) -> None:
    """Checks that records are labelled images of `shape`.

    Raises:
        OptionError: if they are not.
    """
    layout, cure = schema.layout, "describe the images with noisegate.schema.pixel_schema(...)"
    if layout.label is None:
        raise OptionError(f"image={shape} needs a label with levels, the schema has none; {cure}.")
    others = [column.name for column in layout.coded if column.name != schema.label]
    if others:
        raise OptionError(f"image={shape}: column {others[0]!r} is neither a pixel nor the label; {cure}.")
    if len(layout.numeric) != shape.size:
        raise OptionError(
            f"image={shape} has {shape.size} intensities, the schema {len(layout.numeric)} numeric columns; correct "
            f"one of them, or {cure}."
        )
    missing = [column.name for column in layout.numeric if column.missing]
    if missing:
        raise OptionError(f"column {missing[0]!r} may be missing, which a pixel cannot be; {cure}.")
