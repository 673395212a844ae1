"""Synthetic images as people's programs want them: whole intensities from 0 to 255, and labels by value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.records import Images, Rows
from noisegate.schema import Schema
from noisegate.schema.decode import as_images, decode

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageBatch:
    """Some synthetic images.

    Attributes:
        pixels: uint8, (rows, height, width, channels); 0 is dark.
        labels: The label of each image, as the schema has it; None where images have none.
    """

    pixels: npt.NDArray[np.uint8]
    labels: tuple[str | int, ...] | None

    def __post_init__(self) -> None:
        if self.pixels.dtype != np.uint8 or self.pixels.ndim != 4:
            raise ValueError(f"expected four axes of uint8, found {self.pixels.dtype} of shape {self.pixels.shape}")
        if self.labels is not None and len(self.labels) != len(self.pixels):
            raise ValueError(f"{len(self.labels)} labels for {len(self.pixels)} images")

    def __len__(self) -> int:
        return len(self.pixels)


def image_batch(records: Rows, schema: Schema) -> ImageBatch:
    """Returns images with their labels by value; an OptionError if the schema is none of images."""
    if schema.images is None:
        raise OptionError("the schema is of a table, not of images; describe them with noisegate.schema.pixel_schema.")
    images, levels = as_images(records, schema.images), schema.images.labels
    labels = None if images.labels is None else tuple(levels[code] for code in images.labels)
    return ImageBatch(pixels=images.pixels, labels=labels)


def pixel_table(batch: ImageBatch, schema: Schema) -> pa.Table:
    """Returns images as the Arrow table that `Synthesizer.sample` makes of them."""
    codes = {label: code for code, label in enumerate(schema.images.labels if schema.images is not None else ())}
    labels = None if batch.labels is None else np.array([codes[label] for label in batch.labels], dtype=np.int32)
    return decode(Images(batch.pixels, labels), schema)
