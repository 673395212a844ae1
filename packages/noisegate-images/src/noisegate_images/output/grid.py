"""One picture of some synthetic images of each class, to be looked at.

It costs no privacy: it shows what was sampled. Each class has a row; many classes stand in several blocks side by side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.atomic import new_file
from noisegate.models.output.sample_file import ImageBatch
from noisegate.schema.pixels import ImageForm
from noisegate_images.output.formats import check_drawable

if TYPE_CHECKING:
    from PIL import ImageFont
    from PIL.Image import Image

    Font: TypeAlias = ImageFont.FreeTypeFont | ImageFont.ImageFont

MOST_CLASSES = 100
"""Classes in a picture at most, the first ones of the schema: more would not be looked at."""

_ROWS = 20  # of a block of classes
_ACROSS, _ACROSS_BLOCKS = 10, 5  # images of a class, where there is one block or more
_LEAST_SIDE, _GAP, _LETTERS = 56, 4, 14  # pixels of the picture
_MOST_NAME = 24
_PAPER, _NOTHING, _INK = 255, 225, 40  # grey


class SampleGrid:
    """Gathers the first images of each class, and draws them to `out`.

    Raises:
        OptionError: if images are neither grey nor colour.
    """

    most_classes: ClassVar[int] = MOST_CLASSES

    def __init__(self, *, form: ImageForm, out: Path) -> None:
        self.form, self.out = form, out
        self._mode = check_drawable(form.shape, out, "grid")
        labels: tuple[str | int | None, ...] = form.labels[:MOST_CLASSES] or (None,)
        self._found: dict[str | int | None, list[npt.NDArray[np.uint8]]] = {label: [] for label in labels}

    @property
    def across(self) -> int:
        """How many images of a class are shown; without classes, of a row."""
        return _ACROSS if len(self._found) <= _ROWS else _ACROSS_BLOCKS

    def add(self, batch: ImageBatch) -> None:
        """Takes the images that are needed yet."""
        wanted = self.across if batch.labels is not None else self.across**2
        labels: tuple[str | int | None, ...] = batch.labels or (None,) * len(batch)
        for label, pixels in zip(labels, batch.pixels, strict=True):
            found = self._found.get(label)
            if found is not None and len(found) < wanted:
                found.append(pixels.copy())

    def draw(self) -> Image:
        """Returns the picture; where there were too few images of a class, places stay empty."""
        from PIL import Image, ImageDraw

        # Small images are enlarged by whole pixels, so that they stay as they are.
        scale = max(math.ceil(_LEAST_SIDE / max(self.form.shape.height, self.form.shape.width)), 1)
        side_y, side_x = scale * self.form.shape.height, scale * self.form.shape.width
        rows = list(self._rows())
        names = max((math.ceil(_font().getlength(name)) + 2 * _GAP for name, _ in rows if name), default=0)
        width = names + self.across * (side_x + _GAP) + _GAP
        size = (math.ceil(len(rows) / _ROWS) * width, min(len(rows), _ROWS) * (side_y + _GAP) + _GAP)
        picture = Image.new(self._mode, size, self._grey(_PAPER))
        pencil = ImageDraw.Draw(picture)
        for place, (name, images) in enumerate(rows):
            left, top = place // _ROWS * width, place % _ROWS * (side_y + _GAP) + _GAP
            middle = (left + names - _GAP, top + side_y // 2)
            pencil.text(middle, name, fill=self._grey(_INK), font=_font(), anchor="rm")
            for column in range(self.across):
                x, y = left + names + _GAP + column * (side_x + _GAP), top
                if column < len(images):
                    flat = images[column][:, :, 0] if self._mode == "L" else images[column]
                    picture.paste(Image.fromarray(flat.repeat(scale, axis=0).repeat(scale, axis=1)), (x, y))
                else:
                    pencil.rectangle(((x, y), (x + side_x - 1, y + side_y - 1)), outline=self._grey(_NOTHING))
        return picture

    def write(self) -> None:
        """Writes the picture to `out`, a new PNG file."""
        with new_file(self.out, "grid") as path:
            self.draw().save(path, format="png")

    def _rows(self) -> Iterator[tuple[str, list[npt.NDArray[np.uint8]]]]:
        """Yields the name and the images of each row."""
        for label, images in self._found.items():
            if label is not None:
                yield _shortened(str(label)), images
                continue
            for start in range(0, max(len(images), 1), self.across):
                yield "", images[start : start + self.across]

    def _grey(self, level: int) -> int | tuple[int, int, int]:
        return level if self._mode == "L" else (level, level, level)


def _shortened(name: str) -> str:
    plain = " ".join(name.split())
    return plain if len(plain) <= _MOST_NAME else f"{plain[: _MOST_NAME - 1]}…"


@cache
def _font() -> Font:
    """Returns matplotlib's font, which knows more alphabets than Pillow's own."""
    from PIL import ImageFont

    found = find_spec("matplotlib")  # finds it without importing it
    folder = Path(found.origin).parent if found is not None and found.origin is not None else Path()
    try:
        return ImageFont.truetype(folder / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf", _LETTERS)
    except OSError:
        return ImageFont.load_default(_LETTERS)
