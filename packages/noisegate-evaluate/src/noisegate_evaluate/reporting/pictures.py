"""Pictures, PNG: of linear maps over images, and of synthetic images beside the PRIVATE ones that are nearest.

Maps say what classes answer to, and why single images were given their class. They cost
no privacy; the images that are explained are records to predict or public ones, never
those of the training.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.atomic import new_file
from noisegate.errors import DataError, OptionError, require
from noisegate.records import Images
from noisegate.schema.pixels import ImageShape
from noisegate_evaluate.images import ImageFeatures, Pixels, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from PIL import Image, ImageDraw

FONT = "DejaVu Sans"
INK = "#2b2f36"
_PANEL, _NAMES, _HEAD = 1.15, 1.5, 0.55  # inches
_MOST_ACROSS = 24
PREFIX = "private-"  # what the name of the file must start with, so that it is not passed on by mistake

WARNING = "PRIVATE, DO NOT PUBLISH"

_EXPLAINED = (
    "left: synthetic; right of the line: the nearest REAL records, nearest first"
)
_IMAGES_AT_ONCE = 2000
_SIDE = 64  # pixels of one image on the sheet; larger ones keep their size
_GAP = 4
_RULE = 12
_INK = (154, 52, 18)
_PAPER = (255, 255, 255)


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
    rows: Sequence[MapRow],
    path: str | Path,
    *,
    shape: ImageShape,
    title: str,
    smooth: float = 0.0,
) -> None:
    """Draws linear maps as images into a PNG file, one line after the other; every map on a scale of its own."""
    # Maps over several channels are drawn as the mean over them. With `smooth` they are blurred for the eye by a
    # Gaussian of that standard deviation, in pixels, as noise in single pixels hides what neighbours have in common.
    require("matplotlib", "a picture of maps")
    import matplotlib

    # Off screen, without touching the state of pyplot.
    from matplotlib.figure import Figure

    across = max((len(row.maps) + (row.image is not None) for row in rows), default=0)
    if not 1 <= across <= _MOST_ACROSS:
        raise OptionError(
            f"a picture of maps has from 1 to {_MOST_ACROSS} images in a line; found {across}"
        )
    for row in rows:
        if row.maps.ndim != 2 or row.maps.shape[1] != shape.size:
            raise OptionError(
                f"maps of shape {row.maps.shape} for images of {shape}, which have "
                f"{shape.size} inputs; give the shape of the images that the "
                "classifier was trained on"
            )
    if not 0 <= smooth <= max(shape.height, shape.width):
        raise OptionError(
            f"smooth={smooth!r} must be from 0 to the longer side of the images, in pixels"
        )
    width = _NAMES + across * _PANEL + 0.1
    height = _HEAD + len(rows) * _PANEL + 0.1
    with matplotlib.rc_context({"text.parse_math": False, "font.family": [FONT]}):
        figure = Figure(figsize=(width, height), facecolor="white")
        figure.text(
            0.1 / width,
            1 - 0.28 / height,
            title,
            fontsize=12,
            fontweight="bold",
            color=INK,
            va="center",
        )
        grid = {
            "left": _NAMES / width,
            "right": 1 - 0.1 / width,
            "top": 1 - _HEAD / height,
            "bottom": 0.1 / height,
        }
        panels = figure.subplots(
            len(rows),
            across,
            squeeze=False,
            gridspec_kw=grid | {"wspace": 0.08, "hspace": 0.25},
        )
        for line, row in zip(panels, rows, strict=True):
            for axes in line:
                axes.set_axis_off()
            box = line[0].get_position()
            figure.text(
                (_NAMES - 0.1) / width, box.y0 + box.height / 2, legible(row.name, 18), fontsize=9,
                color=INK, ha="right", va="center",
            )  # fmt: skip
            _line(line, row, shape, smooth)
        target = io.BytesIO()
        figure.savefig(target, format="png", dpi=110)
    save_picture(
        path, target.getvalue(), private=any(row.image is not None for row in rows)
    )


def _line(
    panels: Sequence[Axes], row: MapRow, shape: ImageShape, smooth: float
) -> None:
    from scipy.ndimage import gaussian_filter

    start = 0
    if row.image is not None:
        panels[0].imshow(_gray(row.image, shape), cmap="gray_r", vmin=0.0, vmax=1.0)
        start = 1
    for index, values in enumerate(row.maps):
        gray = _gray(values, shape)
        gray = gaussian_filter(gray, smooth, mode="nearest") if smooth else gray
        largest = float(np.abs(gray).max()) or 1.0
        panel = panels[start + index]
        panel.imshow(gray, cmap="RdBu_r", vmin=-largest, vmax=largest)
        if index < len(row.captions):
            caption = legible(row.captions[index], 14)
            panel.set_title(caption, fontsize=7.5, color=INK, pad=2)


def _gray(
    values: npt.NDArray[np.floating], shape: ImageShape
) -> npt.NDArray[np.floating]:
    return np.asarray(
        values.reshape(shape.height, shape.width, shape.channels).mean(axis=2)
    )


def nearest_picture(
    synthetic: Images,
    real: Images,
    path: str | Path,
    *,
    features: ImageFeatures | None = None,
    rows: int = 20,
    neighbours: int = 5,
    seed: int = 0,
) -> None:
    """Draws some synthetic images, each beside the nearest real ones, as a PNG that says that it is private."""
    target = Path(path)
    if not target.name.startswith(PREFIX):
        raise OptionError(
            f"the picture {str(target)!r} shows private records; give it a name "
            f"that starts with {PREFIX!r}, for instance {PREFIX + target.name!r}"
        )
    if rows < 1 or neighbours < 1:
        raise OptionError(
            f"rows is {rows} and neighbours is {neighbours}; expected at least 1 of each"
        )
    if (
        not len(synthetic)
        or not len(real)
        or synthetic.pixels.shape[1:] != real.pixels.shape[1:]
    ):
        raise DataError(
            f"images of the shapes {synthetic.pixels.shape} and "
            f"{real.pixels.shape} cannot be put side by side; expected at least "
            "one in each set, all of one size"
        )
    require("PIL", "the picture of nearest images")
    shown = drawn(synthetic, rows, seed=seed)
    near = real.pixels[nearest(shown, real.pixels, features or Pixels(), neighbours)]
    from PIL.PngImagePlugin import PngInfo

    words = PngInfo()
    content = io.BytesIO()
    words.add_text("Comment", WARNING)
    _sheet(shown, near).save(content, format="PNG", pnginfo=words)
    save_picture(target, content.getvalue(), private=True)


def nearest(
    shown: np.ndarray, real: np.ndarray, features: ImageFeatures, neighbours: int
) -> np.ndarray:
    """Returns indices of the nearest real images, nearest first; of equals the first.

    Args:
        shown: A few synthetic images.
        real: Real ones.
        features: In what they are near.
        neighbours: How many of the nearest.

    Returns:
        The indices, (shown, neighbours).
    """
    synthetic_features = features(shown).astype(np.float64)
    squared_distances = []
    for start in range(0, len(real), _IMAGES_AT_ONCE):
        part = features(real[start : start + _IMAGES_AT_ONCE]).astype(np.float64)
        squared_distances.append(
            np.square(synthetic_features).sum(axis=1)[:, None]
            + np.square(part).sum(axis=1)
            - 2 * synthetic_features @ part.T
        )
    order = np.argsort(np.hstack(squared_distances), axis=1, kind="stable")
    return np.asarray(order[:, :neighbours])


def _sheet(shown: np.ndarray, near: np.ndarray) -> Image.Image:
    """The synthetic images in a column, a line, and the real ones beside them; warnings above and below."""
    from PIL import Image, ImageDraw

    scale = max(1, _SIDE // max(shown.shape[1:3]))
    height, width = (scale * side + _GAP for side in shown.shape[1:3])
    across = max(width * (1 + near.shape[1]) + _RULE + _GAP, 480)
    banner = 64
    small = 24
    sheet = Image.new(
        "RGB", (across, 2 * banner + small + height * len(shown) + _GAP), _PAPER
    )
    draw = ImageDraw.Draw(sheet)
    _write(draw, WARNING, (0, 0, across, banner))
    _write(draw, _EXPLAINED, (0, banner, across, banner + small))
    top = banner + small
    for row, (synthetic, neighbours) in enumerate(zip(shown, near, strict=True)):
        for column, pixels in enumerate((synthetic, *neighbours)):
            left = _GAP + width * column + (_RULE if column else 0)
            large = pixels.repeat(scale, axis=0).repeat(scale, axis=1)
            if large.shape[2] == 1:
                large = large[:, :, 0]
            image = Image.fromarray(large).convert("RGB")
            sheet.paste(image, (left, top + _GAP + height * row))
    middle = width + _RULE // 2
    draw.line((middle, top, middle, top + height * len(shown)), fill=_INK, width=2)
    _write(draw, WARNING, (0, sheet.height - banner, across, sheet.height))
    return sheet


def _write(
    draw: ImageDraw.ImageDraw, text: str, box: tuple[int, int, int, int]
) -> None:
    """Writes in the middle of a box, as large as fits."""
    from noisegate_images.output.formats import font_of

    left, top, right, bottom = box
    width = right - left - 2 * _GAP
    sizes = range((bottom - top) * 3 // 4, 6, -1)
    fonts = (font_of("DejaVuSans-Bold", size) for size in sizes)
    font = next((font for font in fonts if draw.textlength(text, font) <= width), None)
    middle = (left + right) / 2, (top + bottom) / 2
    draw.text(middle, text, fill=_INK, font=font, anchor="mm")


def save_picture(path: str | Path, picture: bytes, *, private: bool) -> None:
    """Writes a picture; a file that is there is replaced.

    Args:
        path: File to write.
        picture: Its content.
        private: Whether it shows real records: it is then readable by its owner alone.
    """
    with new_file(Path(path), "picture", force=True) as beside:
        beside.write_bytes(picture)
        if private:
            beside.chmod(0o600)


def legible(value: object, most: int) -> str:
    """Returns a value on one line: at most so many characters, a middle dot for each that the font does not have."""
    drawable = _drawable()
    text = "".join(
        letter if ord(letter) in drawable else "·"
        for letter in " ".join(str(value).split())
    )
    return text if len(text) <= most else text[: most - 1] + "…"


@cache
def _drawable() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont(FONT)).get_charmap())
