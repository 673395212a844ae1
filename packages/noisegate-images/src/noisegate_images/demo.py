"""Digits drawn from matplotlib's fonts, so that they are nobody's: what `noisegate demo --images` takes for private.

Each is turned, slanted, narrowed, moved, and drawn with a thicker or thinner pen;
everything follows from the seed.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter

from noisegate.app.cli.console import say
from noisegate.app.demo import (
    FIGURES,
    MODEL,
    fit_with_messages,
    released_count,
    write_pages,
)
from noisegate.models.output.sample_file import ImageBatch
from noisegate.schema import Schema, pixel_schema
from noisegate_images.output.formats import SampleGrid, font_of, image_writer

SIDE, DIGITS = 28, 10
COUNT, ASIDE = 10_000, 2_000
SETTINGS: Mapping[str, Any] = {
    **dict.fromkeys(("pixels", "orientations", "wavelets"), 400),
    **{"strokes": 0, "fit_options": {"steps": 1000, "batch": 100}},
}
"""A sixth of the steps of `noisegate fit`, so that a demonstration takes a minute; strokes stay rougher for it."""
_CAPTION = """\
Look at synthetic.png beside drawn.png: each row is a digit, and every digit should be there.
Some images are spoilt: they come from {images:,} images and a short fit; `noisegate fit` takes six times as many steps.
The guarantee is epsilon = {epsilon:g}, delta = {delta:g}, for adding or removing one image. What was copied may be
shown here because it belongs to nobody; private images may not.
"""

_FONTS = (
    "DejaVuSans",
    "DejaVuSans-Oblique",
    "DejaVuSansMono",
    "DejaVuSerif",
    "STIXGeneral",
    "cmss10",
    "cmtt10",
)
# A glyph is drawn larger than it is shown, in a square with room around it, so that a turned one stays inside.
_LARGER, _CANVAS, _GLYPH = 2.4, 96, 50
_PENS = (0.8, 1.4, 2.0)  # softness of the pen, in pixels of the canvas
_BATCH = 1000


def copy_digits(folder: Path, epsilon: float) -> tuple[dict[str, Any], Any]:
    """Fills the empty `folder`; returns the figures and what is told of them."""
    from noisegate.gate.gate import Gate
    from noisegate_images.methods.joint import JointEmbedding

    schema = pixel_schema(SIDE, SIDE, labels=range(DIGITS))
    schema.to_toml(folder / "images.toml")
    _write_images(folder, "drawn", schema, drawn_digits(COUNT), COUNT)
    say(
        f"1. {COUNT:,} digits of {SIDE} x {SIDE} pixels, drawn from fonts, stand for private images."
    )
    method = JointEmbedding(image=(SIDE, SIDE, 1), **SETTINGS)
    gate = Gate(folder / "drawn.parquet", schema=schema, epsilon=epsilon, unit="image")
    synthesizer = fit_with_messages(
        method, gate, records="images", sums="sums", model="generator"
    )
    synthesizer.save(folder / MODEL)
    number, certificate = released_count(synthesizer), synthesizer.certificate
    _write_images(
        folder, "synthetic", schema, synthesizer.images(number, seed=0), number
    )
    say(f"4. Drew {number:,} synthetic images.")
    _write_images(folder, "aside", schema, drawn_digits(ASIDE, seed=1), ASIDE)
    write_pages(
        folder,
        synthesizer,
        folder / "aside.parquet",
        folder / "drawn.parquet",
        classifiers="logistic",
    )
    say(f"5. Compared with {ASIDE:,} newly drawn digits.")
    figures = {
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
        "images": COUNT,
        "synthetic": number,
    }
    (folder / FIGURES).write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    return {"figures": figures}, _CAPTION.format(**figures)


def _write_images(
    folder: Path, name: str, schema: Schema, batches: Any, number: int
) -> None:
    assert schema.images is not None
    shown = SampleGrid(form=schema.images, out=folder / f"{name}.png")
    with image_writer(folder / f"{name}.parquet", schema.images, number) as write:
        for batch in batches:
            write(batch)
            shown.add(batch)
    shown.write()


def drawn_digits(count: int, *, seed: int = 0) -> Iterator[ImageBatch]:
    """Yields `count` grey images of 28 x 28 pixels, ink at 255, with the digit that each one shows."""
    random = np.random.default_rng(seed)
    for start in range(0, count, _BATCH):
        labels = random.integers(0, DIGITS, min(_BATCH, count - start))
        pixels = np.stack([_drawn(int(digit), random) for digit in labels])
        yield ImageBatch(pixels=pixels[..., None], labels=tuple(labels.tolist()))


def _drawn(digit: int, random: np.random.Generator) -> npt.NDArray[np.uint8]:
    glyph = _glyph(
        _FONTS[random.integers(len(_FONTS))], digit, _PENS[random.integers(len(_PENS))]
    )
    angle, slant = random.normal(0, 0.15), random.normal(0.1, 0.2)
    narrow, size = np.exp(random.normal(0, 0.12)), np.exp(random.normal(0, 0.06))
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    # From places in the image to places on the canvas, which is what Pillow asks for.
    matrix = _LARGER * size * turn @ np.array([[narrow, slant], [0, 1]])
    corner = _CANVAS / 2 - matrix @ (
        np.array([SIDE, SIDE]) / 2 + random.normal(0, 0.7, 2)
    )
    affine, smooth = Image.Transform.AFFINE, Image.Resampling.BILINEAR
    bent = glyph.transform(
        (SIDE, SIDE),
        affine,
        (*matrix[0], corner[0], *matrix[1], corner[1]),
        resample=smooth,
    )
    # A lower threshold makes thicker strokes.
    ink = (np.asarray(bent, dtype=np.float64) / 255 - random.uniform(0.1, 0.4)) * 2.5
    return np.rint(np.clip(ink, 0, 1) * 255).astype(np.uint8)


@cache
def _glyph(font: str, digit: int, pen: float) -> Image.Image:
    """Returns a digit in the middle of the canvas, light on dark, with soft edges."""
    letters = font_of(font, _GLYPH)
    canvas = Image.new("L", (_CANVAS, _CANVAS))
    left, top, right, bottom = letters.getbbox(str(digit))
    place = ((_CANVAS - left - right) / 2, (_CANVAS - top - bottom) / 2)
    ImageDraw.Draw(canvas).text(
        place, str(digit), font=letters, fill=255, stroke_width=1, stroke_fill=255
    )
    return canvas.filter(ImageFilter.GaussianBlur(pen))
