"""Images as the evaluation wants them: pixels from 0 to 255 and class codes, wherever they come from.

The files of images are decoded in one place of the library, by the rules of the schema. What they are decoded to is
public knowledge (:class:`~noisegate.schema.EncodedTable`), so the evaluation takes that, or plain arrays, and never
reaches for the reader itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from noisegate.errors import DataError, SchemaError
from noisegate.evaluation.training import LabelledRows
from noisegate.schema import EncodedTable, ImageForm, Schema


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageSet:
    """Images in memory.

    Attributes:
        pixels: uint8, (rows, height, width, channels).
        labels: int64 positions among the labels of the form, (rows,); None for images without labels.
    """

    pixels: np.ndarray
    labels: np.ndarray | None

    def __len__(self) -> int:
        """Number of images."""
        return len(self.pixels)

    def check(self, what: str, form: ImageForm) -> None:
        """Make sure that these are images of a form.

        Args:
            what: names them in an error, for instance "synthetic".
            form: what images there may be.

        Raises:
            DataError: there is none, or pixels or labels are of another shape, type or range.
        """
        shape = form.shape
        wanted = (shape.height, shape.width, shape.channels)
        if self.pixels.ndim != 4 or self.pixels.shape[1:] != wanted or self.pixels.dtype != np.uint8:
            raise DataError(
                f"the {what} images have the shape {self.pixels.shape} and the type {self.pixels.dtype}; expected "
                f"uint8 of shape (rows, {shape.height}, {shape.width}, {shape.channels})"
            )
        if not len(self):
            raise DataError(f"there are no {what} images; expected at least one")
        if (self.labels is None) != (form.label is None):
            raise DataError(f"the {what} images and the schema do not agree about labels; give both or neither")
        if self.labels is not None and self.labels.shape != (len(self),):
            raise DataError(f"the {what} images have {len(self.labels)} labels; expected one for each of {len(self)}")

    def rows(self, *, scaled: bool = False) -> LabelledRows:
        """Give the images as rows for classifiers; they have labels.

        Args:
            scaled: as float32 in [0, 1], four times as large, instead of uint8.
        """
        assert self.labels is not None
        flat = self.pixels.reshape(len(self), -1)
        features = flat.astype(np.float32) / np.float32(255) if scaled else flat
        return LabelledRows(features=features, labels=self.labels)

    def first(self, count: int, *, seed: int) -> np.ndarray:
        """Give the pixels of at most ``count`` images, drawn without replacement if there are more.

        Args:
            count: at least 1.
            seed: of the draw; public.
        """
        if len(self) <= count:
            return self.pixels
        picked: np.ndarray = self.pixels[np.random.default_rng(seed).choice(len(self), count, replace=False)]
        return picked


def images_of(batches: Iterable[EncodedTable], schema: Schema) -> ImageSet:
    """Gather encoded images, as the sources of the library and its generators give them.

    Args:
        batches: intensities in [0, 1], and the label as the one coded column if there is one.
        schema: of images.

    Raises:
        SchemaError: the schema is not one of images.
        DataError: there are no images.
    """
    form = schema.images
    if form is None:
        raise SchemaError("the schema describes a table; describe images with noisegate.schema.pixel_schema(...)")
    shape = form.shape
    pixels: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    for batch in batches:
        # Small numbers at once: as encoded, an image takes eight times the memory.
        grid = np.rint(batch.numeric * 255).astype(np.uint8)
        pixels.append(grid.reshape(-1, shape.height, shape.width, shape.channels))
        if form.label is not None:
            labels.append(batch.codes[:, 0].astype(np.int64))
    if not sum(map(len, pixels)):
        raise DataError("there are no images; expected at least one")
    return ImageSet(pixels=np.concatenate(pixels), labels=np.concatenate(labels) if labels else None)


def images_of_arrays(pixels: np.ndarray, labels: Sequence[str | int] | np.ndarray | None, form: ImageForm) -> ImageSet:
    """Take arrays, such as the ``images`` and ``labels`` of an ``.npz`` file.

    Args:
        pixels: uint8, (rows, height, width, channels), or (rows, height, width) with one channel.
        labels: one of the labels of the form for each image; None without labels.
        form: what images there may be.

    Raises:
        DataError: the arrays are no images of the form, or a label is none of its labels.
    """
    if pixels.ndim == 3:
        pixels = pixels[..., None]
    codes = None
    if labels is not None:
        places = {label: place for place, label in enumerate(form.labels)}
        values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
        unknown = sum(value not in places for value in values)
        if unknown:
            raise DataError(
                f"{unknown} of {len(values)} images have a label that is none of the {len(places)} labels of the "
                "schema; correct one of them"
            )
        codes = np.array([places[value] for value in values], dtype=np.int64)
    images = ImageSet(pixels=pixels, labels=codes)
    images.check("given", form)
    return images
