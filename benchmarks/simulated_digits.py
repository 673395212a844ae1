"""Simulated handwritten-like digits, 28 x 28, any number: public images to choose the settings of image methods on.

Glyphs of the fonts that ship with Matplotlib are bent, sheared, rotated, thickened or thinned, and set like MNIST: the
longer side of the glyph fills 20 pixels and its centre of mass is in the middle. A glyph is kept as its signed distance
field, so that a change of stroke width is a shift of the threshold, and softness is its slope. Everything follows from
the seed.

    python benchmarks/simulated_digits.py --count 100 --png digits.png
"""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import distance_transform_edt

SIDE, BOX, DIGITS = 28, 20, 10
# A glyph is drawn this high in a square of three times its height, so that deformed coordinates stay inside.
_GLYPH, _CANVAS = 64, 192
_FONTS = (
    *(
        "DejaVuSans",
        "DejaVuSans-Bold",
        "DejaVuSans-Oblique",
        "DejaVuSansMono",
        "DejaVuSansMono-Oblique",
    ),
    *(
        "DejaVuSerif",
        "DejaVuSerif-Italic",
        "DejaVuSerif-Bold",
        "STIXGeneral",
        "STIXGeneralItalic",
        "STIXGeneralBol",
    ),
    *("cmr10", "cmss10", "cmtt10", "cmb10", "cmti10"),
)

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]


def simulated_digits(count: int, *, seed: int = 0) -> tuple[Images, Labels]:
    """Returns `count` images, (count, 28, 28) uint8 with ink at 255, and their digits, (count,), drawn uniformly."""
    random = np.random.Generator(np.random.Philox(seed))
    labels = random.integers(0, DIGITS, count)
    images = np.empty((count, SIDE, SIDE), dtype=np.uint8)
    for start in range(0, count, 1000):
        part = slice(start, start + 1000)
        images[part] = _draw(labels[part], random)
    return images, labels


def _draw(labels: Labels, random: np.random.Generator) -> Images:
    fields, corners = _glyphs()
    count = len(labels)
    fonts = random.integers(0, len(_FONTS), count)
    matrices = _affine(count, random)
    # The longer side of the deformed glyph fills the box.
    moved = np.einsum("nij,npj->npi", matrices, corners[fonts, labels])
    matrices *= (BOX - 2) / np.ptp(moved, axis=1).max(axis=1)[:, None, None]
    axis = np.arange(SIDE) - (SIDE - 1) / 2
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    places = (grid + _bend(count, random)) @ np.linalg.inv(matrices).transpose(0, 2, 1)
    places += _CANVAS / 2
    depth = _look_up(
        fields.reshape(-1, _CANVAS, _CANVAS), fonts * DIGITS + labels, places
    ).reshape(count, SIDE, SIDE)
    # Distances are in glyph pixels; in image pixels a stroke grows or shrinks by at most about one.
    size = np.sqrt(np.abs(np.linalg.det(matrices)))[:, None, None]
    ink = depth * size + random.uniform(-0.4, 1.0, (count, 1, 1))
    images = np.clip(0.5 + ink / random.uniform(0.8, 2.0, (count, 1, 1)), 0, 1)
    return _centred(np.rint(images * 255).astype(np.uint8))


def _affine(count: int, random: np.random.Generator) -> npt.NDArray[np.float64]:
    """Returns random matrices from glyph to image, rows before columns, (count, 2, 2), of no particular size."""
    angle, shear = random.normal(0, 0.13, count), random.normal(0.1, 0.2, count)
    narrow = np.exp(random.normal(0, 0.15, count))
    turn = np.stack(
        [np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], axis=1
    ).reshape(-1, 2, 2)
    slant = np.zeros((count, 2, 2))
    slant[:, 0, 0], slant[:, 1, 0], slant[:, 1, 1] = 1, -shear, narrow
    return np.asarray(turn @ slant)


def _bend(count: int, random: np.random.Generator) -> npt.NDArray[np.float64]:
    """Returns smooth random displacements in image pixels, (count, 784, 2): a coarse random field, smoothed."""
    coarse = random.normal(0, 1, (count, 2, 5, 5)) * random.uniform(
        1.0, 4.0, (count, 1, 1, 1)
    )
    near = np.exp(
        -0.5 * ((np.arange(SIDE)[:, None] / (SIDE - 1) * 4 - np.arange(5)) / 0.6) ** 2
    )
    near /= near.sum(axis=1, keepdims=True)
    return np.asarray((near @ coarse @ near.T).reshape(count, 2, -1).transpose(0, 2, 1))


def _look_up(
    fields: npt.NDArray[np.float32], which: Labels, places: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Returns the chosen fields at their places, bilinearly, (count, points)."""
    inside = np.clip(places, 0, _CANVAS - 1.001)
    low = inside.astype(np.int64)
    rest = inside - low
    row, column = low[..., 0], low[..., 1]
    each = which[:, None]
    above = (
        fields[each, row, column] * (1 - rest[..., 1])
        + fields[each, row, column + 1] * rest[..., 1]
    )
    below = (
        fields[each, row + 1, column] * (1 - rest[..., 1])
        + fields[each, row + 1, column + 1] * rest[..., 1]
    )
    return np.asarray(above * (1 - rest[..., 0]) + below * rest[..., 0])


def _centred(images: Images) -> Images:
    """Returns images moved by whole pixels so that the centre of mass is in the middle; what leaves is lost."""
    mass = np.maximum(images.sum(axis=(1, 2), dtype=np.float64), 1)
    axis = np.arange(SIDE) - (SIDE - 1) / 2
    down = np.rint((images.sum(axis=2) @ axis) / mass).astype(int)
    right = np.rint((images.sum(axis=1) @ axis) / mass).astype(int)
    rows = np.arange(SIDE)[None, :] + down[:, None]
    columns = np.arange(SIDE)[None, :] + right[:, None]
    padded = np.pad(images, ((0, 0), (SIDE, SIDE), (SIDE, SIDE)))
    each = np.arange(len(images))[:, None, None]
    return np.asarray(padded[each, rows[:, :, None] + SIDE, columns[:, None, :] + SIDE])


@cache
def _glyphs() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """Returns signed distance fields, (fonts, digits, canvas, canvas), and the corners around each, (…, 4, 2)."""
    folder = Path(mpl.get_data_path()) / "fonts" / "ttf"
    fields = np.empty((len(_FONTS), DIGITS, _CANVAS, _CANVAS), dtype=np.float32)
    corners = np.empty((len(_FONTS), DIGITS, 4, 2))
    for font, name in enumerate(_FONTS):
        drawn = ImageFont.truetype(str(folder / f"{name}.ttf"), _GLYPH)
        for digit in range(DIGITS):
            canvas = Image.new("L", (_CANVAS, _CANVAS))
            left, top, right, bottom = drawn.getbbox(str(digit))
            place = ((_CANVAS - left - right) / 2, (_CANVAS - top - bottom) / 2)
            ImageDraw.Draw(canvas).text(place, str(digit), font=drawn, fill=255)
            inside = np.asarray(canvas) > 127
            fields[font, digit] = distance_transform_edt(
                inside
            ) - distance_transform_edt(~inside)
            high, wide = (bottom - top) / 2, (right - left) / 2
            corners[font, digit] = [
                [-high, -wide],
                [-high, wide],
                [high, -wide],
                [high, wide],
            ]
    return fields, corners


def main() -> None:
    """Writes a sheet of simulated digits."""
    parser = argparse.ArgumentParser(description="Draw a sheet of simulated digits.")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--png", type=Path, required=True)
    arguments = parser.parse_args()
    images, labels = simulated_digits(arguments.count, seed=arguments.seed)
    across = 20
    images = np.pad(
        images[np.argsort(labels, kind="stable")],
        ((0, -len(images) % across), (0, 0), (0, 0)),
    )
    sheet = (
        images.reshape(-1, across, SIDE, SIDE)
        .transpose(0, 2, 1, 3)
        .reshape(-1, across * SIDE)
    )
    Image.fromarray(sheet).save(arguments.png)


if __name__ == "__main__":
    main()
