"""Digits drawn from matplotlib's fonts, so that they are nobody's: what `noisegate demo --images` takes for private.

Each is turned, slanted, narrowed, moved, and drawn with a thicker or thinner pen; everything follows from the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from noisegate.models.output.image_batch import ImageBatch

SIDE, DIGITS = 28, 10

_FONTS = ("DejaVuSans", "DejaVuSans-Oblique", "DejaVuSansMono", "DejaVuSerif", "STIXGeneral", "cmss10", "cmtt10")
# A glyph is drawn larger than it is shown, in a square with room around it, so that a turned one stays inside.
_LARGER, _CANVAS, _GLYPH = 2.4, 96, 50
_PENS = (0.8, 1.4, 2.0)  # softness of the pen, in pixels of the canvas
_BATCH = 1000


def drawn_digits(count: int, *, seed: int = 0) -> Iterator[ImageBatch]:
    """Yields `count` grey images of 28 x 28 pixels, ink at 255, with the digit that each one shows."""
    random = np.random.default_rng(seed)
    for start in range(0, count, _BATCH):
        labels = random.integers(0, DIGITS, min(_BATCH, count - start))
        pixels = np.stack([_drawn(int(digit), random) for digit in labels])
        yield ImageBatch(pixels=pixels[..., None], labels=tuple(labels.tolist()))


def _drawn(digit: int, random: np.random.Generator) -> npt.NDArray[np.uint8]:
    glyph = _glyph(_FONTS[random.integers(len(_FONTS))], digit, _PENS[random.integers(len(_PENS))])
    angle, slant = random.normal(0, 0.15), random.normal(0.1, 0.2)
    narrow, size = np.exp(random.normal(0, 0.12)), np.exp(random.normal(0, 0.06))
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    # From places in the image to places on the canvas, which is what Pillow asks for.
    matrix = _LARGER * size * turn @ np.array([[narrow, slant], [0, 1]])
    corner = _CANVAS / 2 - matrix @ (np.array([SIDE, SIDE]) / 2 + random.normal(0, 0.7, 2))
    bent = glyph.transform(
        (SIDE, SIDE),
        Image.Transform.AFFINE,
        (*matrix[0], corner[0], *matrix[1], corner[1]),
        resample=Image.Resampling.BILINEAR,
    )
    # A lower threshold makes thicker strokes.
    ink = (np.asarray(bent, dtype=np.float64) / 255 - random.uniform(0.1, 0.4)) * 2.5
    return np.rint(np.clip(ink, 0, 1) * 255).astype(np.uint8)


@cache
def _glyph(font: str, digit: int, pen: float) -> Image.Image:
    """Returns a digit in the middle of the canvas, light on dark, with soft edges."""
    found = find_spec("matplotlib")  # finds it without importing it
    assert found is not None and found.origin is not None
    letters = ImageFont.truetype(Path(found.origin).parent / "mpl-data" / "fonts" / "ttf" / f"{font}.ttf", _GLYPH)
    canvas = Image.new("L", (_CANVAS, _CANVAS))
    left, top, right, bottom = letters.getbbox(str(digit))
    place = ((_CANVAS - left - right) / 2, (_CANVAS - top - bottom) / 2)
    ImageDraw.Draw(canvas).text(place, str(digit), font=letters, fill=255, stroke_width=1, stroke_fill=255)
    return canvas.filter(ImageFilter.GaussianBlur(pen))
