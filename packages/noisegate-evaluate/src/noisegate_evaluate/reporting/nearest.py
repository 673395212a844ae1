"""Synthetic images beside the real ones that are nearest: a PRIVATE picture, which says so in its name."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from noisegate.errors import DataError, OptionError
from noisegate.records import Images
from noisegate_evaluate.images import ImageFeatures, Pixels, drawn
from noisegate_evaluate.reporting.drawing import save_picture

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

PREFIX = "private-"
"""What the name of the file must start with, so that it is not handed on by mistake."""

WARNING = "PRIVATE, DO NOT PUBLISH"

_EXPLAINED = "left: synthetic; right of the line: the nearest REAL records, nearest first"
_AT_ONCE = 2000
_SIDE = 64  # pixels of one image on the sheet; larger ones keep their size
_GAP, _RULE = 4, 12
_INK, _PAPER = (154, 52, 18), (255, 255, 255)


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
            f"the picture {str(target)!r} shows private records; give it a name that starts with {PREFIX!r}, for "
            f"instance {PREFIX + target.name!r}"
        )
    if rows < 1 or neighbours < 1:
        raise OptionError(f"rows is {rows} and neighbours is {neighbours}; expected at least 1 of each")
    if not len(synthetic) or not len(real) or synthetic.pixels.shape[1:] != real.pixels.shape[1:]:
        raise DataError(
            f"images of the shapes {synthetic.pixels.shape} and {real.pixels.shape} cannot be put side by side; "
            "expected at least one in each set, all of one size"
        )
    shown = drawn(synthetic, rows, seed=seed)
    near = real.pixels[nearest(shown, real.pixels, features or Pixels(), neighbours)]
    save_picture(target, _png(_sheet(shown, near)))


def nearest(shown: np.ndarray, real: np.ndarray, features: ImageFeatures, neighbours: int) -> np.ndarray:
    """Returns positions of the nearest real images, (rows, neighbours), nearest first; of equals the first."""
    ours = features(shown).astype(np.float64)
    places = np.empty((len(shown), 0), dtype=np.int64)
    apart = np.empty((len(shown), 0))
    for start in range(0, len(real), _AT_ONCE):
        theirs = features(real[start : start + _AT_ONCE]).astype(np.float64)
        squares = np.square(ours).sum(axis=1)[:, None] + np.square(theirs).sum(axis=1) - 2 * ours @ theirs.T
        apart = np.hstack([apart, squares])
        found = np.broadcast_to(np.arange(start, start + len(theirs)), squares.shape)
        places = np.hstack([places, found])
        best = np.argsort(apart, axis=1, kind="stable")[:, :neighbours]
        apart, places = np.take_along_axis(apart, best, axis=1), np.take_along_axis(places, best, axis=1)
    return places


def _sheet(shown: np.ndarray, near: np.ndarray) -> Image.Image:
    """The synthetic images in a column, a line, and the real ones beside them; warnings above and below."""
    from PIL import Image, ImageDraw

    scale = max(1, _SIDE // max(shown.shape[1:3]))
    height, width = (scale * side + _GAP for side in shown.shape[1:3])
    across = max(width * (1 + near.shape[1]) + _RULE + _GAP, 480)
    banner, small = 64, 24
    sheet = Image.new("RGB", (across, 2 * banner + small + height * len(shown) + _GAP), _PAPER)
    draw = ImageDraw.Draw(sheet)
    _write(draw, WARNING, (0, 0, across, banner))
    _write(draw, _EXPLAINED, (0, banner, across, banner + small))
    top = banner + small
    for row, (ours, theirs) in enumerate(zip(shown, near, strict=True)):
        for column, pixels in enumerate((ours, *theirs)):
            left = _GAP + width * column + (_RULE if column else 0)
            sheet.paste(_enlarged(pixels, scale), (left, top + _GAP + height * row))
    middle = width + _RULE // 2
    draw.line((middle, top, middle, top + height * len(shown)), fill=_INK, width=2)
    _write(draw, WARNING, (0, sheet.height - banner, across, sheet.height))
    return sheet


def _enlarged(pixels: np.ndarray, scale: int) -> Image.Image:
    from PIL import Image

    large = pixels.repeat(scale, axis=0).repeat(scale, axis=1)
    return Image.fromarray(large[:, :, 0] if large.shape[2] == 1 else large).convert("RGB")


def _write(draw: ImageDraw.ImageDraw, text: str, box: tuple[int, int, int, int]) -> None:
    """Writes in the middle of a box, as large as fits."""
    from matplotlib.font_manager import FontProperties, findfont
    from PIL import ImageFont

    left, top, right, bottom = box
    file = findfont(FontProperties(family="DejaVu Sans", weight="bold"))
    size = bottom - top
    while size > 6 and draw.textlength(text, ImageFont.truetype(file, size)) > right - left - 2 * _GAP:
        size -= 1
    font = ImageFont.truetype(file, min(size, (bottom - top) * 3 // 4))
    draw.text(((left + right) / 2, (top + bottom) / 2), text, fill=_INK, font=font, anchor="mm")


def _png(sheet: Image.Image) -> bytes:
    from PIL.PngImagePlugin import PngInfo

    words = PngInfo()
    words.add_text("Comment", WARNING)
    target = io.BytesIO()
    sheet.save(target, format="PNG", pnginfo=words)
    return target.getvalue()
