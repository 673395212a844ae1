"""Pictures of linear maps over images: what classes answer to, and why single images were given their class.

They cost no privacy; the images that are explained are records to predict or public ones, never those of the training.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.schema.pixels import ImageShape
from noisegate_evaluate.reporting.drawing import FONT, INK, legible, save_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANEL, _NAMES, _HEAD = 1.15, 1.5, 0.55  # inches
_MOST_ACROSS = 24


@dataclass(frozen=True, kw_only=True)
class MapRow:
    """One line of a picture: its name, maps with their captions, and the image that they explain."""

    name: str
    maps: npt.NDArray[np.floating]
    """(maps, inputs); red answers to what is there, blue to what is not."""
    captions: Sequence[str] = ()
    image: npt.NDArray[np.floating] | None = None
    """Positions in [0, 1], (inputs,)."""


def maps_picture(
    rows: Sequence[MapRow], path: str | Path, *, shape: ImageShape, title: str, smooth: float = 0.0
) -> None:
    """Draws linear maps as images into a PNG file, one line after the other; every map on a scale of its own.

    Maps over several channels are drawn as the mean over them. With `smooth` they are blurred for the eye by a Gaussian
    of that standard deviation, in pixels, as noise in single pixels hides what neighbours have in common.
    """
    import matplotlib
    from matplotlib.figure import Figure  # off screen, without touching the state of pyplot

    across = max((len(row.maps) + (row.image is not None) for row in rows), default=0)
    if not 1 <= across <= _MOST_ACROSS:
        raise OptionError(f"a picture of maps has from 1 to {_MOST_ACROSS} images in a line; found {across}")
    for row in rows:
        if row.maps.ndim != 2 or row.maps.shape[1] != shape.size:
            raise OptionError(
                f"maps of shape {row.maps.shape} for images of {shape}, which have {shape.size} inputs; "
                "give the shape of the images that the classifier was trained on"
            )
    if not 0 <= smooth <= max(shape.height, shape.width):
        raise OptionError(f"smooth={smooth!r} must be from 0 to the longer side of the images, in pixels")
    width, height = _NAMES + across * _PANEL + 0.1, _HEAD + len(rows) * _PANEL + 0.1
    with matplotlib.rc_context({"text.parse_math": False, "font.family": [FONT]}):
        figure = Figure(figsize=(width, height), facecolor="white")
        figure.text(0.1 / width, 1 - 0.28 / height, title, fontsize=12, fontweight="bold", color=INK, va="center")
        grid = {"left": _NAMES / width, "right": 1 - 0.1 / width, "top": 1 - _HEAD / height, "bottom": 0.1 / height}
        panels = figure.subplots(len(rows), across, squeeze=False, gridspec_kw=grid | {"wspace": 0.08, "hspace": 0.25})
        for line, row in zip(panels, rows, strict=True):
            for axes in line:
                axes.set_axis_off()
            place = line[0].get_position()
            figure.text(
                (_NAMES - 0.1) / width, place.y0 + place.height / 2, legible(row.name, 18), fontsize=9,
                color=INK, ha="right", va="center",
            )  # fmt: skip
            _line(line, row, shape, smooth)
        target = io.BytesIO()
        figure.savefig(target, format="png", dpi=110)
    save_picture(path, target.getvalue())


def _line(panels: Sequence[Axes], row: MapRow, shape: ImageShape, smooth: float) -> None:
    from scipy.ndimage import gaussian_filter

    start = 0
    if row.image is not None:
        panels[0].imshow(_gray(row.image, shape), cmap="gray_r", vmin=0.0, vmax=1.0)
        start = 1
    for place, single in enumerate(row.maps):
        gray = _gray(single, shape)
        gray = gaussian_filter(gray, smooth, mode="nearest") if smooth else gray
        largest = float(np.abs(gray).max()) or 1.0
        panels[start + place].imshow(gray, cmap="RdBu_r", vmin=-largest, vmax=largest)
        if place < len(row.captions):
            panels[start + place].set_title(legible(row.captions[place], 14), fontsize=7.5, color=INK, pad=2)


def _gray(values: npt.NDArray[np.floating], shape: ImageShape) -> npt.NDArray[np.floating]:
    """Returns the mean over the channels, (height, width)."""
    return np.asarray(values.reshape(shape.height, shape.width, shape.channels).mean(axis=2))
